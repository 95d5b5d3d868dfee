"""Public interface: corpora, tokenizers, batches, base classes of tasks. Names are imported on first use."""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from warnings import warn

from bench_text import corpora
from bench_text.corpora import SPLITS

if TYPE_CHECKING:
    from bench_text.batching import bucketed, cut, evenly, grouped, shuffled
    from bench_text.configs import CorpusTaskConfig, SequenceTaskConfig
    from bench_text.copy_source import check_shared
    from bench_text.cut_text import Asked
    from bench_text.encoder import UNKNOWN, UNREADABLE, Encoder, join
    from bench_text.examples import EncodedExamples, Example
    from bench_text.inspecting import Lengths, Writing, check_tokenizer
    from bench_text.json_lines import once, placed_records, records
    from bench_text.pretrained import tokenizer_digests
    from bench_text.ragged import Numbers, Ragged, padded
    from bench_text.sequence_task import SequenceTask
    from bench_text.settings import BytePairs, Characters, Codes, CorpusSplits, LearnedTokenizer, OwnSplits, Paths
    from bench_text.settings import (
        Pretrained,
        SentencePiece,
        TestName,
        Tokenizer,
        Words,
        both_sides,
        by_name,
        as_list,
    )
    from bench_text.stored_examples import StoredExamples
    from bench_text.token_sizes import TokenSizes
    from bench_text.tokenized import TokenizedTask, token_statistics
    from bench_text.tokens import learn

_HOMES = {
    "batching": ["bucketed", "cut", "evenly", "grouped", "shuffled"],
    "configs": ["CorpusTaskConfig", "SequenceTaskConfig"],
    "copy_source": ["check_shared"],
    "cut_text": ["Asked"],
    "examples": ["EncodedExamples", "Example"],
    "inspecting": ["Lengths", "Writing", "check_tokenizer"],
    "json_lines": ["once", "placed_records", "records"],
    "pretrained": ["tokenizer_digests"],
    "ragged": ["Numbers", "Ragged", "padded"],
    "sequence_task": ["SequenceTask"],
    "settings": [
        "BytePairs", "Characters", "Codes", "LearnedTokenizer", "Pretrained", "SentencePiece", "CorpusSplits",
        "OwnSplits", "Paths", "TestName", "Tokenizer", "Words", "both_sides", "by_name", "as_list",
    ],
    "stored_examples": ["StoredExamples"],
    "token_sizes": ["TokenSizes"],
    "tokenized": ["TokenizedTask", "token_statistics"],
    "encoder": ["UNKNOWN", "UNREADABLE", "Encoder", "join"],
    "tokens": ["learn"],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["SPLITS", "corpora", *_HOME]

_RENAMED = {"listed": "as_list"}  #: former names; removed in the next release


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        text = f"`{__name__}.{name}` is now called `{_RENAMED[name]}`; the next release removes the old name."
        warn(text, FutureWarning, stacklevel=2)
        name = _RENAMED[name]
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_text.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
