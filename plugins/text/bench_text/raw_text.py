"""The UTF-8 of raw text, and the pieces of it that tokens stand for; imports neither torch nor numpy."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

#: Texts [R] and their tokens [R] -> the UTF-8 of each token, which in a row are the text if its tokens spell it.
Pieces: TypeAlias = Callable[[Sequence[str], Iterable[Sequence[int]]], Iterator[Sequence[bytes]]]

BREAK = b"\n"  # what a stop stands for
_INSIDE = bytes(range(0x80, 0xC0))  # bytes that begin no character


@cache
def pattern() -> str:
    """Return a regular expression whose matches are words with the space before them, and all other white space.

    It spells out what is white space, as that differs among libraries.
    """
    space = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    return f" [^{space}]+|[{space}]+(?= [^{space}])|[{space}]+|[^{space}]+"


def words_and_gaps(text: str) -> list[str]:
    """Return the pieces of a text behind a space: each word with a space before it, other white space apart."""
    return re.findall(pattern(), f" {text}") if text else []


def utf8(text: str) -> bytes:
    """Return the UTF-8 of a text; surrogates, which JSON may hold, have three bytes each."""
    return text.encode("utf-8", "surrogatepass")


def characters(piece: bytes) -> int:
    """Return how many characters begin in a piece of UTF-8."""
    return len(piece.translate(None, _INSIDE))


def size(text: str) -> tuple[int, int]:
    """Return the bytes and characters of a text and of the line break after it."""
    return len(utf8(text)) + 1, len(text) + 1


def byte_level(piece: str) -> bytes:
    """Return the bytes that a token of byte pairs stands for, given its name."""
    return piece.translate(_bytes_by_sign()).encode("latin-1")


def sign_level(text: bytes) -> str:
    """Return the name of a token of byte pairs, given the bytes that it stands for."""
    return text.decode("latin-1").translate(_signs_by_byte())


@cache
def _signs_by_byte() -> Mapping[int, int]:
    return {byte: sign for sign, byte in _bytes_by_sign().items()}


@cache
def _bytes_by_sign() -> Mapping[int, int]:
    """Return the byte that each sign in the names of byte pairs stands for (Radford et al., 2019).

    Bytes that print stand for themselves; for the others, in turn, stand the signs from U+0100 on.
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: byte for byte in plain} | {256 + place: byte for place, byte in enumerate(others)}
