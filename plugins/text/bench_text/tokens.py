"""Vocabularies of words, characters and byte pairs, learned from texts.

Token 0 is EOS, 1 is `<unk>`, and `<cpad>`, if present, is the last token of a vocabulary. Every tokenizer reads the
word `<unk>` as token 1. In the text of an output, tokens without text become UNREADABLE, a character that occurs in
no corpus.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench_text import given_tokens
from bench_text.cut_text import after_words
from bench_text.encoder import PAD, SPECIAL, STOP, UNKNOWN, Encode, Encoder, by_name, usual
from bench_text.merges import Merges
from bench_text.raw_text import Pieces, byte_level, pattern, utf8, words_and_gaps
from bench_text.settings import BytePairs, Characters, Codes, Learned, SentencePiece, Words


def learn(settings: Learned, train: Sequence[str], valid: Sequence[str], pad: bool = False) -> Encoder:
    """Learn a vocabulary: words and characters from both splits, most frequent first; byte pairs from `train` only.

    For codes, the vocabulary has the pieces of both splits; for SentencePiece, it is fixed. `pad` appends `<cpad>`,
    which counts towards `vocab_size`. Raises DataError for an invalid file.
    """
    if isinstance(settings, BytePairs):
        return _byte_pairs(settings, train, pad)
    if isinstance(settings, Codes | SentencePiece):
        if isinstance(settings, Codes):
            return given_tokens.of_codes(settings, train, valid, pad)
        return given_tokens.of_sentencepiece(settings, pad)
    cut = _characters if isinstance(settings, Characters) else str.split
    counts = Counter(token for lines in (train, valid) for line in lines for token in cut(line))
    for special in SPECIAL:
        del counts[special]
    min_count, max_tokens = (settings.min_count, settings.most_words) if isinstance(settings, Words) else (1, None)
    tokens = sorted(
        (token for token in counts if counts[token] >= min_count), key=lambda token: (-counts[token], token)
    )
    return restore(settings, [STOP, UNKNOWN, *tokens[:max_tokens], *[PAD] * pad], b"")


def restore(settings: Learned, vocabulary: Sequence[str], saved: bytes) -> Encoder:
    """Restore the encoder of a learned tokenizer from its vocabulary and `Encoder.saved`, without `dropout`."""
    if isinstance(settings, BytePairs):
        return _restore_pairs(vocabulary, saved)
    if isinstance(settings, Codes):
        return given_tokens.restore_codes(vocabulary, saved)
    if isinstance(settings, SentencePiece):
        return given_tokens.restore_pieces(vocabulary, saved)
    has_words = isinstance(settings, Words)
    cut = str.split if has_words else _characters

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        return (after_words(line, first) if has_words else "".join(cut(line)[first:]) for line in lines)

    texts = [utf8(token) for token in vocabulary]
    pieces = _pieces(texts, [b" " + text for text in texts] if has_words else texts)
    return Encoder(vocabulary, by_name(vocabulary, cut), usual(vocabulary), rest, pieces=pieces, saved=saved)


def _pieces(first: Sequence[bytes], others: Sequence[bytes]) -> Pieces:
    """Return `Pieces`, given the UTF-8 of each token [V] at the start of a text and elsewhere."""

    def pieces(lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        return ([*(first[token] for token in row[:1]), *(others[token] for token in row[1:])] for row in rows)

    return pieces


def _characters(line: str) -> list[str]:
    return re.findall(f"{UNKNOWN}|.", line, re.DOTALL)


def _byte_pairs(settings: BytePairs, train: Sequence[str], pad: bool) -> Encoder:
    """Learn pieces of words including the preceding space, even at the start of a text, and of other white space."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    pairs = Tokenizer(models.BPE(unk_token=UNKNOWN))
    words = pre_tokenizers.Split(Regex(pattern()), "isolated")
    pairs.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size - 1 - pad,
        special_tokens=[UNKNOWN],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    pairs.train_from_iterator(map(_without_special, train), trainer)

    learned = pairs.get_vocab()  # ids by piece; `<unk>` is 0
    vocabulary = [STOP, *sorted(learned, key=learned.__getitem__), *[PAD] * pad]
    merges = Merges("bpe", _pairs(pairs), settings.dropout) if settings.dropout else None
    return replace(_restore_pairs(vocabulary, str(pairs.to_str()).encode()), merges=merges)


def _restore_pairs(vocabulary: Sequence[str], saved: bytes) -> Encoder:
    from tokenizers import Tokenizer

    others = [f" {piece}".encode() if piece in SPECIAL else byte_level(piece) for piece in vocabulary]

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        for line, row in zip(lines, rows, strict=True):
            remaining = f" {line}".encode()[sum(len(others[piece]) for piece in row[:first]) :]
            yield remaining.decode("utf-8", "replace").removeprefix(" ")  # a piece may end inside a character

    pieces = _pieces([piece.removeprefix(b" ") for piece in others], others)
    encode = _by_pairs(Tokenizer.from_str(saved.decode()))
    return Encoder(vocabulary, encode, usual(vocabulary), rest, pieces=pieces, saved=saved)


def _by_pairs(pairs: Any) -> Encode:
    """Return the byte pair encoding of words and other white space; the word `<unk>` becomes token 1."""
    pairs.encode_special_tokens = True  # `<unk>` inside a word or after other white space is ordinary text

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        types = sorted({word for line in lines for word in words_and_gaps(line)})
        encodings = pairs.encode_batch(types)
        pieces = {word: [piece + 1 for piece in each.ids] for word, each in zip(types, encodings, strict=True)}
        pieces[f" {UNKNOWN}"] = [1]
        return ([piece for word in words_and_gaps(line) for piece in pieces[word]] for line in lines)

    return encode


def _without_special(line: str) -> str:
    """Remove words that contain the name of a special token, so that no such name is learned as a piece."""
    if not any(name in line for name in SPECIAL):
        return f" {line}" if line else ""
    return "".join(word for word in words_and_gaps(line) if not any(name in word for name in SPECIAL))


def _pairs(tokenizer: Any) -> list[tuple[str, str]]:
    """Return the learned byte pair merges in order."""
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(left, right) for left, right in (pair.split(" ") if isinstance(pair, str) else pair for pair in merges)]
