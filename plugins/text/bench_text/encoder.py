"""A vocabulary with its encoding, and the text of tokens by name; imports no torch."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bench_text.merges import SEPARATOR, Merges
from bench_text.raw_text import Pieces, utf8

SPECIAL = STOP, UNKNOWN, PAD = "<stop>", "<unk>", "<cpad>"  #: ends a text; any other token; padding
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # in pieces of SentencePiece
BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of SentencePiece that is a byte
UNREADABLE = "\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"  #: stands for `<unk>` in texts; to metrics a single token


Encode: TypeAlias = Callable[[Sequence[str]], Iterator[list[int]]]  #: the tokens of each text, without stop


@dataclass(frozen=True)
class Encoder:
    """A vocabulary of V tokens, and how texts are encoded as these."""

    vocabulary: Sequence[str]  # [V] names; the first is stop
    encode: Encode
    ordinary: Sequence[int]  # the tokens of which texts consist: all but stop, `<unk>` and `<cpad>`
    #: The text after the first k tokens of each text, given texts, their tokens and k.
    rest: Callable[[Sequence[str], Iterable[Sequence[int]], int], Iterator[str]]
    unknown: int | None = 1  # the token for what is not in the vocabulary, if there is one
    extras: Mapping[str, Any] = field(default_factory=dict)  # for `TaskInfo.extras`
    pieces: Pieces | None = None  # the text of each token, for `Task.target_sizes`
    merges: Merges | None = None  # those of which some are left out to train, if so wished
    saved: bytes | None = None  # what `tokens.restored` needs besides the vocabulary; None: it cannot be restored


def by_name(vocabulary: Sequence[str], cut: Callable[[str], Iterable[str]]) -> Encode:
    """Return an encoding by the names of the pieces that `cut` makes of a text; other pieces are token 1."""
    ids = {token: place for place, token in enumerate(vocabulary) if token not in SPECIAL}

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        return ([ids.get(piece, 1) for piece in cut(line)] for line in lines)

    return encode


def usual(vocabulary: Sequence[str]) -> Sequence[int]:
    """Return the tokens behind stop and `<unk>` and before `<cpad>`, of which texts consist."""
    return range(2, len(vocabulary) - (vocabulary[-1] == PAD))


def join(kind: str, tokens: Iterable[str], unknown: str = UNREADABLE) -> str:
    """Return the text of tokens, given by name, of a `kind` of tokenizer, such as "word" or "bpe".

    `unknown` replaces `<unk>` and `<cpad>`, which stand for no text. A stop within a stream becomes a word.
    """
    tokens = [unknown if token in (UNKNOWN, PAD) else token for token in tokens]
    if kind == "word":
        return " ".join(tokens)
    if kind == "char":
        return "".join(f" {token} " if token == STOP else token for token in tokens)
    if kind == "codes":
        return f"{' '.join(tokens)} ".replace(f"{SEPARATOR} ", "").removesuffix(" ")
    if kind == "sentencepiece":
        return _of_pieces(tokens)
    from tokenizers import decoders

    text: str = decoders.ByteLevel().decode([f" {token}" if token in (STOP, unknown) else token for token in tokens])
    return text.removeprefix(" ")


def _of_pieces(tokens: Iterable[str]) -> str:
    """Return the text of pieces of SentencePiece without spaces at its beginning; bytes of no text become signs."""
    texts = (f"{SPACE}{token}" if token == STOP else token for token in tokens)
    content = b"".join(bytes([int(one[3:5], 16)]) if BYTE.fullmatch(one) else utf8(one) for one in texts)
    text = content.decode("utf-8", "surrogateescape").lstrip(SPACE).replace(SPACE, " ")
    return "".join("\N{REPLACEMENT CHARACTER}" if "\udc80" <= sign <= "\udcff" else sign for sign in text)
