"""Base Configs for tasks defined by a single method and for tasks on a corpus; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Self

from pydantic import NonNegativeInt, PositiveInt

from bench_core import Purpose, TaskConfig
from bench_core.kit import name_by_convention
from bench_text.corpora import restriction
from bench_text.settings import Tokenizer, Words


class CorpusTaskConfig(TaskConfig):
    """Base Config for tasks whose setting `corpus` is a `CorpusSplits`."""

    corpus: Any

    @property
    def test_sets(self) -> list[str]:
        return [*getattr(self.corpus, "tests", ())]

    @property
    def restriction(self) -> str:
        return restriction(getattr(self.corpus, "name", ""))

    def at(self, split: str | None) -> Self:
        """Return the Config with the settings that affect a split or, for None, training (without test sets)."""
        corpus = self.corpus.trained_on() if split is None else self.corpus.restricted(split)
        return self.model_copy(update={"corpus": corpus})

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all purposes for a split of the corpus, and no purposes for other splits."""
        return set(Purpose) if split in self.corpus.splits else set()


class SequenceTaskConfig(TaskConfig):
    """The Config of a `SequenceTask`; the task's name and class are derived from the Config's name by default.

    `PoemsConfig` in `bench_x` or `bench_x.plugin` defines the task `poems` of class `bench_x.task:Poems`. A task with
    sources declares their kind, such as `source = Source.TOKENS`. Files of a task are settings of type `Path`.
    """

    tokenizer: Tokenizer = Words.model_construct()  #: `word`, `char`, `bpe`, `pretrained`, or a mapping with settings
    shared: bool = False  #: whether sources and targets share a vocabulary
    longest: PositiveInt | None = None  #: maximum tokens of a source or target in training examples
    prefix: NonNegativeInt = 0  #: number of initial target tokens that are given as a prompt

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls, "task")

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of a pretrained tokenizer's files; raise DataError if a file is missing.

        The core digests files that are settings. A task that reads other files overrides this to add their digests.
        """
        from bench_text.pretrained import tokenizer_digests  # only when data are read

        return tokenizer_digests(self.tokenizer, data)
