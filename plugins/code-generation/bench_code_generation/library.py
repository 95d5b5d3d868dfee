"""A corpus of lines of Python's standard library with rule-based pseudo-code."""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tokenize import TokenError, generate_tokens
from typing import TypeAlias

from bench_code_generation.pseudo_code import describe, to_python
from bench_core import Split
from bench_language_modeling.api import cpython
from bench_text.api import SPLITS

MAX_WORDS = 30  # per line of code

VERSION = cpython.VERSION
digest = cpython.digest
sources = cpython.sources

Pair: TypeAlias = tuple[str, str]  # pseudo-code and code, words separated by single spaces


def pairs(files: Iterable[tuple[str, Path]]) -> Mapping[Split, Sequence[Pair]]:
    """Return the distinct pairs in named files; each pair is in the split of the first file that contains it."""
    splits: dict[Split, dict[str, str]] = {split: {} for split in SPLITS}
    seen: set[str] = set()
    for name, path in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in strings
            tree = ast.parse(path.read_bytes())
        for english, line in describe(tree):
            if english in seen:
                continue
            seen.add(english)
            if code := space_tokens(to_python(line)):
                splits[cpython.split(name)][english] = code
    return {split: list(each.items()) for split, each in splits.items()}


def choose(corpus: Mapping[Split, Sequence[Pair]], number: int) -> dict[Split, list[Pair]]:
    """Return up to `number` training pairs, and a tenth for each other split, evenly spaced over the files."""
    sizes = {split: min(len(each), number if split == "train" else number // 10) for split, each in corpus.items()}
    return {split: [corpus[split][place] for place in _spread(len(corpus[split]), sizes[split])] for split in corpus}


def _spread(number: int, size: int) -> Iterator[int]:
    return (place * number // size for place in range(size))


def space_tokens(code: str) -> str | None:
    """Return one line of Python with spaces between its tokens; None if spaces would change it or it is too long."""
    try:
        tokens = [token.string for token in generate_tokens(StringIO(code).readline)]
    except TokenError:
        return None
    line = " ".join(token for token in tokens if token.strip())
    words = line.split()
    return line if len(words) <= MAX_WORDS and line == " ".join(words) else None
