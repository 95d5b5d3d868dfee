"""Settings of served models and of requests to them; does not import torch."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
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

#: Fields of a request that are determined by settings; `more` cannot set them.
RESERVED_FIELDS = {
    "echo", "logprobs", "max_tokens", "messages", "model", "n", "prompt", "seed", "stop", "stream", "temperature",
    "top_k", "top_p",
}  # fmt: skip
REMOVABLE = {"logprobs", "max_tokens", "seed", "temperature"}  #: fields that `more: {FIELD: null}` removes


class Served(TextGenerator):
    """Generates texts by requests to a server."""


def _base_url(url: str) -> str:
    """Return a base URL without its final slash; raise ValueError unless it is an http or https URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "an address must have no user, password or query, which could be secrets. Set `key_env` to the name of "
            "an environment variable that holds the key"
        )
    path = parts.path.rstrip("/")
    if path.endswith("/completions"):
        raise ValueError("expected the base URL, such as http://localhost:8000/v1, without /completions")
    return f"{parts.scheme}://{parts.netloc}{path}"


class ServedConfig(ModelConfig):
    """A model on a server with the OpenAI completions or chat API, such as vLLM, llama.cpp, Ollama or transformers.

    A remote model cannot be digested: `model` and `revision` stand for it in cache keys. Keys do not contain
    the address, so the same model at another address reuses cached responses.
    """

    name, target = "served", "bench_served.model:ServedModel"
    inspector = "bench_served.inspecting:inspect"
    capabilities = {Served, TextScorer}
    sources = {Source.NONE, Source.TOKENS, Source.BAG}
    likelihoods = {"exact": Kind.EXACT}
    access = {"url", "key_env", "parallel", "rate", "timeout", "retries"}

    url: Annotated[str, AfterValidator(_base_url)] = "http://localhost:8000/v1"  #: base URL of the API
    model: str = Field(min_length=1)  #: the server's name for the model
    revision: str = Field(min_length=1)  #: your label for the state of the model; change it when the model changes
    reported: str | None = None  #: the model name in the server's responses, if it differs from `model`
    api: Literal["completions", "chat"] = "completions"  #: `completions` continues the prompt, `chat` answers it
    system: str | None = None  #: chat: the system message
    prompt: str = "{prompt}"  #: the text to send; {prompt} is the source of an example, or else its prompt
    scores: bool = False  #: whether the API returns log-probabilities of prompts (`echo`), as vLLM does
    scored: str = "{target}"  #: the text to score after the prompt, such as " {target}"; {target} is the reference
    end: str | None = None  #: text of the server's EOS token, such as `</s>`; by default EOS is not scored
    key_env: str | None = None  #: environment variable that holds the secret key, such as OPENAI_API_KEY
    parallel: PositiveInt = 8  #: concurrent requests, per process
    rate: PositiveFloat | None = None  #: requests per minute, per process; by default unlimited
    timeout: PositiveFloat = 300.0  #: maximum seconds for a whole response
    retries: NonNegativeInt = 6  #: retries after overload, server error, timeout or incomplete response

    @field_validator("prompt", "scored")
    @classmethod
    def _has_place(cls, template: str, info: ValidationInfo) -> str:
        name = "target" if info.field_name == "scored" else "prompt"
        if f"{{{name}}}" not in template:
            raise ValueError(f"the template needs {{{name}}}, which is replaced by the {name} of an example")
        return template

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.system is not None and self.api != "chat":
            raise ValueError("completions have no system message. Put it into `prompt`, or set `api: chat`")
        if self.scores and self.api != "completions":
            raise ValueError("chats have no log-probabilities of prompts. Set `api: completions`, or `scores: false`")
        return self

    def lacks(self, capability: type[Model]) -> str | None:
        if issubclass(capability, Scorer) and not self.scores:
            return "a served model scores targets only with `scores: true`, which needs an API with `echo`."
        return None


class RequestConfig(DecoderConfig):
    """Requests to a served model, with sampling settings.

    At temperature 0, all seeds of a suite share one cell. Above 0, the seed of a request is derived from the seed of
    the cell, the example and the number of the sample. Servers may ignore the seed; responses are cached in any case.
    """

    name, target, needs = "request", "bench_core:TextDecoder", Served

    temperature: NonNegativeFloat = 0.0  #: 0 selects the most probable token
    top_p: float | None = Field(None, gt=0, le=1)  #: total probability of the candidate tokens (nucleus sampling)
    top_k: PositiveInt | None = None  #: number of candidate tokens
    stop: tuple[str, ...] = ()  #: strings before which a response is truncated
    thinking: Thinking = "refuse"  #: how to treat `<think>...</think>`: `refuse` (an error), `drop` or `keep`
    n: PositiveInt = 1  #: samples per prompt, one request each, in the order of sampling
    more: dict[str, Any] = {}  #: further fields of the request; null removes a field, such as `seed: null`

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise ValueError("a stop string needs at least one character")
        return value

    @field_validator("more")
    @classmethod
    def _is_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"fields of a request must be JSON ({error})") from None
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        settable = {"logprobs", *(name for name in REMOVABLE if self.more.get(name) is None)}
        if reserved := sorted({*self.more} & RESERVED_FIELDS - settable):
            raise ValueError(f"`more` cannot set {', '.join(reserved)}, which other settings determine")
        if self.n > 1 and not self.temperature:
            raise ValueError("at temperature 0 all samples are equal. Set `n: 1`, or a `temperature` above 0")
        return self

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked if self.temperature else asked[:1]

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of a request that do not depend on the example."""
        fields = {
            "max_tokens": self.max_tokens, "temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k,
            "stop": [*self.stop] or None, **self.more,
        }  # fmt: skip
        return {name: value for name, value in fields.items() if value is not None}


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Config of served models."""
    return [ServedConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the Config of requests."""
    return [RequestConfig]
