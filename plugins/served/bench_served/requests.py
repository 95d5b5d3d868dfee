"""Builds the request for an example, and the key under which its response is cached."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench_core import Generation, Prompt, Thinking
from bench_served.plugin import RequestConfig, ServedConfig

SEED_LIMIT = 2**31  #: seeds are smaller, so that every server accepts them


@dataclass(frozen=True)
class Request:
    """A request; two requests with equal keys have the same response."""

    path: str  # relative to the base URL, such as /completions
    body: Mapping[str, Any]
    about: str  # names the example in messages
    revision: str
    seed: int | None = None  # distinguishes samples, even if not in the body; None at temperature 0
    limit: int = 0  # maximum number of tokens; 0: unlimited
    stops: tuple[str, ...] = field(default=(), compare=False)  # strings before which the output ends
    thinking: Thinking = field(default="refuse", compare=False)
    separator: str = field(default="", compare=False)  # removed from the beginning of the response

    @cached_property
    def description(self) -> dict[str, Any]:
        """Return everything that the response depends on."""
        return {"path": self.path, "revision": self.revision, "seed": self.seed, "body": dict(self.body)}

    @cached_property
    def key(self) -> str:
        """Return the sha256 of the description."""
        return key_of(self.description)


def key_of(description: Mapping[str, Any]) -> str:
    """Return the sha256 of the description of a request."""
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def to_generate(config: ServedConfig, prompt: Prompt, generation: Generation, number: int) -> Request:
    """Return the request for sample `number`, counted from 0."""
    settings: RequestConfig = generation.settings
    rng = generation.rng.fork("request").fork(prompt.id).fork(number)
    seed = rng.key % SEED_LIMIT if settings.temperature else None
    body = {"model": config.model, **_content(config, prompt), **settings.fields()}
    if seed is not None and "seed" not in settings.more:
        body["seed"] = seed
    path = "/chat/completions" if config.api == "chat" else "/completions"
    about = _about(prompt, generation) + (f", sample {number + 1}" if settings.n > 1 else "")
    limit = settings.max_tokens if "max_tokens" in body else 0
    between = separator(config, prompt)
    return Request(path, body, about, config.revision, seed, limit, settings.stop, settings.thinking, between)


def separator(config: ServedConfig, prompt: Prompt) -> str:
    """Return the separator of the task if outputs directly continue prompts, else the empty string."""
    adjacent = config.prompt.endswith("{prompt}") and config.scored.startswith("{target}")
    return prompt.separator if adjacent and config.api == "completions" else ""


def prompt_and_target(config: ServedConfig, prompt: Prompt, target: str) -> tuple[str, str]:
    """Return the text of a prompt, and the text of its target, which begins with the separator."""
    between = separator(config, prompt)
    return fill(config.prompt, prompt.text, "prompt"), between + fill(config.scored, target, "target")


def to_score(config: ServedConfig, prompt: Prompt, target: str, generation: Generation) -> Request:
    """Return the request for the log-probabilities of a prompt and its target."""
    text = "".join(prompt_and_target(config, prompt, target)) + (config.end or "")
    body = {
        "model": config.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0,
    }  # fmt: skip
    return Request("/completions", body, _about(prompt, generation), config.revision)


def fill(template: str, text: str, name: str) -> str:
    """Replace `{name}` in a template by a text; other braces are unchanged."""
    return template.replace(f"{{{name}}}", text)


def _content(config: ServedConfig, prompt: Prompt) -> dict[str, Any]:
    text = fill(config.prompt, prompt.text, "prompt")
    if config.api == "completions":
        return {"prompt": text}
    system = [{"role": "system", "content": config.system}] if config.system is not None else []
    return {"messages": [*system, {"role": "user", "content": text}]}


def _about(prompt: Prompt, generation: Generation) -> str:
    name = f" ({prompt.name!r})" if prompt.name else ""
    return f"example {prompt.id}{name} of {generation.split!r}"
