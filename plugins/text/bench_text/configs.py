"""The Configs of tasks in one method, and of tasks on a corpus; imports no torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Self

from pydantic import NonNegativeInt, PositiveInt

from bench_core import Purpose, TaskConfig
from bench_core.kit import name_by_convention
from bench_text.corpora import restriction
from bench_text.pretrained import tokenizer_digests
from bench_text.settings import Tokenizer, Words


class CorpusTaskConfig(TaskConfig):
    """What Configs of tasks have in common whose setting `corpus` is a `CorpusSplits`."""

    corpus: Any

    @property
    def test_sets(self) -> list[str]:
        return [*getattr(self.corpus, "tests", ())]

    @property
    def restriction(self) -> str:
        return restriction(getattr(self.corpus, "name", ""))

    def at(self, split: str | None) -> Self:
        """Return what a split depends on, or what trainings do: no test sets or further references."""
        found = self.corpus.trained_on() if split is None else self.corpus.restricted(split)
        return self.model_copy(update={"corpus": found})

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all of them for the splits of the corpus."""
        return set(Purpose) if split in self.corpus.splits else set()


class SequenceTaskConfig(TaskConfig):
    """The Config of a `SequenceTask`; its name and class follow from its own name, unless it declares them.

    `PoemsConfig` in `bench_x` or `bench_x.plugin` is the task `poems`, of class `bench_x.task:Poems`. A task with
    sources declares their kind, such as `source = Source.TOKENS`. The files of a task are settings of type `Path`.
    """

    tokenizer: Tokenizer = Words()  #: units of texts: `word`, `char`, `bpe`, or `pretrained`
    shared: bool = False  #: whether sources and targets have one vocabulary
    longest: PositiveInt | None = None  #: tokens of a source or target; longer examples are not trained on
    prefix: NonNegativeInt = 0  #: tokens at the beginning of a target that are given, not generated

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls, "task")

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of the files of a pretrained tokenizer; raise DataError if it is missing.

        The core digests files that are settings. A task that reads others overrides this, and adds their digests.
        """
        return tokenizer_digests(self.tokenizer, data)
