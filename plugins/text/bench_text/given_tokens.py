"""Encoders from files: subword-nmt codes and SentencePiece models; does not import torch."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench_core import DataError, SuiteError
from bench_text.encoder import PAD, SPECIAL, STOP, UNKNOWN, Encode, Encoder, by_name, join, usual
from bench_text.merges import SEPARATOR, Merges, read_codes, read_vocabulary
from bench_text.raw_text import utf8
from bench_text.settings import Codes, SentencePiece

INSTALL = "Install it: python -m pip install sentencepiece"


def of_codes(settings: Codes, train: Sequence[str], valid: Sequence[str], pad: bool) -> Encoder:
    """Return an encoder that applies codes as subword-nmt does, with the pieces of both splits, most frequent first.

    With dropout, the vocabulary also has all pieces that skipped merges can produce.
    """
    pairs, apart = read_codes(settings.codes)
    known = read_vocabulary(settings.vocabulary, settings.threshold) if settings.vocabulary else None
    merges = Merges("codes", pairs, settings.dropout, apart, known)
    counts = Counter(piece for lines in (train, valid) for line in lines for piece in merges.cut(line))
    names = sorted({*counts} - {*SPECIAL}, key=lambda piece: (-counts[piece], piece))
    if settings.dropout:
        names += sorted({*merges.names, *_letters([*train, *valid])} - {*names, *SPECIAL})
    vocabulary = [STOP, UNKNOWN, *names, *[PAD] * pad]
    encoder = restore_codes(vocabulary, json.dumps(merges.plain).encode())
    return replace(encoder, merges=merges if settings.dropout else None)


def restore_codes(vocabulary: Sequence[str], saved: bytes) -> Encoder:
    """Restore the encoder of codes from its vocabulary and saved merges, without dropout."""
    cut = Merges.of(json.loads(saved)).cut

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        return (join("codes", cut(line)[first:], UNKNOWN) for line in lines)

    def pieces(lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        return (_texts_of([vocabulary[token] for token in row]) for row in rows)

    return Encoder(vocabulary, by_name(vocabulary, cut), usual(vocabulary), rest, pieces=pieces, saved=saved)


def _letters(lines: Iterable[str]) -> set[str]:
    """Return the names of the letters of words, both inside and at the end of words."""
    words = {word for line in lines for word in line.strip("\r\n ").split(" ") if word}
    inside = {letter + SEPARATOR for word in words for letter in word[:-1]}
    return inside | {letter for word in words for letter in word[-1]}


def _texts_of(names: Sequence[str]) -> list[bytes]:
    """Return the UTF-8 of each piece, including the space before a word."""
    before = ["", *("" if name.endswith(SEPARATOR) else " " for name in names[:-1])]
    return [utf8(space + name.removesuffix(SEPARATOR)) for space, name in zip(before, names, strict=True)]


def of_sentencepiece(settings: SentencePiece, pad: bool) -> Encoder:
    """Return an encoder for the pieces of a SentencePiece model in the model's order, without control symbols.

    Raises DataError if the file is not a SentencePiece model, and SuiteError without the library.
    """
    content, model = read_model(settings)
    numbers = range(model.get_piece_size())
    names = [str(model.id_to_piece(number)) for number in numbers if not _is_special(model, number)]
    if len({*SPECIAL, *names}) < len(SPECIAL) + len(names):
        raise DataError(
            f"{settings.model} has a duplicate piece, or one of {', '.join(SPECIAL)}. Retrain it without such pieces."
        )

    return restore_pieces([STOP, UNKNOWN, *names, *[PAD] * pad], content)


def restore_pieces(vocabulary: Sequence[str], saved: bytes) -> Encoder:
    """Restore the encoder of a SentencePiece model from its vocabulary and the bytes of the model."""
    model = processor(saved)

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        return (join("sentencepiece", row[first:], UNKNOWN) for row in model.encode([*lines], out_type=str))

    return Encoder(vocabulary, by_pieces(model), usual(vocabulary), rest, saved=saved)


def by_pieces(model: Any) -> Encode:
    """Return the encoding of a SentencePiece model, with token ids as in `of_sentencepiece`."""
    usual = (number for number in range(model.get_piece_size()) if not _is_special(model, number))
    ids = {number: index for index, number in enumerate(usual, 2)}

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        return ([ids.get(number, 1) for number in row] for row in model.encode([*lines], out_type=int))

    return encode


def processor(content: bytes) -> Any:
    """Load a SentencePiece model from bytes; raise SuiteError without the library."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise SuiteError(f"a tokenizer of kind `sentencepiece` needs the sentencepiece library. {INSTALL}") from None
    return SentencePieceProcessor(model_proto=content)


def _is_special(model: Any, number: int) -> bool:
    return bool(model.is_control(number) or model.is_unknown(number) or model.is_unused(number))


def read_model(settings: SentencePiece) -> tuple[bytes, Any]:
    """Return the bytes of a file and its model; raise DataError if it is invalid, SuiteError without the library."""
    content = b""
    try:
        content = settings.model.read_bytes()
        if not content:
            raise RuntimeError  # the library accepts it as a model without pieces
        return content, processor(content)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it cannot be parsed" if content else "it is empty"
        raise DataError(f"{settings.model} is not a SentencePiece model: {why}. Correct `model:`.") from None
