"""Configs: the settings and static declarations of parts, importable without torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, PositiveInt, StringConstraints

from bench_core.data import Kind, Purpose, Source, TaskInfo
from bench_core.model import Model, OwnVocabulary, TextGenerator, TextScorer

#: ISO 639 codes of languages written without spaces between words.
UNSPACED = frozenset(
    {"chi", "cmn", "ja", "jpn", "khm", "km", "lao", "lo", "my", "mya", "th", "tha", "yue", "zh", "zho"}
)


class Settings(BaseModel):
    """A nested group of settings, such as a corpus; unknown keys, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


def kinded(default: str | None = None) -> Callable[[Any], Any]:
    """Return a validator that reads a bare word as `{kind: WORD}` and adds `kind: default` to mappings without it."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": default, **value} if default and isinstance(value, dict) else value

    return check


class PathText(str):
    """The text of a `PathOrName`."""


class FoundPath(PathText):
    """The absolute path of an existing file or folder."""


#: A setting that is a path or another name, such as an installed package. The core resolves it relative to the
#: suite's folder, then to the working directory. If no such path exists, the part receives it unchanged and may look
#: for it in the data directory.
PathOrName: TypeAlias = Annotated[str, StringConstraints(min_length=1), AfterValidator(PathText)]


class Config(Settings):
    """The declaration of a part: its name in suites, its settings, and the class that implements it.

    A setting of type `Path`, at any depth, is resolved relative to the suite's folder, then to the working directory,
    then to the data directory. Its digest enters cache keys, and the part receives the absolute path. A `PathOrName`
    may also be a name that only the part can interpret.
    """

    name: ClassVar[str]  #: name of the part in suites
    target: ClassVar[str]  #: "module:Class", imported only by `load`
    limits: ClassVar[Mapping[str, str]] = {}  #: settings that default to a key of a suite's `limits`
    inspector: ClassVar[str] = ""  #: "module:function" called by `bench check` to open files and contact servers
    libraries: ClassVar[Set[str]] = frozenset()  #: indirectly used distributions that affect results
    cites: ClassVar[Sequence[str]] = ()  #: keys of the package's citations.bib, or "SETTING=VALUE: KEY"

    def exempt(self) -> Mapping[str, str]:
        """Return reasons why a part with these settings cannot satisfy a contract, by contract name."""
        return {}

    def extras(self) -> Set[str]:
        """Return the extras that these settings require, as named in the pyproject.toml of the distribution."""
        return frozenset()

    @classmethod
    def load(cls) -> type[Any]:
        """Import and return the class to build."""
        module, _, attribute = cls.target.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]


def configs_inside(settings: Any) -> Iterator[Config]:
    """Yield all Configs nested in settings, at any depth, such as the processors of a decoder."""
    values = vars(settings) if isinstance(settings, BaseModel) else settings
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, BaseModel | Mapping | list | tuple):
            yield from [value] if isinstance(value, Config) else []
            yield from configs_inside(value)


class ModelConfig(Config):
    """The Config of a model, which declares its capabilities without importing torch."""

    capabilities: ClassVar[Set[type[Model]]]  #: interfaces that its class implements, such as Stepper and Scorer
    sources: ClassVar[Set[Source]] = frozenset({Source.NONE})  #: supported kinds of source
    likelihoods: ClassVar[Mapping[str, Kind]] = {}  #: likelihoods that a Scorer supports; the first is the default
    by_phase: ClassVar[Set[str]] = frozenset()  #: settings that a training phase may change
    evaluation: ClassVar[Set[str]] = frozenset()  #: settings that do not affect training, such as sample sizes
    access: ClassVar[Set[str]] = frozenset()  #: settings with defaults, excluded from cache keys, such as a URL
    probes: ClassVar[Set[str]] = frozenset()  #: names of the probes that every report on the model includes
    takes_new_prompts: ClassVar[bool] = True  #: whether prompts may be outside all splits; false for recorded outputs

    def is_pretrained(self) -> bool:
        """Return whether the model is pretrained: evaluated without training unless `training` sets a length.

        By default, models that cannot be trained are pretrained.
        """
        return self.is_untrainable()

    @classmethod
    def is_untrainable(cls) -> bool:
        """Return whether the model cannot be trained, being a TextGenerator, a TextScorer or an OwnVocabulary."""
        pretrained = (TextGenerator, TextScorer, OwnVocabulary)
        return any(issubclass(capability, pretrained) for capability in cls.capabilities)

    def lacks(self, capability: type[Model]) -> str | None:
        """Return why these settings rule out a capability; None, the default, if they do not."""
        return None

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return the subset of a suite's seeds for which the model differs; by default all seeds.

        A system that does not depend on the seed, such as recorded outputs, keeps a single seed.
        """
        return asked

    def is_one_system(self) -> bool:
        """Return whether the model is a fixed system, which keeps only the first seed of any suite."""
        return all([*self.seeds(asked)] == [asked[0]] for asked in ([0, 1], [1, 0]))

    def smooths_labels(self) -> bool:
        """Return whether the loss respects the setting `label_smoothing` of `training`; by default false."""
        return False

    def fits_on_validation(self) -> bool:
        """Return whether settings of the evaluation are fitted on the validation split; by default false."""
        return False

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the files needed to build the model, by role, for `info.files`; raise DataError if one is missing.

        Files named by settings of type `Path` may be omitted.
        """
        return {}


class DecoderConfig(Config):
    """The Config of a decoder, with the setting that all decoders share."""

    needs: ClassVar[type[Model]]  #: the capability required of models, such as Stepper
    limits: ClassVar[Mapping[str, str]] = {"max_tokens": "max_tokens"}  #: setting -> key of `limits`

    max_tokens: PositiveInt = 1000  #: maximum number of target tokens per hypothesis, including EOS

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return the subset of a suite's seeds for which a text generator's outputs differ; by default all seeds.

        Deterministic decoding keeps a single seed, because its outputs are the same for all seeds.
        """
        return asked


class MetricConfig(Config):
    """The Config of a metric.

    A metric that needs a Scorer receives predictions from scoring; its setting `by`, if it has one, selects the
    likelihood. Other metrics receive predictions from decoding.
    """

    needs: ClassVar[type[Model]] = Model  #: Scorer if it measures the likelihood of targets
    range: ClassVar[tuple[float, float] | None] = None  #: lowest and highest possible score, such as (0, 100)
    of_texts: ClassVar[bool] = False  #: whether it only compares output texts with references, so it has a ceiling
    of_tokens: ClassVar[bool] = False  #: whether it uses output tokens, which text generators do not provide

    def refusal(self, task: "TaskConfig") -> str | None:
        """Return why the metric does not support a task; None, the default, if it does."""
        return None

    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and highest possible score: `range`, unless they depend on settings; None if undeclared.

        Intervals are clipped to the bounds, scores outside them are errors, and claims require bounded metrics.
        """
        return self.range

    def is_count(self) -> bool:
        """Return whether scores are exact counts without sampling error, which claims may compare with `==`."""
        return False


class ProbeConfig(Config):
    """The Config of a probe; settings that it shares with the metric of a statement must have the same value.

    For example, a statement about the first 1,500 tokens is never compared with a measurement of the first 500.
    """

    with_decoder: ClassVar[bool] = False  #: whether it runs once per model and decoder instead of once per model


class TaskConfig(Config):
    """The Config of a task."""

    source: ClassVar[Source] = Source.NONE  #: what its targets are conditioned on

    def purposes(self, split: str) -> Set[Purpose]:
        """Return the possible uses of the rows of `split`; an empty set if the split does not exist."""
        return set(Purpose) if split in ("train", "valid", "test") else set()

    @property
    def test_sets(self) -> Sequence[str]:
        """Return the names of additional test splits besides `test`; by default none."""
        return ()

    def at(self, split: str | None) -> Self:
        """Return the settings that determine an evaluated split or, for None, the training data.

        If these differ, the split and the training data are prepared separately, and the training data are
        the split's `Task.base`. By default returns all settings, so all splits are prepared together.
        """
        return self

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of all files and other sources that `prepare` reads; raise DataError if any is missing.

        Files named by settings of type `Path` may be omitted.
        """
        return {}

    @property
    def restriction(self) -> str:
        """Return why reports may not quote the task's texts, such as a licence; empty, the default, if they may."""
        return ""

    @property
    def language(self) -> str | None:
        """Return the ISO 639 code of the target language; None, the default, if it is unknown."""
        return None

    @property
    def tokenized(self) -> bool:
        """Return whether references are tokenized, with spaces between all tokens; by default they are raw text."""
        return False

    @property
    def separator(self) -> str:
        """Return the separator between prompts and targets: a space, or nothing in languages without spaces."""
        return "" if self.language in UNSPACED and not self.tokenized else " "

    def complete(self, info: TaskInfo) -> TaskInfo:
        """Return the task info of `prepare`, completed from these settings."""
        return replace(info, source=self.source, language=self.language, tokenized=self.tokenized)


class ObserverConfig(Config):
    """The Config of an observer, added by `bench run --observe NAME:KEY=VALUE,KEY=VALUE`.

    Its class is an `Observer`, built as `Class(config)`. Observers do not affect results or cache keys.
    """


class ExecutorConfig(Config):
    """The Config of an executor, selected by `bench run --executor NAME --with KEY=VALUE`.

    Its class is an `Executor`, built as `Class(config, store, data, workers)`: the store and data folders, which must
    have the same path on all machines, and the number of concurrent stages.
    """
