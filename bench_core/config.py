"""Configs: the settings of a part, and what it declares about itself without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, PositiveInt, StringConstraints

from bench_core.data import Kind, Purpose, Source, TaskInfo
from bench_core.model import Model, OwnVocabulary, TextGenerator, TextScorer

#: Languages that set no spaces between words, by their ISO 639 codes.
UNSPACED = frozenset(
    {"chi", "cmn", "ja", "jpn", "khm", "km", "lao", "lo", "my", "mya", "th", "tha", "yue", "zh", "zho"}
)


class Settings(BaseModel):
    """A nested group of settings, such as a corpus: undeclared keys, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


def kinded(default: str | None = None) -> Callable[[Any], Any]:
    """Return a validator that reads a bare word as `{kind: WORD}`; a mapping without a kind has kind `default`."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": default, **value} if default and isinstance(value, dict) else value

    return check


class PathText(str):
    """The text of a `PathOrName`."""


class FoundPath(PathText):
    """One that leads to something, absolute."""


#: A setting that is a path, or a name of something else, such as an installed package. The core follows it from the
#: folder of the suite and from the working directory; where it leads to nothing, the part gets it as it is, and may
#: look for it in the data directory.
PathOrName: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(PathText)]


class Config(Settings):
    """A part without its implementation: its name in suites, its settings, and the class to build.

    A setting of type `Path`, at any depth, names a file or folder relative to the folder of the suite file, else to
    the working directory, else to the data directory. The core puts its digest into cache keys, and gives the part
    the absolute path. A `PathOrName` may also be something that only the part knows.
    """

    name: ClassVar[str]  #: what a suite calls it
    target: ClassVar[str]  #: "module:Class", imported by `load` alone
    limits: ClassVar[Mapping[str, str]] = {}  #: settings that a suite's `limits` give where the part says nothing
    inspector: ClassVar[str] = ""  #: "module:function" that opens its files and servers, called by `bench check`
    libraries: ClassVar[Set[str]] = frozenset()  #: distributions that decide its results and are used through others
    cites: ClassVar[Sequence[str]] = ()  #: keys of its package's citations.bib, some as "SETTING=VALUE: KEY"

    def exempt(self) -> Mapping[str, str]:
        """Return the contracts that a part with these settings cannot keep, by name, each with the reason."""
        return {}

    def extras(self) -> Set[str]:
        """Return the extras of its distribution that these settings need, as its pyproject.toml names them."""
        return frozenset()

    @classmethod
    def load(cls) -> type[Any]:
        """Import and return the class that these settings build."""
        module, _, attribute = cls.target.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]


def configs_inside(settings: Any) -> Iterator[Config]:
    """Yield the Configs among the values of settings, at any depth, such as the processors of a decoder."""
    values = vars(settings) if isinstance(settings, BaseModel) else settings
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, BaseModel | Mapping | list | tuple):
            yield from [value] if isinstance(value, Config) else []
            yield from configs_inside(value)


class ModelConfig(Config):
    """The Config of a model: its capabilities, without importing torch."""

    capabilities: ClassVar[Set[type[Model]]]  #: that its class inherits, such as Stepper and Scorer
    sources: ClassVar[Set[Source]] = frozenset({Source.NONE})  #: those that it takes
    likelihoods: ClassVar[Mapping[str, Kind]] = {}  #: what a Scorer can score by, the first by default
    by_phase: ClassVar[Set[str]] = frozenset()  #: settings that a phase of training may change
    evaluation: ClassVar[Set[str]] = frozenset()  #: settings that training does not depend on, such as sample sizes
    access: ClassVar[Set[str]] = frozenset()  #: settings in no key, with defaults: how to reach a system elsewhere
    probes: ClassVar[Set[str]] = frozenset()  #: those that every report of it carries, by name
    takes_new_prompts: ClassVar[bool] = True  #: whether prompts may be in no split; recorded outputs have no others

    def is_pretrained(self) -> bool:
        """Return whether it is evaluated as it is, unless its own `training` says how long it is trained.

        By default that is so of what cannot be trained.
        """
        return self.is_untrainable()

    @classmethod
    def is_untrainable(cls) -> bool:
        """Return whether it is never trained: it writes or scores texts, or has a vocabulary of its own."""
        return any(issubclass(one, TextGenerator | TextScorer | OwnVocabulary) for one in cls.capabilities)

    def lacks(self, capability: type[Model]) -> str | None:
        """Return why it cannot use a capability with these settings; None, the default, if it can."""
        return None

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return those of the seeds of a suite with which it differs; by default all.

        What is the same for every seed, such as the recorded outputs of one system, is one system and not several.
        """
        return asked

    def is_one_system(self) -> bool:
        """Return whether it is one system whatever the seeds: of any seeds, it has the first alone."""
        return all([*self.seeds(asked)] == [asked[0]] for asked in ([0, 1], [1, 0]))

    def smooths_labels(self) -> bool:
        """Return whether its loss heeds `label_smoothing` of a training; by default it does not."""
        return False

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the files needed to build it, by role, for `info.files`; raise DataError if one is missing.

        Files named by settings of type `Path` may be left out.
        """
        return {}


class DecoderConfig(Config):
    """The Config of a decoder, with the one setting that all decoders share."""

    needs: ClassVar[type[Model]]  #: the capability that a model must have, such as Stepper
    limits: ClassVar[Mapping[str, str]] = {"max_tokens": "max_tokens"}  #: by setting, the key of `limits`

    max_tokens: PositiveInt = 1000  #: the most target tokens of a hypothesis, stop included

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return those of the seeds of a suite with which a text generator answers otherwise; by default all.

        Without chance, all seeds have the same outputs: one system and not several.
        """
        return asked


class MetricConfig(Config):
    """The Config of a metric.

    A metric that needs a Scorer is given the outcomes of scoring, by the likelihood in its setting `by` if it has
    one; any other is given those of decoding.
    """

    needs: ClassVar[type[Model]] = Model  #: Scorer if it measures the likelihood of targets
    range: ClassVar[tuple[float, float] | None] = None  #: the lowest and highest possible score, such as (0, 100)
    of_texts: ClassVar[bool] = False  #: whether it compares outputs with references as texts, alone: it has a ceiling
    of_tokens: ClassVar[bool] = False  #: whether it looks at the tokens of outputs, which text generators do not give

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why it cannot be used with a task; None, the default, if it can."""
        return None

    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and highest possible score: `range`, unless settings decide them; None if undeclared.

        Intervals stay within the bounds, scores outside them are errors, and a claim needs the bounds of its metrics.
        """
        return self.range

    def is_count(self) -> bool:
        """Return whether scores are exact counts, without sampling error, which claims may compare by `==`."""
        return False


class ProbeConfig(Config):
    """The Config of a probe; settings of the same name in the metric of a statement must have the same value.

    So a statement about the first 1,500 tokens is never compared with a measurement of 500.
    """

    with_decoder: ClassVar[bool] = False  #: whether it asks about a model under each decoder, or about the model


class TaskConfig(Config):
    """The Config of a task."""

    source: ClassVar[Source] = Source.NONE  #: what its targets are made from

    def purposes(self, split: str) -> Set[Purpose]:
        """Return what the rows of `split` can be used for; the empty set if there is no such split."""
        return set(Purpose) if split in ("train", "valid", "test") else set()

    @property
    def test_sets(self) -> Sequence[str]:
        """Return the names of its test sets besides `test`, each a split; by default there are none."""
        return ()

    def at(self, split: str | None) -> Self:
        """Return the settings on which a split depends that is evaluated, or, of None, all that trainings read.

        Where these differ, each is prepared by itself, a split with what trainings read as its `Task.base`. By
        default all settings: then all splits are prepared at once, and trainings depend on all of them.
        """
        return self

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of every file (or other source) that `prepare` reads; raise DataError if one is missing.

        Files named by settings of type `Path` may be left out.
        """
        return {}

    @property
    def restriction(self) -> str:
        """Return why reports may not show its texts, such as a licence; empty, the default, if they may."""
        return ""

    @property
    def language(self) -> str | None:
        """Return the ISO 639 code of the language of targets; None, the default, if it is unknown."""
        return None

    @property
    def tokenized(self) -> bool:
        """Return whether references are tokenized, with spaces between all tokens; by default they are raw text."""
        return False

    @property
    def separator(self) -> str:
        """Return what stands between prompts and targets: a space, or nothing in languages without spaces."""
        return "" if self.language in UNSPACED and not self.tokenized else " "

    def known(self, info: TaskInfo) -> TaskInfo:
        """Return the facts of `prepare`, completed from these settings."""
        return replace(info, source=self.source, language=self.language, tokenized=self.tokenized)


class ObserverConfig(Config):
    """The Config of an observer; `bench run --observe NAME:KEY=VALUE,KEY=VALUE` selects it, beside others.

    Its class is an `Observer`, built as `Class(config)`. It is in no cache key: observing changes no result.
    """


class ExecutorConfig(Config):
    """The Config of an executor; `bench run --executor NAME --with KEY=VALUE` selects one.

    Its class is an `Executor`, built as `Class(config, store, data, workers)`: the folders of the store and of the
    corpora, which all machines must see at the same path, and the number of concurrent stages.
    """
