"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from bench_core import (
    DataError,
    DecoderConfig,
    ModelConfig,
    Purpose,
    Settings,
    Source,
    TaskConfig,
    TextGenerator,
    Thinking,
    hookimpl,
)
from bench_recorded.reading.pieces import Pieces

#: How a file is read; `auto` goes by its ending, then by its first lines.
Format: TypeAlias = Literal[
    "auto", "lines", "moses-nbest", "fairseq", "jsonl", "lm-eval", "json", "coco", "csv", "tsv", "parquet"
]


def _named(value: Any) -> Any:
    """Return a mapping whose keys are words, as in JSON: seeds are numbers in YAML."""
    return {str(key): _named(one) for key, one in value.items()} if isinstance(value, Mapping) else value


#: A file; or one by each seed
Trained: TypeAlias = Path | dict[str, Path]
#: A file of the test split, or by seed or split, or by split and seed
Outputs: TypeAlias = Annotated[Path | dict[str, Trained], BeforeValidator(_named)]


class Recorded(TextGenerator):
    """A system whose outputs were recorded."""


class Fields(Settings):
    """Names of the fields of JSON objects, or of columns; a dot leads into a field, as in `doc.question`."""

    id: str | None = None  #: of the example; by default `id`, of lm-evaluation-harness `doc_id`, of COCO `image_id`
    output: str | None = None  #: one text; by default `output`, `filtered_resps` (unfiltered: `resps`) or `caption`
    outputs: str = "outputs"  #: several texts, best first, where there is no `output`
    log_prob: str = "log_prob"  #: of the output in nats; of several, a list
    tokens: str = "tokens"  #: of the output: a list, or how many they are; of several, a list of these
    prompt: str | None = None  #: what the system read; by default `prompt`, in logs of the harness `arguments`


class RecordedConfig(ModelConfig):
    """The recorded outputs of a system, whatever made them: text files, n-best lists, JSON lines, sample logs."""

    name, target = "recorded", "bench_recorded.system:RecordedOutputs"
    inspector = "bench_recorded.inspecting:inspect_outputs"
    capabilities, sources = {Recorded}, {*Source}
    takes_new_prompts = False

    outputs: Outputs  #: the file of the test split; or by split, `{valid: a, test: b}`; or by seed, `{0: a, 1: b}`
    format: Format = "auto"  #: by default by the ending of a file, then by its first lines
    fields: Fields = Fields()  #: of JSON lines, and of columns
    pieces: Pieces | None = None  #: how outputs are cut, to be joined; by default those that look cut are refused
    thinking: Thinking = (
        "refuse"  #: what becomes of `<think>...</think>` in outputs: an error, or `drop` or `keep` it
    )
    filter: str | None = None  #: of a log of lm-evaluation-harness with several filters, the one to take
    match: Literal["auto", "order", "id", "number"] = "auto"  #: by line, name or number of examples; see the README
    check: Literal["none", "prompt"] = "none"  #: whether recorded prompts must be those of the task
    prompts: dict[str, Path] = {}  #: by split, a file with a prompt a line beside the outputs, to be checked

    @field_validator("outputs")
    @classmethod
    def _by_split_or_by_seed(cls, outputs: Path | dict[str, Trained]) -> Path | dict[str, Trained]:
        for mapping in _mappings(outputs):
            seeds = [key for key in mapping if key.isdecimal()]
            if not mapping or len(seeds) not in (0, len(mapping)):
                raise ValueError("`outputs` maps seeds or splits to files, one of both, at least one")
            if seeds and not all(isinstance(one, Path) for one in mapping.values()):
                raise ValueError("`outputs` by split and seed are `{test: {0: a.txt, 1: b.txt}}`, splits first")
        return outputs

    @model_validator(mode="after")
    def _same_seeds(self) -> Self:
        if len({tuple(sorted(one)) for one in self.by_split.values()}) > 1:
            raise ValueError(
                "`outputs` have other seeds in one split than in another; they are of the same trainings"
            )
        return self

    @property
    def by_split(self) -> Mapping[str, Mapping[str, Path]]:
        """Return the files by split, then by seed, which is empty for the one system without."""
        if isinstance(self.outputs, Path):
            return {"test": {"": self.outputs}}
        if all(key.isdecimal() for key in self.outputs):
            return {"test": {key: one for key, one in self.outputs.items() if isinstance(one, Path)}}
        return {key: {"": one} if isinstance(one, Path) else one for key, one in self.outputs.items()}

    def extras(self) -> Set[str]:
        """Return the library that reads Parquet, if a file is such; lists of parts ask without any file."""
        files = [path for one in self.by_split.values() for path in one.values()] if hasattr(self, "outputs") else []
        return {"parquet"} if self.format == "parquet" or any(one.suffix == ".parquet" for one in files) else set()

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return the seeds that have files; of the one system without, the first."""
        known = next(iter(self.by_split.values()))
        return asked[:1] if "" in known else [seed for seed in asked if str(seed) in known]

    def file(self, split: str, seed: int) -> Path:
        """Return the file of a split; raise DataError if there is none."""
        if split not in self.by_split:
            known = ", ".join(map(repr, self.by_split))
            raise DataError(
                f"no outputs are recorded for the split {split!r}, only for {known}. Name their file under "
                f"`outputs`, as `{{{split}: FILE}}`, or skip the split for this model."
            )
        files = self.by_split[split]
        found = files.get("", files.get(str(seed)))
        if found is None:
            raise DataError(f"no outputs are recorded for seed {seed}, only for {', '.join(files)}.")
        return found


class AsRecordedConfig(DecoderConfig):
    """The decoder of recorded outputs: gives them as they are, whatever their length."""

    name, target = "as-recorded", "bench_recorded.system:AsRecorded"
    needs = Recorded

    best: PositiveInt | None = None  #: how many outputs of an n-best list; by default all


class ReferencesConfig(TaskConfig):
    """References in text files, a line for each example, to score recorded outputs against; nothing to train on."""

    name, target = "references", "bench_recorded.references:References"
    inspector = "bench_recorded.inspecting:inspect_references"

    references: list[Path] = Field(min_length=1)  #: files with as many lines: one for each reference of an example
    sources: Path | None = None  #: a file with the sources, which samples show
    lang: str | None = None  #: ISO 639 code of the language, by which metrics choose tokenizers
    tokens: bool = False  #: whether spaces stand between all tokens
    pieces: Pieces | None = None  #: how references are cut, to be joined; by default those that look cut are refused

    def purposes(self, split: str) -> Set[Purpose]:
        return {Purpose.DECODE} if split == "test" else set()

    @property
    def language(self) -> str | None:
        return self.lang

    @property
    def tokenized(self) -> bool:
        return self.tokens


def _mappings(outputs: Path | Mapping[str, Trained]) -> list[Mapping[str, Any]]:
    if isinstance(outputs, Path):
        return []
    return [outputs, *(one for one in outputs.values() if not isinstance(one, Path))]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return recorded systems."""
    return [RecordedConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return their decoder."""
    return [AsRecordedConfig]


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task of references."""
    return [ReferencesConfig]
