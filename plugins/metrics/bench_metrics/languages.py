"""Tokenizers and word boundaries by language, for metrics of words."""

from __future__ import annotations

from typing import Protocol

from bench_core import SuiteError

USUAL = {"ja": "ja-mecab", "ko": "ko-mecab", "yue": "zh", "zh": "zh"}  # as sacrebleu chooses; 13a for all others
UNSPACED = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})  # languages that set no spaces between words
BY_SPACES = ("13a", "intl", "none")  # tokenizers to which all between two spaces is words, but for punctuation
SHORT = {  # ISO 639-1 for other codes of the same
    "ces": "cs", "chi": "zh", "cmn": "zh", "cze": "cs", "dan": "da", "deu": "de", "dut": "nl", "eng": "en",
    "fin": "fi", "fra": "fr", "fre": "fr", "ger": "de", "hun": "hu", "ita": "it", "jpn": "ja", "khm": "km",
    "kor": "ko", "lao": "lo", "mya": "my", "nb": "no", "nld": "nl", "nn": "no", "nob": "no", "nor": "no", "por": "pt",
    "ron": "ro", "rum": "ro", "rus": "ru", "spa": "es", "swe": "sv", "tha": "th", "tur": "tr", "zho": "zh",
}  # fmt: skip


class Written(Protocol):
    """What is known of how targets are written: a TaskConfig, or the TaskInfo of a task."""

    @property
    def language(self) -> str | None:
        """Return the language of targets, None where it is not known."""

    @property
    def tokenized(self) -> bool:
        """Return whether spaces stand between all tokens."""


def language(known: Written) -> str | None:
    """Return the language of targets by its shortest code."""
    return SHORT.get(known.language or "", known.language)


def spaced(known: Written) -> bool:
    """Return whether words stand apart."""
    return known.tokenized or language(known) not in UNSPACED


def tokenizer_of(asked: str, known: Written) -> str:
    """Return the tokenizer that `tokenize` asks for; raise SuiteError if it cannot tell the words of the language."""
    code = language(known) or ""
    if asked != "auto":
        if asked in BY_SPACES and not spaced(known):
            usual = f"leave it out for `{USUAL[code]}`, or " if code in USUAL else ""
            raise SuiteError(
                f"`tokenize: {asked}` needs spaces between words, which {code!r} lacks: {usual}set `char`."
            )
        return asked
    if known.tokenized:
        return "13a"
    if code not in USUAL and not spaced(known):
        raise SuiteError(f"no tokenizer knows the words of {code!r}, which sets no spaces: set `tokenize: char`.")
    return USUAL.get(code, "13a")
