"""One language of a task: normalization, tokenization, detokenization."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench_core import UNSPACED
from bench_text.api import join
from bench_translation.plugin import TranslationConfig

DOTLESS_I = ("tr", "az")  # languages in which I is the capital of ı
# Moses has no rules for these languages and would detach apostrophes for good: "Ali 'nin". English rules rejoin them.
MOSES_LANGUAGES = dict.fromkeys(DOTLESS_I, "en")


@dataclass(frozen=True)
class LanguageSide:
    """Tokenization and detokenization of a language."""

    language: str
    kind: str  # kind of tokens
    moses: bool
    normalize: bool
    lowercase: bool

    @classmethod
    def of(cls, config: TranslationConfig) -> tuple[LanguageSide, LanguageSide]:
        """Return both sides of a task; by default, Moses processes untokenized text, except for character tokens."""
        kinds = config.tokenizer.source.kind, config.tokenizer.target.kind
        source, target = (cls._of_language(config, *side) for side in zip(config.languages, kinds, strict=True))
        return source, target

    @classmethod
    def _of_language(cls, config: TranslationConfig, language: str, kind: str) -> LanguageSide:
        moses, normalize = config.moses_of(kind)
        spaced = language not in UNSPACED
        return cls(language, kind, moses and spaced, normalize and spaced, config.lowercase)

    def tokenize(self, lines: Iterable[str]) -> list[str]:
        """Tokenize each line, or normalize it for further tokenization, with single spaces as the only whitespace."""
        steps: list[Callable[[str], str]] = []
        if self.normalize:
            steps.append(_normalizer(self.language))
        steps.append(self.to_lower)
        if self.moses:
            steps.append(_tokenizer(self.language))
        return [_apply(steps, line) for line in lines]

    def to_lower(self, text: str) -> str:
        """Return the text in lower case if `lowercase` is set."""
        if not self.lowercase:
            return text
        return _lower_dotless(text) if self.language in DOTLESS_I else text.lower()

    def text(self, tokens: Sequence[str]) -> str:
        """Return plain text; decoded bytes may contain any whitespace, which is replaced by single spaces."""
        words = join(self.kind, tokens).split()
        if self.moses:
            return str(_moses("MosesDetokenizer", self.language).detokenize(words, unescape=False))
        return " ".join(words)


def _apply(steps: Iterable[Callable[[str], str]], line: str) -> str:
    """Apply steps to a line after replacing all whitespace, including tabs and U+2028, by single spaces."""
    line = " ".join(line.split())
    for step in steps:
        line = step(line)
    return line


def _lower_dotless(line: str) -> str:
    return line.replace("I", "ı").replace("İ", "i").lower()


def _normalizer(language: str) -> Callable[[str], str]:
    """Return Moses' punctuation normalizer, with a shortcut for lines that it would not change."""
    normalize = _moses("MosesPunctNormalizer", language).normalize
    plain = re.compile(r"[\w ,.?!-]*")
    return lambda line: line if plain.fullmatch(line) else normalize(line)


def _tokenizer(language: str) -> Callable[[str], str]:
    """Return Moses' tokenizer, with a shortcut for lines of words, commas and a final full stop."""
    moses = _moses("MosesTokenizer", language)
    word = "[A-Za-zÀ-ÖØ-öø-ɏ]+"
    simple, abbreviations = re.compile(rf"{word}(?:,? {word})*\.?"), frozenset(moses.NONBREAKING_PREFIXES)

    def tokenize(line: str) -> str:
        if not simple.fullmatch(line):
            return " ".join(moses.tokenize(line, escape=False))
        line = line.replace(",", " ,")
        if not line.endswith(".") or line[line.rfind(" ") + 1 : -1] in abbreviations:
            return line
        return f"{line[:-1]} ."

    return tokenize


@cache
def _moses(name: str, language: str) -> Any:
    import sacremoses  # type: ignore[import-untyped]

    return getattr(sacremoses, name)(MOSES_LANGUAGES.get(language, language))
