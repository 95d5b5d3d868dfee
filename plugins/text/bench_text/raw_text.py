"""The UTF-8 of raw text and of its tokens; does not import torch or numpy."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

#: Maps texts [R] and their tokens [R] to the UTF-8 of each token; lossless tokens concatenate to the text.
Pieces: TypeAlias = Callable[[Sequence[str], Iterable[Sequence[int]]], Iterator[Sequence[bytes]]]

BREAK = b"\n"  # represented by EOS
_CONTINUATION = bytes(range(0x80, 0xC0))  # UTF-8 continuation bytes


@cache
def pattern() -> str:
    """Return a regular expression that matches words with the space before them, and other white space.

    It lists all white space characters because their definition differs between libraries.
    """
    space = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    return f" [^{space}]+|[{space}]+(?= [^{space}])|[{space}]+|[^{space}]+"


def words_and_gaps(text: str) -> list[str]:
    """Prepend a space to a text; split it into words with the preceding space, and other white space."""
    return re.findall(pattern(), f" {text}") if text else []


def utf8(text: str) -> bytes:
    """Return the UTF-8 of a text; surrogates, which JSON may contain, become three bytes each."""
    return text.encode("utf-8", "surrogatepass")


def characters(piece: bytes) -> int:
    """Return the number of characters that begin in a piece of UTF-8."""
    return len(piece.translate(None, _CONTINUATION))


def size(text: str) -> tuple[int, int]:
    """Return the numbers of bytes and characters of a text plus a line break."""
    return len(utf8(text)) + 1, len(text) + 1


def byte_level(piece: str) -> bytes:
    """Return the bytes of a byte pair token, given its name."""
    return piece.translate(_bytes_by_char()).encode("latin-1")


def sign_level(text: bytes) -> str:
    """Return the name of a byte pair token, given its bytes."""
    return text.decode("latin-1").translate(_chars_by_byte())


@cache
def _chars_by_byte() -> Mapping[int, int]:
    return {byte: char for char, byte in _bytes_by_char().items()}


@cache
def _bytes_by_char() -> Mapping[int, int]:
    """Return the byte of each character in names of byte pair tokens (Radford et al., 2019).

    Printable bytes represent themselves; the others are represented by the characters from U+0100 on.
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: byte for byte in plain} | {256 + index: byte for index, byte in enumerate(others)}
