"""Reads dependency trees from CoNLL-U files, and aligns them with the lines of a corpus."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench_core import DataError
from bench_text.api import corpora

COLUMNS, FORM, UPOS, RELATION = 10, 1, 3, 7  # number of columns, and indices of some
WORD, SPAN, EMPTY = (re.compile(rule) for rule in (r"[1-9]\d*", r"([1-9]\d*)-([1-9]\d*)", r"\d+\.\d+"))


@dataclass(frozen=True)
class ParsedSentence:
    """The words and heads of a tree, counted from 0; a root is its own head."""

    path: Path
    lines: list[int]  # line number of each word in the file
    words: list[str]
    heads: list[int]
    relations: list[str]
    tags: list[str]  # UPOS
    spans: dict[int, tuple[int, str]]  # multiword tokens: first word -> last word, form

    def place(self, word: int) -> str:
        """Return the file and line of a word."""
        return f"{self.path}:{self.lines[word]}"

    def depth(self, word: int) -> int:
        """Return the number of ancestors of a word; at least the number of words if there is a cycle."""
        for steps in range(len(self.words)):
            if self.heads[word] == word:
                return steps
            word = self.heads[word]
        return len(self.words)


def sentences(paths: Iterable[Path]) -> Iterator[ParsedSentence]:
    """Read trees; raise DataError with file and line for malformed trees. Empty nodes are skipped."""
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
            f"{path}:{number} has {len(columns)} columns. Use the {COLUMNS} columns of CoNLL-U, separated by tabs."
        )
    return columns


def _sentence(path: Path, rows: Sequence[tuple[int, list[str]]]) -> ParsedSentence:
    words = [(number, columns) for number, columns in rows if WORD.fullmatch(columns[0])]
    spans: dict[int, tuple[int, str]] = {}
    for number, (name, form, *_) in rows:
        span = SPAN.fullmatch(name)
        if span and int(span[1]) < int(span[2]) <= len(words):
            spans[int(span[1]) - 1] = int(span[2]) - 1, form
        elif span or not (WORD.fullmatch(name) or EMPTY.fullmatch(name)):
            raise DataError(
                f"{path}:{number}: {name!r} is not a word number of this sentence, such as 3, 3-4 or 3.1."
            )
    if not words:
        raise DataError(f"{path}:{rows[0][0]}: the sentence has no words. Remove it.")
    for place, (number, columns) in enumerate(words, 1):
        if int(columns[0]) != place:
            raise DataError(f"{path}:{number}: expected word {place}, found word {columns[0]}. Number words from 1.")
    heads = [_head(path, number, place, columns[6], len(words)) for place, (number, columns) in enumerate(words)]
    forms, relations, tags = ([columns[column] for _, columns in words] for column in (FORM, RELATION, UPOS))
    sentence = ParsedSentence(path, [number for number, _ in words], forms, heads, relations, tags, spans)
    for word in range(len(words)):
        if sentence.depth(word) == len(words):
            raise DataError(
                f"{sentence.place(word)}: the heads above {sentence.words[word]!r} form a cycle. Correct them."
            )
    return sentence


def _head(path: Path, number: int, word: int, head: str, words: int) -> int:
    if not re.fullmatch(r"\d+", head) or int(head) > words or int(head) == word + 1:
        raise DataError(
            f"{path}:{number}: invalid head {head!r}: use the number of another word, 1 to {words}, or 0 for roots."
        )
    return int(head) - 1 if int(head) else word


def align(
    lines: Sequence[str], trees: Iterable[ParsedSentence], to_lower: Callable[[str], str], ends: str
) -> list[list[int]]:
    """Return the heads of the words of each line; each line consists of one or more consecutive sentences.

    Lines without words have no sentence. Raises DataError, with file and line, if a word differs from the line's, and
    DataError naming `ends`, the source of the trees, if sentences are missing.
    """
    sentences, all_heads = iter(trees), []
    for number, line in enumerate(lines, 1):
        words, heads = line.split(), list[int]()
        while len(heads) < len(words):
            sentence = next(sentences, None)
            if sentence is None:
                raise DataError(
                    f"{ends} ends before line {number} of the target, {line!r}. Provide trees for all lines."
                )
            start = len(heads)
            heads += [start + head for head in _align_sentence(sentence, words[start:], to_lower, number)]
        all_heads.append(heads)
    surplus = next(sentences, None)
    if surplus:
        raise DataError(
            f"{surplus.place(0)}: the sentence {' '.join(surplus.words)!r} follows the last of the {len(lines)} "
            "lines of the target. Provide trees for these lines only, in their order."
        )
    return all_heads


def _align_sentence(
    sentence: ParsedSentence, words: Sequence[str], to_lower: Callable[[str], str], number: int
) -> list[int]:
    """Return the heads of the line's words covered by a sentence; a word may be a multiword token."""
    groups: list[list[int]] = []
    word = 0
    while word < len(sentence.words):
        wanted = words[len(groups)] if len(groups) < len(words) else None
        last, form = sentence.spans.get(word, (word, ""))
        if to_lower(form) != wanted:
            last = word
            if to_lower(sentence.words[word]) != wanted:
                expected = "ends" if wanted is None else f"has {wanted!r}"
                raise DataError(
                    f"{sentence.place(word)}: the word is {sentence.words[word]!r}, but line {number} of the "
                    f"target {expected}. Provide trees for the target's words as tokenized by the task."
                )
        groups.append([*range(word, last + 1)])
        word = last + 1
    group = {member: place for place, members in enumerate(groups) for member in members}
    highest = [min(members, key=sentence.depth) for members in groups]  # so that merged words form no cycles
    return [group[sentence.heads[member]] for member in highest]
