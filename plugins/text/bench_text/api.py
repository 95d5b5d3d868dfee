"""What other plugins may import; names load on first use, and settings and Configs load no torch."""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_text import corpora

if TYPE_CHECKING:
    pass

_HOMES = {
    "batching": ["bucketed", "cut", "evenly", "grouped", "shuffled"],
    "configs": ["SequenceTaskConfig"],
    "corpora": ["SPLITS"],
    "examples": ["EncodedExamples", "Example"],
    "json_lines": ["records"],
    "pretrained": ["tokenizer_digests"],
    "ragged": ["Numbers", "Ragged", "padded"],
    "sequence_task": ["SequenceTask"],
    "settings": ["BytePairs", "Characters", "LearnedTokenizer", "Pretrained", "Tokenizer", "Words"],
    "stored_examples": ["StoredExamples"],
    "tokenized": ["TokenizedTask", "token_statistics"],
    "tokens": ["PAD", "UNKNOWN", "UNREADABLE", "Encoder", "join", "learn"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["corpora", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_text.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
