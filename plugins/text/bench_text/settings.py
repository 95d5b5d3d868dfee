"""The settings of tokenizers, and of corpora by name; imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PositiveInt

from bench_core import Settings, kinded


def by_name(own: str = "files for train, valid, test") -> Callable[[Any], Any]:
    """Return a validator for a corpus, which reads a bare word as `{name: WORD}`; `own` is what else may be given."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict | Settings):
            return value
        raise ValueError(f"give the name of a corpus, a mapping of its name and settings, or {own}")

    return check


class Words(Settings):
    """White-space separated words, so line breaks become spaces; the rare ones become `<unk>`."""

    kind: Literal["word"] = "word"
    min_count: PositiveInt = 1  # the fewest occurrences of a word that is kept
    most_words: PositiveInt | None = None  # keep at most these many, the most frequent ones


class Characters(Settings):
    """Unicode characters, spaces and line breaks among them."""

    kind: Literal["char"]


class BytePairs(Settings):
    """Byte pair encoding of each white-space separated word's bytes, learnt from the training split."""

    kind: Literal["bpe"]
    vocab_size: int = Field(20_000, ge=259)  # with 256 bytes and three special tokens


class Pretrained(Settings):
    """The tokens of a pretrained model, `tokenizer.json` in a folder of the data directory or elsewhere."""

    kind: Literal["pretrained"]
    path: str = Field(min_length=1)  #: of the folder
    stop: str | None = None  # the token that ends a text; as the files beside the tokenizer say


_Learned: TypeAlias = Annotated[Words | Characters | BytePairs, Field(discriminator="kind")]
_Tokenizer: TypeAlias = Annotated[Words | Characters | BytePairs | Pretrained, Field(discriminator="kind")]

#: One that is learned from texts, such as `char` or `{kind: word, min_count: 2}`.
LearnedTokenizer: TypeAlias = Annotated[
    _Learned, BeforeValidator(kinded("word"), json_schema_input_type=str | _Learned)
]
#: Likewise, or that of a pretrained model.
Tokenizer: TypeAlias = Annotated[_Tokenizer, BeforeValidator(kinded("word"), json_schema_input_type=str | _Tokenizer)]
