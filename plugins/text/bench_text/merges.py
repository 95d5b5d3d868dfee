"""Byte pair merges, applied to words as subword-nmt does, with optional dropout; does not import torch.

Pieces of `codes` that do not end a word end with `@@`. Names of `bpe` pieces have one character per byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

from bench_core import DataError
from bench_text.corpora import read_text
from bench_text.raw_text import sign_level, utf8, words_and_gaps

UNKNOWN = "<unk>"
SEPARATOR, END = "@@", "</w>"  # after a piece inside a word; the end of a word in code files
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Merges:
    """Merges of symbols in order of priority, and the segmentation of words with these merges."""

    kind: Literal["bpe", "codes"]
    pairs: Sequence[Pair]
    dropout: float = 0.0  # probability of skipping a possible merge at each step
    apart: bool = False  # whether the end of a word is a separate symbol, as in codes of version 0.1
    known: Set[str] | None = None  # allowed pieces; others are split further; default: all
    _cache: dict[str, list[str]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def ranks(self) -> Mapping[Pair, int]:
        """The priority of each merge; for duplicates, the priority of the first."""
        return {pair: rank for rank, pair in reversed([*enumerate(self.pairs)])}

    @cached_property
    def parts(self) -> Mapping[str, Pair]:
        """The two symbols of each merged symbol."""
        return {"".join(pair): pair for pair in self.ranks}

    def cut(self, text: str, random: Random | None = None) -> list[str]:
        """Return the names of the pieces of a text; with `random`, apply dropout."""
        words = words_and_gaps(text) if self.kind == "bpe" else filter(None, text.strip("\r\n ").split(" "))
        return [piece for word in words for piece in self._pieces(word, random)]

    def _pieces(self, word: str, random: Random | None) -> list[str]:
        if word == (f" {UNKNOWN}" if self.kind == "bpe" else UNKNOWN):
            return [UNKNOWN]
        if random is not None and self.dropout:
            return self._segment(word, random)
        if word not in self._cache:
            self._cache[word] = self._segment(word, None)
        return self._cache[word]

    def _segment(self, word: str, random: Random | None) -> list[str]:
        if self.kind == "bpe":
            return merge([*sign_level(utf8(word))], self.ranks, random, self.dropout)
        return [*self._whole(word, random)]

    def _whole(self, word: str, random: Random | None) -> Iterator[str]:
        """Yield the `codes` pieces of a word; all except the last end with a separator."""
        if len(word) == 1:
            yield word
            return
        symbols = [*word, END] if self.apart else [*word[:-1], word[-1] + END]
        merged = merge(symbols, self.ranks, random, self.dropout)
        merged = merged[:-1] if merged[-1] == END else [*merged[:-1], merged[-1].removesuffix(END)]
        for number, piece in enumerate(merged, 1):
            yield from self._within(piece, number == len(merged))

    def _within(self, piece: str, last: bool) -> Iterator[str]:
        """Yield a piece, or recursively its parts until they are allowed or cannot be split."""
        name, key = (piece, piece + END) if last else (piece + SEPARATOR, piece)
        if self.known is None or name in self.known or key not in self.parts:
            yield name
            return
        left, right = self.parts[key]
        if last and right == END:  # the end of a word is not a piece
            yield from self._within(left, True)
            return
        yield from self._within(left, False)
        yield from self._within(right.removesuffix(END) if last else right, last)

    @property
    def names(self) -> list[str]:
        """The sorted names of all pieces of `codes` that merges can produce."""
        whole = {"".join(pair) for pair in self.pairs}
        final = {piece.removesuffix(END) for piece in whole if self.apart or piece.endswith(END)}
        inside = {piece + SEPARATOR for piece in whole if not piece.endswith(END)}
        pieces = final | inside
        return sorted(pieces if self.known is None else pieces & self.known)

    @property
    def plain(self) -> dict[str, Any]:
        """The merges as JSON data."""
        known = None if self.known is None else sorted(self.known)
        return {
            "kind": self.kind,
            "pairs": [*self.pairs],
            "dropout": self.dropout,
            "apart": self.apart,
            "known": known,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Merges:
        """Inverse of `plain`."""
        known = None if plain["known"] is None else frozenset(plain["known"])
        return cls(**{**plain, "pairs": [(left, right) for left, right in plain["pairs"]], "known": known})


def merge(
    symbols: list[str], ranks: Mapping[Pair, int], random: Random | None = None, dropout: float = 0.0
) -> list[str]:
    """Repeatedly merge all adjacent pairs of the lowest rank, until no pair has a rank.

    With `random`, each pair is skipped with probability `dropout` at each step (Provilkov et al., 2020, section 3),
    sampled as in subword-nmt.
    """
    while len(symbols) > 1:
        pairs = [
            (ranks[pair], position)
            for position, pair in enumerate(pairwise(symbols))
            if (random is None or random.random() > dropout) and pair in ranks
        ]
        if not pairs:
            break
        lowest = min(pairs)[0]
        merged, position = [], 0
        for start in (start for rank, start in pairs if rank == lowest):
            if start >= position:  # of three equal symbols, the first two are merged
                merged += [*symbols[position:start], symbols[start] + symbols[start + 1]]
                position = start + 2
        symbols = merged + symbols[position:]
    return symbols


def read_codes(path: Path) -> tuple[list[Pair], bool]:
    """Read a file of `subword-nmt learn-bpe`; return its merges, and whether word ends are separate symbols.

    Raises DataError naming the first invalid line or the unknown version.
    """
    lines = read_text(path).rstrip("\n").split("\n")
    version = re.fullmatch(r"#version:\s*(\d+\.\d+)(\.0+)*", lines[0].strip())
    if lines[0].startswith("#version:") and (not version or version[1] not in ("0.1", "0.2")):
        raise DataError(f"{path}:1: unknown version {lines[0]!r}. Supported versions are 0.1 and 0.2.")
    pairs = [tuple(line.strip("\r\n ").split(" ")) for line in lines[bool(version) :]]
    for number, pair in enumerate(pairs, 1 + bool(version)):
        if len(pair) != 2 or not all(pair):
            raise DataError(
                f"{path}:{number}: {lines[number - 1][:60]!r} is not a merge, i.e. two pieces separated by a space. "
                "Use the output of `subword-nmt learn-bpe`."
            )
    return [(pair[0], pair[1]) for pair in pairs], not version or version[1] == "0.1"


def read_vocabulary(path: Path, threshold: int) -> frozenset[str]:
    """Read a file of `subword-nmt get-vocab`; return the pieces that occur at least `threshold` times.

    Raises DataError naming the first invalid line.
    """
    pieces = set()
    for number, line in enumerate(read_text(path).rstrip("\n").split("\n"), 1):
        word, _, count = line.strip("\r\n ").rpartition(" ")
        if not word or " " in word or not count.isdecimal():
            raise DataError(
                f"{path}:{number}: {line[:60]!r} is not a piece and its count, separated by a space. Use the output "
                "of `subword-nmt get-vocab`."
            )
        if int(count) >= threshold:
            pieces.add(word)
    if not pieces:
        raise DataError(f"{path}: no piece occurs {threshold} times. Set a lower `threshold`.")
    return frozenset(pieces)
