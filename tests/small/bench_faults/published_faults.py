"""Faults of published models, and of texts that they cannot read or score."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench_faults.fault import fault
from bench_faults.place import Place


def _scored(place: Place) -> None:
    """Have all targets scored, of prompts and targets that the tokens of the published model write."""
    place.settings["metrics"] = {"nats": {"name": "perplexity"}}
    place.settings.pop("decoders")
    for row in place.rows["test.jsonl"]:
        row |= {"title": "ab", "story": "cab"}


def _set(place: Place, name: str, **changed: object) -> None:
    """Change a JSON file of the published model."""
    found = json.loads(place.read(f"gpt2/{name}"))
    place.file(f"gpt2/{name}", json.dumps(found | changed).encode())


@fault("a published model that ends texts by a token inside a target", "published")
def _(place: Place) -> Sequence[str]:
    _scored(place)
    place.settings["models"]["gpt2"]["control_tokens"] = True
    place.rng.choice(place.rows["test.jsonl"])["story"] = "a</s>b"
    return ["</s>", "inside"]


@fault("a published model that ends texts by a frequent token", "published")
def _(place: Place) -> Sequence[str]:
    from tokenizers import Tokenizer

    _scored(place)
    tokenizer = Tokenizer.from_str(place.read("gpt2/tokenizer.json").decode())
    _set(place, "generation_config.json", eos_token_id=[2, tokenizer.token_to_id("c")])
    place.rng.choice(place.rows["test.jsonl"])["story"] = "a bad ccc"
    return ["'c'", "inside"]


@fault("a chat with a model that has no template", "published")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["gpt2"]["chat"] = True
    return ["no chat template"]


@fault("a stop string that no tokens spell", "published")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["gpt2"]["stop"] = ["\u65e5"]
    return ["\u65e5", "never appear"]


@fault("a description of another vocabulary", "published")
def _(place: Place) -> Sequence[str]:
    _set(place, "config.json", vocab_size=place.rng.choice([10, 39, 41]))
    return ["vocab_size", "40 tokens"]


@fault("an end of texts that is no token", "published", late=True)
def _(place: Place) -> Sequence[str]:
    _set(place, "generation_config.json", eos_token_id=place.rng.choice([40, 50256]))
    return ["ends texts by token"]


@fault("no end of texts", "published", late=True)
def _(place: Place) -> Sequence[str]:
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        _set(place, name, **dict.fromkeys(["eos_token_id", "eos_token"]))
    return ["neither config.json nor the tokenizer", "eos_token_id"]


@fault("an end of texts that no file names", "published", late=True)
def _(place: Place) -> Sequence[str]:
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        found = json.loads(place.read(f"gpt2/{name}"))
        left = {key: value for key, value in found.items() if not key.startswith("eos_token")}
        place.file(f"gpt2/{name}", json.dumps(left).encode())
    return ["eos_token_id"]


@fault("a target longer than the positions of a published model", "published")
def _(place: Place) -> Sequence[str]:
    _scored(place)
    place.rng.choice(place.rows["test.jsonl"])["story"] = "fed abc " * 30
    return ["target", "64 positions", "stride"]


@fault("a prompt longer than the positions of a published model", "published")
def _(place: Place) -> Sequence[str]:
    place.rng.choice(place.rows["test.jsonl"])["title"] = "fed abc " * 40
    return ["prompt", "64 positions"]
