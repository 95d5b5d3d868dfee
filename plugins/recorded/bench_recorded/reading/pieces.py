"""Detects outputs that are split into tokenizer pieces, by the marks of the pieces, and joins the pieces."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from bench_core import DataError

#: The kind of pieces that texts are split into; `none`: texts are whole, even if they look split
Pieces: TypeAlias = Literal[
    "none", "subword-nmt", "sentencepiece", "wordpiece", "byte-level", "joiner", "end-of-word"
]

BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}> ?)+")  # bytes of a character for which sentencepiece has no piece
MAX_BYTE_LEVEL_SHARE = 0.2  # share of texts that may look byte-level by chance: Ġ is also a letter of Maltese
MAX_TEXT = 60  #: maximum length of texts quoted in messages, in characters


@dataclass(frozen=True)
class PieceFormat:
    """The marks of split texts, and how to join their pieces."""

    is_in: Callable[[str], object]  # true if a text has the marks
    join: Callable[[str], str]
    max_share: float = 0.0  # share of texts that may have the marks by chance


def _join_wordpieces(text: str) -> str:
    return re.sub(r"(?:^|[^\S\n]+)##(?=\S)", "", text)


def _join_sentencepieces(text: str) -> str:
    whole = BYTES.sub(lambda match: bytes.fromhex(re.sub("<0x|> ?", "", match[0])).decode("utf-8", "replace"), text)
    return whole.replace(" ", "").replace("▁", " ").strip()


def _join_at_word_ends(text: str) -> str:
    return text.replace(" ", "").replace("</w>", " ").strip()


@cache
def _bytes_by_letter() -> dict[str, int]:
    """Return the bytes that letters represent in GPT-2's byte-level alphabet."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {**{chr(byte): byte for byte in visible}, **{chr(256 + n): byte for n, byte in enumerate(others)}}


def _join_bytes(text: str) -> str:
    """Return the text that letters spell as bytes; raise ValueError for a letter that represents no byte."""
    known, letters = _bytes_by_letter(), text.replace(" ", "")
    if unknown := {*letters} - {*known}:
        raise ValueError(f"has {min(unknown)!r}, which represents no byte")
    return bytes(known[letter] for letter in letters).decode("utf-8", "replace").strip(" ")


def _spells_bytes(text: str) -> bool:
    """Return whether a text is not ASCII and spells valid, printable text as bytes."""
    if not any(letter > "\x7f" for letter in text):
        return False
    try:
        spelled = _join_bytes(text)
    except ValueError:
        return False
    return "\ufffd" not in spelled and all(letter.isprintable() or letter in "\n\t\r" for letter in spelled)


PIECE_FORMATS = {
    "subword-nmt": PieceFormat(re.compile(r"[^\s@]@@(?:\s|$)").search, lambda text: re.sub("@@(?: |$)", "", text)),
    "sentencepiece": PieceFormat(re.compile(r"▁\w").search, _join_sentencepieces),
    "wordpiece": PieceFormat(re.compile(r"\S[^\S\n]+##\w").search, _join_wordpieces),
    "byte-level": PieceFormat(_spells_bytes, _join_bytes, MAX_BYTE_LEVEL_SHARE),
    "joiner": PieceFormat(re.compile("￭").search, lambda text: re.sub(" ?￭ ?", "", text)),
    "end-of-word": PieceFormat(re.compile(r"^(?!.*<w).*\S</w>(?:\s|$)", re.DOTALL).search, _join_at_word_ends),
}  # fmt: skip


def join_pieces(texts: Sequence[tuple[str, str]], pieces: Pieces | None) -> Iterator[str]:
    """Yield the text of each (place, text) pair with its pieces joined; raise DataError for pieces of another format.

    If `pieces` is None, texts with marks of any format are an error.
    """
    if pieces is None:
        _refuse_pieces(texts, "")
    if pieces is None or pieces == "none":
        yield from (text for _, text in texts)
        return
    chosen = PIECE_FORMATS[pieces]
    if texts and not any(chosen.is_in(text) for _, text in texts):
        _refuse_pieces(texts, f", not into {pieces} pieces as set by `pieces`")
        place, text = texts[0]
        raise DataError(
            f"{place} and all other texts contain no marks of {pieces} pieces: {text[:MAX_TEXT]!r}. Remove "
            "the setting `pieces`."
        )
    whole = []
    for place, text in texts:
        try:
            whole.append((place, chosen.join(text)))
        except ValueError as error:
            raise DataError(
                f"{place} {error} in {pieces} pieces: {text[:MAX_TEXT]!r}. Correct the setting `pieces`."
            ) from None
    _refuse_pieces(whole, f" after {pieces} pieces were joined as set by `pieces`", joined=pieces)
    yield from (text for _, text in whole)


def join_lines(path: Path, lines: Sequence[str], pieces: Pieces | None) -> list[str]:
    """Return the lines of a file with their pieces joined, as by `join_pieces`; errors name the file and line."""
    return [*join_pieces([(f"{path}:{number}", line) for number, line in enumerate(lines, 1)], pieces)]


def _refuse_pieces(texts: Sequence[tuple[str, str]], context: str, joined: str = "") -> None:
    """Raise DataError if texts have marks of a format other than `joined`; `context` is part of its message."""
    for name, each in PIECE_FORMATS.items():
        split = [(place, text) for place, text in texts if name != joined and each.is_in(text)]
        if len(split) > each.max_share * len(texts):
            place, text = split[0]
            raise DataError(
                f"{place} has {text[:MAX_TEXT]!r}, which looks split into {name} pieces{context}, as do "
                f"{len(split):,} of {len(texts):,} texts. Set `pieces: {name}` to join them, or `pieces: none` if "
                "these are words (options of `bench score`: --pieces, --reference-pieces)."
            )
