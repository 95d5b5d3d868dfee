"""Reads dependency trees from CoNLL-U files, and aligns them with the lines of a corpus."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench_core import DataError
from bench_text.api import corpora

COLUMNS, FORM, UPOS, RELATION = 10, 1, 3, 7  # how many there are, and where some of them stand
WORD, SPAN, EMPTY = (re.compile(rule) for rule in (r"[1-9]\d*", r"([1-9]\d*)-([1-9]\d*)", r"\d+\.\d+"))


@dataclass(frozen=True)
class Sentence:
    """The words of a tree, in which a root is its own head; heads are counted from 0."""

    path: Path
    lines: list[int]  # of the file, that each word stands in
    words: list[str]
    heads: list[int]
    relations: list[str]
    tags: list[str]  # parts of speech
    spans: dict[int, tuple[int, str]]  # from the first word of a token of several words to its last one and its form

    def place(self, word: int) -> str:
        """Return the file and line of a word."""
        return f"{self.path}:{self.lines[word]}"

    def depth(self, word: int) -> int:
        """Return how many words are above one; at least as many as there are words if that never ends."""
        for steps in range(len(self.words)):
            if self.heads[word] == word:
                return steps
            word = self.heads[word]
        return len(self.words)


def sentences(paths: Iterable[Path]) -> Iterator[Sentence]:
    """Read trees; raise DataError that names file and line where there is none. Empty nodes are left out."""
    for path in paths:
        rows: list[tuple[int, list[str]]] = []
        lines = corpora.read_lines(path)
        lines[0] = lines[0].removeprefix("\ufeff")
        for number, line in enumerate([*lines, ""], 1):
            if line.strip() and not line.startswith("#"):
                rows.append((number, _columns(path, number, line)))
            elif not line.strip() and rows:
                yield _sentence(path, rows)
                rows = []


def _columns(path: Path, number: int, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        raise DataError(
            f"{path}:{number} has {len(columns)} columns, not the {COLUMNS} of CoNLL-U, which tabs set apart."
        )
    return columns


def _sentence(path: Path, rows: Sequence[tuple[int, list[str]]]) -> Sentence:
    words = [(number, columns) for number, columns in rows if WORD.fullmatch(columns[0])]
    spans: dict[int, tuple[int, str]] = {}
    for number, (name, form, *_) in rows:
        span = SPAN.fullmatch(name)
        if span and int(span[1]) < int(span[2]) <= len(words):
            spans[int(span[1]) - 1] = int(span[2]) - 1, form
        elif span or not (WORD.fullmatch(name) or EMPTY.fullmatch(name)):
            raise DataError(
                f"{path}:{number}: {name!r} is no number of a word, such as 3, 3-4 or 3.1, of this sentence."
            )
    if not words:
        raise DataError(f"{path}:{rows[0][0]}: the sentence has no words.")
    for place, (number, columns) in enumerate(words, 1):
        if int(columns[0]) != place:
            raise DataError(
                f"{path}:{number}: word {columns[0]} stands where word {place} should: count them from 1."
            )
    heads = [_head(path, number, place, columns[6], len(words)) for place, (number, columns) in enumerate(words)]
    forms, relations, tags = ([columns[column] for _, columns in words] for column in (FORM, RELATION, UPOS))
    found = Sentence(path, [number for number, _ in words], forms, heads, relations, tags, spans)
    for word in range(len(words)):
        if found.depth(word) == len(words):
            raise DataError(f"{found.place(word)}: the heads above {found.words[word]!r} go in a circle.")
    return found


def _head(path: Path, number: int, word: int, head: str, words: int) -> int:
    if not re.fullmatch(r"\d+", head) or int(head) > words or int(head) == word + 1:
        raise DataError(
            f"{path}:{number}: the head {head!r} is no other word: give a number from 1 to {words}, or 0 for a root."
        )
    return int(head) - 1 if int(head) else word


def fitted(
    lines: Sequence[str], trees: Iterable[Sentence], lowered: Callable[[str], str], ends: str
) -> list[list[int]]:
    """Return the heads of the words of each line, of which one or more sentences are the words in turn.

    Lines without words have no sentences. Raises DataError that names the place where a sentence has another word,
    and `ends` where sentences are missing.
    """
    sentences, found = iter(trees), []
    for number, line in enumerate(lines, 1):
        words, heads = line.split(), list[int]()
        while len(heads) < len(words):
            sentence = next(sentences, None)
            if sentence is None:
                raise DataError(f"{ends} ends before line {number} of the target, {line!r}: give trees of all lines.")
            start = len(heads)
            heads += [start + head for head in _matched(sentence, words[start:], lowered, number)]
        found.append(heads)
    surplus = next(sentences, None)
    if surplus:
        raise DataError(
            f"{surplus.place(0)}: the sentence {' '.join(surplus.words)!r} comes after the last of the {len(lines)} "
            "lines of the target. Give trees of these lines alone, in their order."
        )
    return found


def _matched(sentence: Sentence, words: Sequence[str], lowered: Callable[[str], str], number: int) -> list[int]:
    """Return the heads of the line's words that a sentence is made of; one may be a token of several words."""
    groups: list[list[int]] = []
    word = 0
    while word < len(sentence.words):
        wanted = words[len(groups)] if len(groups) < len(words) else None
        last, form = sentence.spans.get(word, (word, ""))
        if lowered(form) != wanted:
            last = word
            if lowered(sentence.words[word]) != wanted:
                there = "ends" if wanted is None else f"has {wanted!r}"
                raise DataError(
                    f"{sentence.place(word)}: the word is {sentence.words[word]!r}, where line {number} of the "
                    f"target {there}. Give trees of the target's words as the task sets them apart."
                )
        groups.append([*range(word, last + 1)])
        word = last + 1
    group = {member: place for place, members in enumerate(groups) for member in members}
    highest = [min(members, key=sentence.depth) for members in groups]  # so that joined words make no circles
    return [group[sentence.heads[member]] for member in highest]
