"""A corpus built from Python's standard library: its lines of code, with pseudo-code by rules."""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tokenize import TokenError, generate_tokens
from typing import TypeAlias

from bench_code_generation.pseudo_code import python, said
from bench_core import Split
from bench_language_modeling.api import cpython
from bench_text.api import SPLITS

MOST = 30  # words of a line of code

VERSION = cpython.VERSION
digest = cpython.digest
sources = cpython.sources

Pair: TypeAlias = tuple[str, str]  # pseudo-code and code, words separated by single spaces


def pairs(files: Iterable[tuple[str, Path]]) -> Mapping[Split, Sequence[Pair]]:
    """Return the pairs of named files; a file is wholly in one split, and a pair stands where it occurs first."""
    found: dict[Split, dict[str, str]] = {split: {} for split in SPLITS}
    seen: set[str] = set()
    for name, path in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in strings
            tree = ast.parse(path.read_bytes())
        for english, line in said(tree):
            if english in seen:
                continue
            seen.add(english)
            if code := spaced(python(line)):
                found[cpython.split(name)][english] = code
    return {split: list(each.items()) for split, each in found.items()}


def choose(found: Mapping[Split, Sequence[Pair]], number: int) -> dict[Split, list[Pair]]:
    """Return at most so many pairs to train on and a tenth of it for the others, spaced evenly over the files."""
    sizes = {split: min(len(each), number if split == "train" else number // 10) for split, each in found.items()}
    return {split: [found[split][place] for place in _spread(len(found[split]), sizes[split])] for split in found}


def _spread(number: int, chosen: int) -> Iterator[int]:
    return (place * number // chosen for place in range(chosen))


def spaced(code: str) -> str | None:
    """Return one line of Python with spaces between its tokens, or None if that changes it or it is too long."""
    try:
        tokens = [token.string for token in generate_tokens(StringIO(code).readline)]
    except TokenError:
        return None
    line = " ".join(token for token in tokens if token.strip())
    words = line.split()
    return line if len(words) <= MOST and line == " ".join(words) else None
