"""Requests: what is sent for an example, and by which key its answer is kept."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench_core import Generation, Prompt, Thinking
from bench_served.plugin import RequestConfig, ServedConfig

SEEDS = 2**31  #: a seed that every server can take


@dataclass(frozen=True)
class Request:
    """One request."""

    path: str  # of the API, such as /completions
    body: Mapping[str, Any]
    about: str  # the example, for messages
    revision: str
    seed: int | None = None  # of the draw, also if the body leaves it out; None where nothing is drawn
    limit: int = 0  # tokens that the answer may have at most; 0: it is not limited
    stops: tuple[str, ...] = field(default=(), compare=False)  # texts before which the answer ends
    thinking: Thinking = field(default="refuse", compare=False)  # what becomes of it in an answer
    separator: str = field(default="", compare=False)  # between prompt and answer, which is taken off

    @cached_property
    def described(self) -> dict[str, Any]:
        """Return all that its answer depends on."""
        return {"path": self.path, "revision": self.revision, "seed": self.seed, "body": dict(self.body)}

    @cached_property
    def key(self) -> str:
        """Return the sha256 of what its answer depends on."""
        return key_of(self.described)


def key_of(described: Mapping[str, Any]) -> str:
    """Return the sha256 of the description of a request."""
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def to_generate(config: ServedConfig, prompt: Prompt, generation: Generation, number: int) -> Request:
    """Return the request for a draw by its number, from 0."""
    settings: RequestConfig = generation.settings
    own = generation.noise.fork("request").fork(prompt.id).fork(number)
    seed = own.key % SEEDS if settings.temperature else None
    body = {"model": config.model, **_content(config, prompt), **settings.fields()}
    if seed is not None and "seed" not in settings.more:
        body["seed"] = seed
    path = "/chat/completions" if config.api == "chat" else "/completions"
    about = _about(prompt, generation) + (f", draw {number + 1}" if settings.n > 1 else "")
    limit = settings.max_tokens if "max_tokens" in body else 0
    between = separator(config, prompt)
    return Request(path, body, about, config.revision, seed, limit, settings.stop, settings.thinking, between)


def separator(config: ServedConfig, prompt: Prompt) -> str:
    """Return the separator of the task where an answer goes on from a prompt, unless templates say what it is."""
    glued = config.prompt.endswith("{prompt}") and config.scored.startswith("{target}")
    return prompt.separator if glued and config.api == "completions" else ""


def scored_parts(config: ServedConfig, prompt: Prompt, target: str) -> tuple[str, str]:
    """Return a prompt, and its target behind the separator."""
    between = separator(config, prompt)
    return filled(config.prompt, prompt.text, "prompt"), between + filled(config.scored, target, "target")


def to_score(config: ServedConfig, prompt: Prompt, target: str, generation: Generation) -> Request:
    """Return the request for the log-probabilities of a prompt with its target."""
    text = "".join(scored_parts(config, prompt, target)) + (config.end or "")
    body = {
        "model": config.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0,
    }  # fmt: skip
    return Request("/completions", body, _about(prompt, generation), config.revision)


def filled(template: str, text: str, name: str) -> str:
    """Return a template with a text in its place; other braces stay as they are."""
    return template.replace(f"{{{name}}}", text)


def _content(config: ServedConfig, prompt: Prompt) -> dict[str, Any]:
    text = filled(config.prompt, prompt.text, "prompt")
    if config.api == "completions":
        return {"prompt": text}
    system = [{"role": "system", "content": config.system}] if config.system is not None else []
    return {"messages": [*system, {"role": "user", "content": text}]}


def _about(prompt: Prompt, generation: Generation) -> str:
    name = f" ({prompt.name!r})" if prompt.name else ""
    return f"example {prompt.id}{name} of {generation.split!r}"
