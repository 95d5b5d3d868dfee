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

DOTLESS = ("tr", "az")  # languages of which a capital I is no i
# Moses has no rules for these and would set each apostrophe apart for good: "Ali 'nin". The English ones join it.
RULES = dict.fromkeys(DOTLESS, "en")


@dataclass(frozen=True)
class Side:
    """How the text of one language is cut and joined."""

    language: str
    kind: str  # of its tokens
    moses: bool
    normalize: bool
    lowercase: bool

    @classmethod
    def of(cls, config: TranslationConfig) -> tuple[Side, Side]:
        """Return source and target; by default, Moses sees text that is not yet tokenized, but for characters."""
        kinds = config.tokenizer.source.kind, config.tokenizer.target.kind
        source, target = (cls._one(config, *side) for side in zip(config.languages, kinds, strict=True))
        return source, target

    @classmethod
    def _one(cls, config: TranslationConfig, language: str, kind: str) -> Side:
        moses, normalize = config.moses_of(kind)
        spaced = language not in UNSPACED
        return cls(language, kind, moses and spaced, normalize and spaced, config.lowercase)

    def tokenized(self, lines: Iterable[str]) -> list[str]:
        """Return each line as tokens, or as text to be cut further, with single spaces and no other white space."""
        steps: list[Callable[[str], str]] = []
        if self.normalize:
            steps.append(_normalizer(self.language))
        steps.append(self.lowered)
        if self.moses:
            steps.append(_tokenizer(self.language))
        return [_through(steps, line) for line in lines]

    def lowered(self, text: str) -> str:
        """Return text in lower case, where that is wished."""
        if not self.lowercase:
            return text
        return _lower_dotless(text) if self.language in DOTLESS else text.lower()

    def text(self, tokens: Sequence[str]) -> str:
        """Return plain text; what a model makes of bytes may hold any white space, which becomes single spaces."""
        words = join(self.kind, tokens).split()
        if self.moses:
            return str(_moses("MosesDetokenizer", self.language).detokenize(words, unescape=False))
        return " ".join(words)


def _through(steps: Iterable[Callable[[str], str]], line: str) -> str:
    """Apply steps to a line of which all white space, be it a tab or U+2028, is a single space."""
    line = " ".join(line.split())
    for step in steps:
        line = step(line)
    return line


def _lower_dotless(line: str) -> str:
    return line.replace("I", "ı").replace("İ", "i").lower()


def _normalizer(language: str) -> Callable[[str], str]:
    """Return Moses' normaliser of punctuation, which is not asked about lines without any that it changes."""
    normalize = _moses("MosesPunctNormalizer", language).normalize
    plain = re.compile(r"[\w ,.?!-]*")
    return lambda line: line if plain.fullmatch(line) else normalize(line)


def _tokenizer(language: str) -> Callable[[str], str]:
    """Return Moses' tokenizer; most lines are words, commas and a full stop, which need not go through its rules."""
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

    return getattr(sacremoses, name)(RULES.get(language, language))
