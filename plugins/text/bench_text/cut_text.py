"""Splits texts into prompt, separator and target, and digests the inputs of decoding; does not import torch."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """An example to decode, as text."""

    id: int
    references: list[str]
    prompt: str | None  # source or else prompt; None if neither is a known text
    separator: str | None = None  # between prompt and target; None: the Config's separator


def cut(text: str, rest: str, kind: str) -> tuple[str | None, str | None]:
    """Return the prompt before `rest` in a text that a `kind` tokenizer split, and the white space between the two.

    Both are None if the text does not end with `rest`, which happens if the tokenizer changes texts.
    """
    if not text.endswith(rest):
        return None, None
    head = text[: len(text) - len(rest)]
    prompt = head if kind == "char" or not rest else head.rstrip()
    return prompt, head[len(prompt) :]


def after_words(text: str, number: int) -> str:
    """Return a text without its first `number` words and the white space after them."""
    match = re.match(rf"\s*+(?:\S++(?:\s++|$)){{{number}}}", text) if number else re.match("", text)
    return text[match.end() :] if match else ""


def are_spaced(pairs: Iterable[tuple[str | None, str]]) -> bool:
    """Return whether white space already separates every prompt from its target; False without prompts."""
    borders = [(prompt[-1], target[0]) for prompt, target in pairs if prompt and target]
    return bool(borders) and all(end.isspace() or begin.isspace() for end, begin in borders)


def digest_of(rows: Sequence[Asked]) -> str:
    """Return the first 12 hex digits of the sha256 of all prompts, separators and first references."""
    plain: list[Any] = [[row.id, row.prompt, row.separator, *row.references[:1]] for row in rows]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:12]
