"""Vocabularies of words, characters and byte pairs, learned from texts.

Token 0 is stop, 1 is `<unk>`, and `<cpad>` is the last token of a vocabulary that has it. A word `<unk>` of a text is
token 1, whatever the tokenizer. In the text of an output, tokens that stand for no text become UNREADABLE, which
occurs in no corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_text.raw_text import Pieces, byte_level, utf8
from bench_text.settings import BytePairs, Characters, Words

SPECIAL = STOP, UNKNOWN, PAD = "<stop>", "<unk>", "<cpad>"  #: ends a text; any other token; padding
UNREADABLE = "\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"  #: stands for `<unk>` in texts; to metrics a single token


@dataclass(frozen=True)
class Encoder:
    """A vocabulary of V tokens, and how texts are encoded as these."""

    vocabulary: list[str]  # [V] names; the first is stop
    encode: Callable[[Sequence[str]], Iterator[list[int]]]  # the tokens of each text, without stop
    ordinary: Sequence[int]  # the tokens of which texts consist: all but stop, `<unk>` and `<cpad>`
    #: The text after the first k tokens of each text, given texts, their tokens and k.
    rest: Callable[[Sequence[str], Iterable[Sequence[int]], int], Iterator[str]]
    unknown: int | None = 1  # the token for what is not in the vocabulary, if there is one
    extras: Mapping[str, Any] = field(default_factory=dict)  # for `TaskInfo.extras`
    pieces: Pieces | None = None  # the text of each token, for `Task.target_sizes`


def learn(
    settings: Words | Characters | BytePairs, train: Sequence[str], valid: Sequence[str], pad: bool = False
) -> Encoder:
    """Learn a vocabulary: words and characters from both splits, the most frequent first, byte pairs from `train`.

    `pad` appends `<cpad>`, which `vocab_size` counts.
    """
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

    vocabulary = [STOP, UNKNOWN, *kept, *[PAD] * pad]
    texts = [utf8(token) for token in vocabulary]
    pieces = _pieces(texts, [b" " + text for text in texts] if isinstance(settings, Words) else texts)
    return Encoder(vocabulary, encode, range(2, 2 + len(kept)), rest, pieces=pieces)


def _pieces(first: Sequence[bytes], others: Sequence[bytes]) -> Pieces:
    """Return the pieces of texts, given those of the first token and of others [V]."""

    def pieces(lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        return ([*(first[token] for token in row[:1]), *(others[token] for token in row[1:])] for row in rows)

    return pieces


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
    others = [f" {piece}".encode() if piece in SPECIAL else byte_level(piece) for piece in vocabulary]

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        for line, row in zip(lines, rows, strict=True):
            left = f" {line}".encode()[sum(len(others[piece]) for piece in row[:first]) :]
            yield left.decode("utf-8", "replace").removeprefix(" ")  # a piece may end inside of a character

    pieces = _pieces([piece.removeprefix(b" ") for piece in others], others)
    return Encoder([*vocabulary, *[PAD] * pad], encode, range(2, len(vocabulary)), rest, pieces=pieces)


def join(kind: str, tokens: Iterable[str], unknown: str = UNREADABLE) -> str:
    """Return the text of tokens, given by name, of a `kind` of tokenizer: "word", "char" or "bpe".

    `unknown` replaces `<unk>` and `<cpad>`, which stand for no text. A stop within a stream becomes a word.
    """
    tokens = [unknown if token in (UNKNOWN, PAD) else token for token in tokens]
    if kind == "word":
        return " ".join(tokens)
    if kind == "char":
        return "".join(f" {token} " if token == STOP else token for token in tokens)
    from tokenizers import decoders

    text: str = decoders.ByteLevel().decode([f" {token}" if token in (STOP, unknown) else token for token in tokens])
    return text.removeprefix(" ")
