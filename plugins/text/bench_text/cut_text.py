"""Texts that a task cuts in two, what stands between, and the digest of what is asked; imports no torch."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """An example to decode, as text."""

    id: int
    references: list[str]
    prompt: str | None  # the source, or else the prompt; None: neither is known as a text
    separator: str | None = None  # between prompt and target; None: that of the Config


def cut(text: str, rest: str, kind: str) -> tuple[str | None, str | None]:
    """Return what stands before the rest of a text that a `kind` of tokenizer was cut, and what stands between.

    Both are None where the rest is not the end of the text, because the tokenizer changes texts.
    """
    if not text.endswith(rest):
        return None, None
    head = text[: len(text) - len(rest)]
    prompt = head if kind == "char" or not rest else head.rstrip()
    return prompt, head[len(prompt) :]


def after_words(text: str, number: int) -> str:
    """Return a text after its first words, and the white space behind these."""
    found = re.match(rf"\s*+(?:\S++(?:\s++|$)){{{number}}}", text) if number else re.match("", text)
    return text[found.end() :] if found else ""


def are_spaced(pairs: Iterable[tuple[str | None, str]]) -> bool:
    """Return whether there is white space already between all prompts and targets; False where there are none."""
    borders = [(prompt[-1], target[0]) for prompt, target in pairs if prompt and target]
    return bool(borders) and all(end.isspace() or begin.isspace() for end, begin in borders)


def digest_of(rows: Sequence[Asked]) -> str:
    """Return the first digits of the sha256 of all that models are asked: prompts, separators, first references."""
    plain: list[Any] = [[row.id, row.prompt, row.separator, *row.references[:1]] for row in rows]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:12]
