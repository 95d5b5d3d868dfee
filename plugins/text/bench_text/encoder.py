"""A vocabulary with its encoding, and the conversion of token names to text; does not import torch."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bench_text.merges import SEPARATOR, Merges
from bench_text.raw_text import Pieces, utf8

SPECIAL = STOP, UNKNOWN, PAD = "<stop>", "<unk>", "<cpad>"  #: EOS; unknown token; padding
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # space in SentencePiece pieces
BYTE = re.compile("<0x[0-9A-F]{2}>")  # SentencePiece byte piece
UNREADABLE = "\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"  #: replaces `<unk>` in texts; occurs in no corpus


Encode: TypeAlias = Callable[[Sequence[str]], Iterator[list[int]]]  #: maps texts to their tokens, without EOS


@dataclass(frozen=True)
class Encoder:
    """A vocabulary of V tokens and its encoding of texts."""

    vocabulary: Sequence[str]  # [V] names; the first is EOS
    encode: Encode
    ordinary: Sequence[int]  # tokens that occur in texts: all except EOS, `<unk>` and `<cpad>`
    #: Maps texts, their tokens and k to the text after the first k tokens of each.
    rest: Callable[[Sequence[str], Iterable[Sequence[int]], int], Iterator[str]]
    unknown: int | None = 1  # the unknown token; None if there is no such token
    extras: Mapping[str, Any] = field(default_factory=dict)  # entries of `TaskInfo.extras`
    pieces: Pieces | None = None  # the UTF-8 of each token, for `Task.target_sizes`
    merges: Merges | None = None  # used by BPE-dropout, if configured
    saved: bytes | None = None  # data for `tokens.restore` in addition to the vocabulary; None if not restorable


def by_name(vocabulary: Sequence[str], cut: Callable[[str], Iterable[str]]) -> Encode:
    """Return an encoding that looks up the pieces of `cut` in the vocabulary; unknown pieces are token 1."""
    ids = {token: index for index, token in enumerate(vocabulary) if token not in SPECIAL}

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        return ([ids.get(piece, 1) for piece in cut(line)] for line in lines)

    return encode


def usual(vocabulary: Sequence[str]) -> Sequence[int]:
    """Return the tokens after EOS and `<unk>` and before `<cpad>`."""
    return range(2, len(vocabulary) - (vocabulary[-1] == PAD))


def join(kind: str, tokens: Iterable[str], unknown: str = UNREADABLE) -> str:
    """Join the token names of a `kind` tokenizer, such as "word" or "bpe", to form a text.

    `unknown` replaces `<unk>` and `<cpad>`, which represent no text. EOS within a stream becomes a word.
    """
    tokens = [unknown if token in (UNKNOWN, PAD) else token for token in tokens]
    if kind == "word":
        return " ".join(tokens)
    if kind == "char":
        return "".join(f" {token} " if token == STOP else token for token in tokens)
    if kind == "codes":
        return f"{' '.join(tokens)} ".replace(f"{SEPARATOR} ", "").removesuffix(" ")
    if kind == "sentencepiece":
        return _join_pieces(tokens)
    from tokenizers import decoders

    text: str = decoders.ByteLevel().decode([f" {token}" if token in (STOP, unknown) else token for token in tokens])
    return text.removeprefix(" ")


def _join_pieces(tokens: Iterable[str]) -> str:
    """Return the text of SentencePiece pieces without leading spaces; invalid bytes become U+FFFD."""
    texts = (f"{SPACE}{token}" if token == STOP else token for token in tokens)
    content = b"".join(bytes([int(piece[3:5], 16)]) if BYTE.fullmatch(piece) else utf8(piece) for piece in texts)
    text = content.decode("utf-8", "surrogateescape").lstrip(SPACE).replace(SPACE, " ")
    return "".join("\N{REPLACEMENT CHARACTER}" if "\udc80" <= char <= "\udcff" else char for char in text)
