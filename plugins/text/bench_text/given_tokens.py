"""Encoders of tokenizers that are files: codes of subword-nmt, models of SentencePiece; imports no torch."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from bench_core import DataError, SuiteError
from bench_text.encoder import PAD, SPECIAL, STOP, UNKNOWN, Encode, Encoder, by_name, join, usual
from bench_text.merges import SEPARATOR, Merges, read_codes, read_known
from bench_text.raw_text import utf8
from bench_text.settings import Codes, SentencePiece

INSTALL = "Install it: python -m pip install sentencepiece"


def of_codes(settings: Codes, train: Sequence[str], valid: Sequence[str], pad: bool) -> Encoder:
    """Apply codes as subword-nmt does; the vocabulary is of the pieces of both splits, the most frequent first.

    With dropout, all pieces are in the vocabulary that can come about without some merge.
    """
    pairs, apart = read_codes(settings.codes)
    known = read_known(settings.vocabulary, settings.threshold) if settings.vocabulary else None
    merges = Merges("codes", pairs, settings.dropout, apart, known)
    counts = Counter(piece for lines in (train, valid) for line in lines for piece in merges.cut(line))
    kept = sorted({*counts} - {*SPECIAL}, key=lambda piece: (-counts[piece], piece))
    if settings.dropout:
        kept += sorted({*merges.names, *_letters([*train, *valid])} - {*kept, *SPECIAL})
    vocabulary = [STOP, UNKNOWN, *kept, *[PAD] * pad]
    found = restored_codes(vocabulary, json.dumps(merges.plain).encode())
    return replace(found, merges=merges if settings.dropout else None)


def restored_codes(vocabulary: Sequence[str], saved: bytes) -> Encoder:
    """Return the encoder of codes, from its vocabulary and the merges that it saved, without dropout."""
    cut = Merges.of(json.loads(saved)).cut

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        return (join("codes", cut(line)[first:], UNKNOWN) for line in lines)

    def pieces(lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        return (_spelled([vocabulary[token] for token in row]) for row in rows)

    return Encoder(vocabulary, by_name(vocabulary, cut), usual(vocabulary), rest, pieces=pieces, saved=saved)


def _letters(lines: Iterable[str]) -> set[str]:
    """Return the names of the letters of words, within a word and at its end."""
    words = {word for line in lines for word in line.strip("\r\n ").split(" ") if word}
    inside = {letter + SEPARATOR for word in words for letter in word[:-1]}
    return inside | {letter for word in words for letter in word[-1]}


def _spelled(names: Sequence[str]) -> list[bytes]:
    """Return the text of each piece, with the space before it."""
    before = ["", *("" if name.endswith(SEPARATOR) else " " for name in names[:-1])]
    return [utf8(space + name.removesuffix(SEPARATOR)) for space, name in zip(before, names, strict=True)]


def of_sentencepiece(settings: SentencePiece, pad: bool) -> Encoder:
    """Return the pieces of a SentencePiece model in its order, without its control symbols.

    Raises DataError if the file is no such model, and SuiteError without the library.
    """
    content, model = read_model(settings)
    numbers = range(model.get_piece_size())
    names = [str(model.id_to_piece(number)) for number in numbers if not _is_special(model, number)]
    if len({*SPECIAL, *names}) < len(SPECIAL) + len(names):
        raise DataError(f"{settings.model} has a piece twice, or one of {', '.join(SPECIAL)}. Train it without.")

    return restored_pieces([STOP, UNKNOWN, *names, *[PAD] * pad], content)


def restored_pieces(vocabulary: Sequence[str], saved: bytes) -> Encoder:
    """Return the encoder of a SentencePiece model, from its vocabulary and the bytes of the model."""
    model = processor(saved)

    def rest(lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        return (join("sentencepiece", row[first:], UNKNOWN) for row in model.encode([*lines], out_type=str))

    return Encoder(vocabulary, by_pieces(model), usual(vocabulary), rest, saved=saved)


def by_pieces(model: Any) -> Encode:
    """Return the encoding by a SentencePiece model, numbered as `of_sentencepiece` does."""
    usual = (number for number in range(model.get_piece_size()) if not _is_special(model, number))
    ids = {number: place for place, number in enumerate(usual, 2)}

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        return ([ids.get(number, 1) for number in row] for row in model.encode([*lines], out_type=int))

    return encode


def processor(content: bytes) -> Any:
    """Return the SentencePiece model in the bytes of its file; raise SuiteError without the library."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise SuiteError(f"a tokenizer of kind `sentencepiece` needs the library of that name. {INSTALL}") from None
    return SentencePieceProcessor(model_proto=content)


def _is_special(model: Any, number: int) -> bool:
    return bool(model.is_control(number) or model.is_unknown(number) or model.is_unused(number))


def read_model(settings: SentencePiece) -> tuple[bytes, Any]:
    """Return the bytes of a file and the model in them; raise DataError for no model, SuiteError without library."""
    content = b""
    try:
        content = settings.model.read_bytes()
        if not content:
            raise RuntimeError  # which the library takes for a model of no pieces
        return content, processor(content)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it cannot be parsed" if content else "it is empty"
        raise DataError(f"{settings.model} is no model of SentencePiece: {why}. Correct `model:`.") from None
