"""Configs: the settings of a part, and what it declares about itself without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, PositiveInt

from bench_core.data import Kind, Purpose, Source
from bench_core.model import Model

if TYPE_CHECKING:
    from pathlib import Path

    from bench_core.data import Facts


class Settings(BaseModel):
    """Settings inside those of a part, such as a corpus: no key but those that are declared, and no infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def kinded(default: str | None = None) -> Callable[[Any], Any]:
    """Return a validator that takes a bare word for `{kind: WORD}`; a mapping without one is of `default`."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": default, **value} if default and isinstance(value, dict) else value

    return check


class Config(Settings):
    """The face of a part: its name in suites, its settings, and the class that they build.

    A setting of type `Path`, however deep it stands, names a file or folder: relative to the working directory, else
    to the data directory. The core digests it for the keys, and gives the part its absolute path.
    """

    name: ClassVar[str]  #: what a suite calls it
    target: ClassVar[str]  #: "module:Class", imported by `load` alone
    limits: ClassVar[Mapping[str, str]] = {}  #: settings that a suite's `limits` give where the part says nothing
    libraries: ClassVar[Set[str]] = frozenset()  #: distributions besides torch whose version decides its results
    cites: ClassVar[Sequence[str]] = ()  #: keys of its package's citations.bib, some as "SETTING=VALUE: KEY"

    def extras(self) -> Set[str]:
        """Return the extras of its distribution that these settings need, as its pyproject.toml names them."""
        return frozenset()

    @classmethod
    def load(cls) -> type[Any]:
        """Import and return the class that these settings build."""
        module, _, attribute = cls.target.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]


class ModelConfig(Config):
    """What all models say about themselves before torch is imported."""

    gives: ClassVar[Set[type[Model]]]  #: its capabilities
    sources: ClassVar[Set[Source]] = frozenset({Source.NONE})
    likelihoods: ClassVar[Mapping[str, Kind]] = {}  #: what a Scorer can score by, the first by default
    by_phase: ClassVar[Set[str]] = frozenset()  #: settings that a phase of training may change
    probes: ClassVar[Set[str]] = frozenset()  #: those that every report of it carries, by name

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the files that it is built from, by role, for `facts.files`; raise DataError without one.

        Those that settings of type `Path` name need not be among them.
        """
        return {}


class DecoderConfig(Config):
    """What all decoders say about themselves, and the one setting that they share."""

    needs: ClassVar[type[Model]]
    limits: ClassVar[Mapping[str, str]] = {"max_tokens": "max_tokens"}

    max_tokens: PositiveInt = 1000  #: the most target tokens of a hypothesis, stop included


class MetricConfig(Config):
    """What all metrics say about themselves.

    A metric that needs a Scorer sees the outcomes of scoring, by the likelihood `by` if it has such a setting;
    every other sees those of decoding.
    """

    needs: ClassVar[type[Model]] = Model

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why it cannot measure what is generated for a task; None where it can, as by default."""
        return None


class ProbeConfig(Config):
    """What all probes say about themselves; the settings that they share with a metric must agree with its own.

    So a promise about the first 1,500 tokens is never held against what was measured of 500.
    """

    with_decoder: ClassVar[bool] = False  #: whether it asks about a model under each decoder, or about the model


class TaskConfig(Config):
    """What all tasks say about themselves."""

    source: ClassVar[Source] = Source.NONE

    def purposes(self, split: str) -> Set[Purpose]:
        """Return what the rows of `split` can be used for; nothing where there is no such split."""
        return set(Purpose) if split in ("train", "valid", "test") else set()

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of every file (or other origin) that `prepare` reads; raise DataError without one.

        Those that settings of type `Path` name need not be among them.
        """
        return {}

    @property
    def language(self) -> str | None:
        """Return the language of targets by its ISO 639 code; None where that is not known, as by default."""
        return None

    @property
    def tokenized(self) -> bool:
        """Return whether spaces stand between all tokens of the references; by default they are text."""
        return False

    def known(self, facts: Facts) -> Facts:
        """Return what `prepare` has found out, with what these settings say."""
        return replace(facts, source=self.source, language=self.language, tokenized=self.tokenized)


class ExecutorConfig(Config):
    """What all executors say about themselves; `bench run --executor NAME --with KEY=VALUE` chooses one.

    The class that it names is an `Executor`, built as `Class(config, store, data, workers)`: the folders of the store
    and of the corpora, which every machine must see at the same place, and how many stages may be under way.
    """
