"""Settings of models behind an address, and of requests to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bench_core import (
    DecoderConfig,
    Kind,
    Model,
    ModelConfig,
    Scorer,
    Source,
    TextGenerator,
    TextScorer,
    Thinking,
    hookimpl,
)

#: Fields of a request that settings decide; `more` can only leave them out, by null.
OWN_FIELDS = {
    "echo", "logprobs", "max_tokens", "messages", "model", "n", "prompt", "seed", "stop", "stream", "temperature",
    "top_k", "top_p",
}  # fmt: skip
FREE = {"logprobs", "max_tokens", "seed", "temperature"}  #: of these, what may be left out; `logprobs` may be set


class Served(TextGenerator):
    """Answers requests at an address."""


def _base(url: str) -> str:
    """Return an address without its final slash; raise ValueError unless it is a base of http or https."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is an address such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "an address has no user, password or query, which could be secrets. Name the environment variable of a "
            "key under `key_env`"
        )
    path = parts.path.rstrip("/")
    if path.endswith("/completions"):
        raise ValueError("it is the base of all addresses, such as http://localhost:8000/v1, without /completions")
    return f"{parts.scheme}://{parts.netloc}{path}"


class ServedConfig(ModelConfig):
    """A model behind an address: OpenAI-compatible completions or chat, as of vLLM, llama.cpp, Ollama, transformers.

    Nobody can digest a model elsewhere: `model` and `revision` stand for it in keys. The address does not count, so
    the same model served elsewhere gives the same keys, and is not asked again.
    """

    name, target = "served", "bench_served.model:ServedModel"
    inspector = "bench_served.inspecting:inspect"
    capabilities = {Served, TextScorer}
    sources = {Source.NONE, Source.TOKENS, Source.BAG}
    likelihoods = {"exact": Kind.EXACT}
    access = {"url", "key_env", "parallel", "rate", "timeout", "retries"}

    url: Annotated[str, AfterValidator(_base)] = "http://localhost:8000/v1"  #: base of the addresses of its API
    model: str = Field(min_length=1)  #: what the server calls it
    revision: str = Field(min_length=1)  #: which state of it this is, by a label of yours that changes with it
    reported: str | None = None  #: what the server calls it in its answers, if not `model`
    api: Literal["completions", "chat"] = "completions"  #: `completions` continues a text, `chat` answers a message
    system: str | None = None  #: chat: the message of the system
    prompt: str = "{prompt}"  #: what is sent: {prompt} is the source of an example, or else its prefix
    scores: bool = False  #: whether its completions give log-probabilities of the prompt (`echo`), as vLLM's do
    scored: str = "{target}"  #: what is scored after the prompt: {target} is the reference, such as " {target}"
    end: str | None = None  #: text that the server reads as its stop token, such as `</s>`; else stop is not scored
    key_env: str | None = None  #: environment variable with the secret key, such as OPENAI_API_KEY
    parallel: PositiveInt = 8  #: requests at once, in each process
    rate: PositiveFloat | None = None  #: requests per minute, in each process; by default as many as are answered
    timeout: PositiveFloat = 300.0  #: seconds for a whole answer
    retries: NonNegativeInt = 6  #: further tries after an overload, a server error, a timeout or half an answer

    @field_validator("prompt", "scored")
    @classmethod
    def _has_place(cls, template: str, info: ValidationInfo) -> str:
        name = "target" if info.field_name == "scored" else "prompt"
        if f"{{{name}}}" not in template:
            raise ValueError(f"it has {{{name}}} where the {name} of an example goes")
        return template

    @model_validator(mode="after")
    def _fits(self) -> ServedConfig:
        if self.system is not None and self.api != "chat":
            raise ValueError("completions have no system message. Put its text into `prompt`, or set `api: chat`")
        if self.scores and self.api != "completions":
            raise ValueError("chats give no log-probabilities of prompts. Set `api: completions`, or `scores: false`")
        return self

    def lacks(self, capability: type[Model]) -> str | None:
        if issubclass(capability, Scorer) and not self.scores:
            return "a served model scores targets only with `scores: true`, which its completions must support."
        return None


class RequestConfig(DecoderConfig):
    """Requests to a served model: the settings that it samples with.

    At temperature 0 all seeds of a suite are one. Above, the seed of a request follows from that of the cell, the
    example and the number of the draw; whether a server heeds it is its own affair, as its answers are kept.
    """

    name, target, needs = "request", "bench_core:TextDecoder", Served

    temperature: NonNegativeFloat = 0.0  #: 0 takes the most probable token
    top_p: float | None = Field(None, gt=0, le=1)  #: mass of the most probable tokens that are sampled from
    top_k: PositiveInt | None = None  #: how many of the most probable tokens are sampled from
    stop: tuple[str, ...] = ()  #: texts before which an answer ends
    thinking: Thinking = "refuse"  #: what becomes of `<think>...</think>`: an error, or `drop` or `keep` it
    n: PositiveInt = 1  #: draws for each prompt, a request each, in the order of drawing
    more: dict[str, Any] = {}  #: further fields of the request, as JSON; null leaves one out, such as `seed: null`

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise ValueError("a stop text has at least one character")
        return value

    @field_validator("more")
    @classmethod
    def _is_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"fields of a request are JSON ({error})") from None
        return value

    @model_validator(mode="after")
    def _fits(self) -> RequestConfig:
        free = {"logprobs", *(name for name in FREE if self.more.get(name) is None)}
        if taken := sorted({*self.more} & OWN_FIELDS - free):
            raise ValueError(f"`more` cannot decide {', '.join(taken)}, which other settings do")
        if self.n > 1 and not self.temperature:
            raise ValueError("at temperature 0 all draws are the same. Set `n: 1`, or a temperature")
        return self

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked if self.temperature else asked[:1]

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of a request that do not depend on the example."""
        found = {
            "max_tokens": self.max_tokens, "temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k,
            "stop": [*self.stop] or None, **self.more,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Config of models behind an address."""
    return [ServedConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the Config of requests."""
    return [RequestConfig]
