"""Tokenizers: vocabularies of words, characters and byte pairs.

Stop is 0, `<unk>` is 1, and `<cpad>` is the last token of a task that has it. A word `<unk>` of the text is that
token, whatever the tokenizer. The way back differs: a token that stands for no text reads as UNREADABLE, which is in
no raw text of a corpus, not even where that has the word `<unk>`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_text.settings import BytePairs, Characters, Words

SPECIAL = STOP, UNKNOWN, PAD = "<stop>", "<unk>", "<cpad>"
UNREADABLE = "\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"  # one token to every tokenizer of metrics, and in no corpus


@dataclass(frozen=True)
class Encoder:
    """What was learnt from the text: a vocabulary, and how lines turn into its numbers."""

    vocabulary: list[str]
    encode: Callable[[Sequence[str]], Iterator[list[int]]]
    ordinary: Sequence[int]  # the tokens that text is made of
    rest: Callable[[Sequence[str], Iterable[Sequence[int]], int], Iterator[str]]  # text after the first k tokens
    unknown: int | None = 1  # the token for what it cannot say
    extras: Mapping[str, Any] = field(default_factory=dict)  # what models should know of it


def learn(
    settings: Words | Characters | BytePairs, train: Sequence[str], valid: Sequence[str], pad: bool = False
) -> Encoder:
    """Learn words and characters from both splits, byte pairs from the first; never from the test split."""
    if isinstance(settings, BytePairs):
        return _byte_pairs(settings.vocab_size, train, pad)
    cut = _characters if isinstance(settings, Characters) else str.split
    counts = Counter(token for lines in (train, valid) for line in lines for token in cut(line))
    for special in SPECIAL:
        del counts[special]
    least, most = (settings.min_count, settings.most_words) if isinstance(settings, Words) else (1, None)
    kept = sorted((token for token in counts if counts[token] >= least), key=lambda token: (-counts[token], token))
    kept = kept[:most]
    ids = {token: place for place, token in enumerate(kept, 2)}

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        return ([ids.get(token, 1) for token in cut(line)] for line in lines)

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        gap = " " if isinstance(settings, Words) else ""
        return (gap.join(cut(line)[first:]) for line in lines)

    return Encoder([STOP, UNKNOWN, *kept, *[PAD] * pad], encode, range(2, 2 + len(kept)), rest)


def _characters(line: str) -> list[str]:
    return re.findall(f"{UNKNOWN}|.", line, re.DOTALL)


def _byte_pairs(size: int, train: Sequence[str], pad: bool) -> Encoder:
    """Learn pieces of words; one that begins a word has the space before it, that of the first word too."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    pairs = Tokenizer(models.BPE(unk_token=UNKNOWN))
    words = pre_tokenizers.Split(" ", "merged_with_next")
    pairs.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    pairs.encode_special_tokens = True  # `<unk>` inside a word is text like any other
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1 - pad, special_tokens=[UNKNOWN], initial_alphabet=alphabet, show_progress=False
    )
    known = (" ".join(["", *(word for word in line.split() if word != UNKNOWN)]) for line in train)
    pairs.train_from_iterator(known, trainer)

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        types = sorted({word for line in lines for word in line.split()})
        encodings = pairs.encode_batch([f" {word}" for word in types])
        pieces = {word: [piece + 1 for piece in each.ids] for word, each in zip(types, encodings, strict=True)}
        pieces[UNKNOWN] = [1]
        return ([piece for word in line.split() for piece in pieces[word]] for line in lines)

    learnt = pairs.get_vocab()  # by piece; `<unk>` is 0
    vocabulary = [STOP, *sorted(learnt, key=learnt.__getitem__)]
    sizes = [len(f" {piece}" if piece in SPECIAL else piece) for piece in vocabulary]  # in bytes of text

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        for line, row in zip(lines, rows, strict=True):
            left = f" {line}".encode()[sum(sizes[piece] for piece in row[:first]) :]
            yield left.decode("utf-8", "replace").removeprefix(" ")  # a piece may end inside of a character

    return Encoder([*vocabulary, *[PAD] * pad], encode, range(2, len(vocabulary)), rest)


def join(kind: str, tokens: Iterable[str], unknown: str = UNREADABLE) -> str:
    """Return the text of tokens of a vocabulary of that kind; a stop inside of a stream is a word.

    `unknown` is written for `<unk>` and `<cpad>`, which are no text.
    """
    tokens = [unknown if token in (UNKNOWN, PAD) else token for token in tokens]
    if kind == "word":
        return " ".join(tokens)
    if kind == "char":
        return "".join(f" {token} " if token == STOP else token for token in tokens)
    from tokenizers import decoders

    text: str = decoders.ByteLevel().decode([f" {token}" if token in (STOP, unknown) else token for token in tokens])
    return text.removeprefix(" ")
