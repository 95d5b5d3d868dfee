"""Outputs in the pieces of their system's tokenizer: seen by their marks, and joined."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from bench_core import DataError

#: How texts are cut, so that they are joined; `none`: they are not cut, whatever they look like
Pieces: TypeAlias = Literal[
    "none", "subword-nmt", "sentencepiece", "wordpiece", "byte-level", "joiner", "end-of-word"
]

BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}> ?)+")  # bytes of a character that sentencepiece has no piece for
SHARE = 0.2  # of texts in pieces of bytes, above which they are no words of Maltese, whose letter Ġ is the mark
SHOWN = 60  #: characters of a text that a message shows


@dataclass(frozen=True)
class Cut:
    """A way to cut texts into pieces."""

    is_in: Callable[[str], object]  # whether its marks are in a text
    join: Callable[[str], str]
    share: float = 0.0  # of texts, above which the marks are no chance


def _in_words(text: str) -> str:
    return re.sub(r"(?:^|[^\S\n]+)##(?=\S)", "", text)


def _by_spacers(text: str) -> str:
    whole = BYTES.sub(lambda one: bytes.fromhex(re.sub("<0x|> ?", "", one[0])).decode("utf-8", "replace"), text)
    return whole.replace(" ", "").replace("▁", " ").strip()


def _by_ends(text: str) -> str:
    return text.replace(" ", "").replace("</w>", " ").strip()


@cache
def _letters() -> dict[str, int]:
    """Return the bytes that the letters of GPT-2's alphabet of bytes stand for."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {**{chr(byte): byte for byte in visible}, **{chr(256 + n): byte for n, byte in enumerate(others)}}


def _of_bytes(text: str) -> str:
    """Return what letters for bytes spell; raise ValueError for other letters."""
    known, letters = _letters(), text.replace(" ", "")
    if unknown := {*letters} - {*known}:
        raise ValueError(f"has {min(unknown)!r}, which stands for no byte")
    return bytes(known[letter] for letter in letters).decode("utf-8", "replace").strip(" ")


def _spells_bytes(text: str) -> bool:
    """Return whether letters for bytes spell a text that they do not look like."""
    if not any(letter > "\x7f" for letter in text):
        return False
    try:
        found = _of_bytes(text)
    except ValueError:
        return False
    return "\ufffd" not in found and all(letter.isprintable() or letter in "\n\t\r" for letter in found)


WAYS = {
    "subword-nmt": Cut(re.compile(r"[^\s@]@@(?:\s|$)").search, lambda text: re.sub("@@(?: |$)", "", text)),
    "sentencepiece": Cut(re.compile(r"▁\w").search, _by_spacers),
    "wordpiece": Cut(re.compile(r"\S[^\S\n]+##\w").search, _in_words),
    "byte-level": Cut(_spells_bytes, _of_bytes, SHARE),
    "joiner": Cut(re.compile("￭").search, lambda text: re.sub(" ?￭ ?", "", text)),
    "end-of-word": Cut(re.compile(r"^(?!.*<w).*\S</w>(?:\s|$)", re.DOTALL).search, _by_ends),
}  # fmt: skip


def joined(texts: Sequence[tuple[str, str]], pieces: Pieces | None) -> Iterator[str]:
    """Yield texts, each with its place, as they are, or joined; raise DataError for pieces of another sort.

    Without a setting they must not look cut.
    """
    if pieces is None:
        _refuse_pieces(texts, "")
    if pieces is None or pieces == "none":
        yield from (text for _, text in texts)
        return
    way = WAYS[pieces]
    if texts and not any(way.is_in(text) for _, text in texts):
        _refuse_pieces(texts, f", not of {pieces} (`pieces`)")
        first = texts[0]
        raise DataError(
            f"{first[0]} and all others have no mark of pieces of {pieces} (`pieces`): {first[1][:SHOWN]!r}. Leave "
            "`pieces` out."
        )
    whole = []
    for place, text in texts:
        try:
            whole.append((place, way.join(text)))
        except ValueError as error:
            raise DataError(
                f"{place} {error} among pieces of {pieces}: {text[:SHOWN]!r}. Correct `pieces`."
            ) from None
    _refuse_pieces(whole, f", after those of {pieces} were joined (`pieces`)", but=pieces)
    yield from (text for _, text in whole)


def joined_lines(path: Path, lines: Sequence[str], pieces: Pieces | None) -> list[str]:
    """Return the lines of a file as they are, or joined; raise DataError as `joined` does."""
    return [*joined([(f"{path}:{number}", line) for number, line in enumerate(lines, 1)], pieces)]


def _refuse_pieces(texts: Sequence[tuple[str, str]], besides: str, but: str = "") -> None:
    """Raise DataError if texts look cut; in another way than `but`."""
    for name, way in WAYS.items():
        cut = [(place, text) for place, text in texts if name != but and way.is_in(text)]
        if len(cut) > way.share * len(texts):
            place, text = cut[0]
            raise DataError(
                f"{place} has {text[:SHOWN]!r}, which looks cut into pieces of {name}{besides}, as do {len(cut):,} "
                f"of {len(texts):,} texts. Set `pieces: {name}` to join them, or `pieces: none` if they are meant so "
                "(options of `bench score`: --pieces, --reference-pieces)."
            )
