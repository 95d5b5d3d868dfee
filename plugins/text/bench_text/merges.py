"""Byte pair merges, applied to words as subword-nmt does, some of them left out at random; imports no torch.

Pieces of `codes` that do not end a word end with `@@`. Those of `bpe` are named by the signs of their bytes.
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
SEPARATOR, END = "@@", "</w>"  # after a piece that does not end a word; the end of a word, in files of codes
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Merges:
    """Merges of symbols, first come first, and how a word becomes symbols."""

    kind: Literal["bpe", "codes"]
    pairs: Sequence[Pair]
    dropout: float = 0.0  # the probability that a possible merge is left out, at each step
    apart: bool = False  # whether the end of a word is a symbol of its own, as in codes of version 0.1
    known: Set[str] | None = None  # the pieces that there are; others are cut further; by default all are
    _cache: dict[str, list[str]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def ranks(self) -> Mapping[Pair, int]:
        """Return the place of each merge; of equal ones, the first."""
        return {pair: rank for rank, pair in reversed([*enumerate(self.pairs)])}

    @cached_property
    def parts(self) -> Mapping[str, Pair]:
        """Return the two symbols that each merged one is made of."""
        return {"".join(pair): pair for pair in self.ranks}

    def cut(self, text: str, random: Random | None = None) -> list[str]:
        """Return the names of the pieces of a text; with `random`, merges are dropped."""
        words = words_and_gaps(text) if self.kind == "bpe" else filter(None, text.strip("\r\n ").split(" "))
        return [piece for word in words for piece in self._pieces(word, random)]

    def _pieces(self, word: str, random: Random | None) -> list[str]:
        if word == (f" {UNKNOWN}" if self.kind == "bpe" else UNKNOWN):
            return [UNKNOWN]
        if random is not None and self.dropout:
            return self._named(word, random)
        if word not in self._cache:
            self._cache[word] = self._named(word, None)
        return self._cache[word]

    def _named(self, word: str, random: Random | None) -> list[str]:
        if self.kind == "bpe":
            return merged([*sign_level(utf8(word))], self.ranks, random, self.dropout)
        return [*self._whole(word, random)]

    def _whole(self, word: str, random: Random | None) -> Iterator[str]:
        """Yield the pieces of a word of `codes`, all but the last with a separator."""
        if len(word) == 1:
            yield word
            return
        symbols = [*word, END] if self.apart else [*word[:-1], word[-1] + END]
        found = merged(symbols, self.ranks, random, self.dropout)
        found = found[:-1] if found[-1] == END else [*found[:-1], found[-1].removesuffix(END)]
        for place, piece in enumerate(found, 1):
            yield from self._within(piece, place == len(found))

    def _within(self, piece: str, last: bool) -> Iterator[str]:
        """Yield a piece, or the ones that it is made of, down to those that are known or cannot be cut."""
        name, key = (piece, piece + END) if last else (piece + SEPARATOR, piece)
        if self.known is None or name in self.known or key not in self.parts:
            yield name
            return
        left, right = self.parts[key]
        if last and right == END:  # the end of a word is no piece
            yield from self._within(left, True)
            return
        yield from self._within(left, False)
        yield from self._within(right.removesuffix(END) if last else right, last)

    @property
    def names(self) -> list[str]:
        """Return the names of all pieces of `codes` that merges can make, sorted."""
        whole = {"".join(pair) for pair in self.pairs}
        final = {piece.removesuffix(END) for piece in whole if self.apart or piece.endswith(END)}
        inside = {piece + SEPARATOR for piece in whole if not piece.endswith(END)}
        found = final | inside
        return sorted(found if self.known is None else found & self.known)

    @property
    def plain(self) -> dict[str, Any]:
        """Return all of it as JSON data."""
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
        """Return what `plain` gave."""
        known = None if plain["known"] is None else frozenset(plain["known"])
        return cls(**{**plain, "pairs": [(one, other) for one, other in plain["pairs"]], "known": known})


def merged(
    symbols: list[str], ranks: Mapping[Pair, int], random: Random | None = None, dropout: float = 0.0
) -> list[str]:
    """Merge adjacent symbols until no pair has a rank, the lowest rank first; each time all pairs of that rank.

    With `random`, each pair is left out of a step with probability `dropout` (Provilkov et al., 2020, section 3),
    drawn as subword-nmt draws it.
    """
    while len(symbols) > 1:
        pairs = [
            (ranks[pair], place)
            for place, pair in enumerate(pairwise(symbols))
            if (random is None or random.random() > dropout) and pair in ranks
        ]
        if not pairs:
            break
        lowest = min(pairs)[0]
        merging, place = [], 0
        for start in (start for rank, start in pairs if rank == lowest):
            if start >= place:  # of three equal symbols the first two are merged
                merging += [*symbols[place:start], symbols[start] + symbols[start + 1]]
                place = start + 2
        symbols = merging + symbols[place:]
    return symbols


def read_codes(path: Path) -> tuple[list[Pair], bool]:
    """Return the merges of a file of `subword-nmt learn-bpe`, and whether ends of words are symbols of their own.

    Raises DataError that names the line that is no merge, or the version that is not known.
    """
    lines = read_text(path).rstrip("\n").split("\n")
    version = re.fullmatch(r"#version:\s*(\d+\.\d+)(\.0+)*", lines[0].strip())
    if lines[0].startswith("#version:") and (not version or version[1] not in ("0.1", "0.2")):
        raise DataError(f"{path}:1: {lines[0]!r} is not known; codes of version 0.1 and 0.2 are.")
    pairs = [tuple(line.strip("\r\n ").split(" ")) for line in lines[bool(version) :]]
    for number, pair in enumerate(pairs, 1 + bool(version)):
        if len(pair) != 2 or not all(pair):
            raise DataError(
                f"{path}:{number}: {lines[number - 1][:60]!r} is no merge, which is two pieces with a space between. "
                "Give the codes of `subword-nmt learn-bpe`."
            )
    return [(pair[0], pair[1]) for pair in pairs], not version or version[1] == "0.1"


def read_known(path: Path, threshold: int) -> frozenset[str]:
    """Return the pieces of a file of `subword-nmt get-vocab` that occur `threshold` times or more.

    Raises DataError that names the line that is no piece and its number.
    """
    found = set()
    for number, line in enumerate(read_text(path).rstrip("\n").split("\n"), 1):
        word, _, count = line.strip("\r\n ").rpartition(" ")
        if not word or " " in word or not count.isdecimal():
            raise DataError(
                f"{path}:{number}: {line[:60]!r} is no piece and how often it occurs, with a space between. Give the "
                "vocabulary of `subword-nmt get-vocab`."
            )
        if int(count) >= threshold:
            found.add(word)
    if not found:
        raise DataError(f"{path}: no piece occurs {threshold} times. Set a lower `threshold`.")
    return frozenset(found)
