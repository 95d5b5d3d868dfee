"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

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

#: The format of a file; `auto` detects it by the file's extension, then by its first lines.
Format: TypeAlias = Literal[
    "auto", "lines", "moses-nbest", "fairseq", "jsonl", "lm-eval", "json", "coco", "csv", "tsv", "parquet"
]


def _string_keys(value: Any) -> Any:
    """Convert the keys of a mapping to strings, as in JSON, because seeds are numbers in YAML."""
    return {str(key): _string_keys(each) for key, each in value.items()} if isinstance(value, Mapping) else value


#: A file, or files by seed
SeedFiles: TypeAlias = Path | dict[str, Path]
#: A file of the test split, or files by seed, by split, or by split and seed
Outputs: TypeAlias = Annotated[Path | dict[str, SeedFiles], BeforeValidator(_string_keys)]


class Recorded(TextGenerator):
    """A system with recorded outputs."""


class Fields(Settings):
    """Names of JSON fields or table columns; dots access nested fields, as in `doc.question`."""

    id: str | None = None  #: example id; by default `id`, `doc_id` (lm-evaluation-harness) or `image_id` (COCO)
    output: str | None = None  #: text; by default `output`, `filtered_resps` (unfiltered: `resps`) or `caption`
    outputs: str = "outputs"  #: list of output texts, best first, used if there is no `output`
    log_prob: str = "log_prob"  #: log-probability of the output in nats; a list for `outputs`
    tokens: str = "tokens"  #: list or number of the output's tokens; for `outputs`, a list with an entry per text
    prompt: str | None = None  #: prompt text; by default `prompt` or `arguments` (lm-evaluation-harness)


class RecordedConfig(ModelConfig):
    """The recorded outputs of any system: text files, n-best lists, JSON lines, tables or sample logs."""

    name, target = "recorded", "bench_recorded.system:RecordedOutputs"
    inspector = "bench_recorded.inspecting:inspect_outputs"
    capabilities, sources = {Recorded}, {*Source}
    takes_new_prompts = False

    outputs: Outputs  #: the file of the test split; or files by split, `{valid: a, test: b}`, or seed, `{0: a, 1: b}`
    format: Format = "auto"  #: format of the files; by default detected by extension, then by the first lines
    fields: Fields = Fields.model_construct()  #: names of JSON fields or table columns
    pieces: Pieces | None = None  #: kind of pieces to join in outputs; by default, split outputs are refused
    thinking: Thinking = "refuse"  #: `refuse`, `drop` or `keep` `<think>...</think>` in outputs
    filter: str | None = None  #: the filter to use if a log of lm-evaluation-harness has several filters
    match: Literal["auto", "order", "id", "number"] = "auto"  #: by order, name or number of examples; see the README
    check: Literal["none", "prompt"] = "none"  #: `prompt`: recorded and task prompts must agree, up to white space
    prompts: dict[str, Path] = {}  #: files by split with the prompt of each output, one per line, to check

    @field_validator("outputs")
    @classmethod
    def _check_outputs(cls, outputs: Path | dict[str, SeedFiles]) -> Path | dict[str, SeedFiles]:
        for mapping in _mappings(outputs):
            seeds = [key for key in mapping if key.isdecimal()]
            if not mapping or len(seeds) not in (0, len(mapping)):
                raise ValueError("`outputs` must map either seeds or splits to files, at least one")
            if seeds and not all(isinstance(file, Path) for file in mapping.values()):
                raise ValueError("`outputs` by split and seed must be nested: `{test: {0: a.txt, 1: b.txt}}`")
        return outputs

    @model_validator(mode="after")
    def _check_seeds(self) -> Self:
        if len({tuple(sorted(files)) for files in self.by_split.values()}) > 1:
            raise ValueError(
                "the splits of `outputs` have different seeds. Give files of the same training runs for every split"
            )
        return self

    @property
    def by_split(self) -> Mapping[str, Mapping[str, Path]]:
        """The files by split, then by seed, which is "" for a fixed system."""
        if isinstance(self.outputs, Path):
            return {"test": {"": self.outputs}}
        if all(key.isdecimal() for key in self.outputs):
            return {"test": {key: file for key, file in self.outputs.items() if isinstance(file, Path)}}
        return {key: {"": files} if isinstance(files, Path) else files for key, files in self.outputs.items()}

    def extras(self) -> Set[str]:
        """Return the extra that reads Parquet if a file needs it; no extra without settings, as in lists of parts."""
        files = [file for row in self.by_split.values() for file in row.values()] if hasattr(self, "outputs") else []
        return {"parquet"} if self.format == "parquet" or any(file.suffix == ".parquet" for file in files) else set()

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        """Return the seeds that have files; for a fixed system, only the first seed."""
        known = next(iter(self.by_split.values()))
        return asked[:1] if "" in known else [seed for seed in asked if str(seed) in known]

    def file(self, split: str, seed: int) -> Path:
        """Return the file of a split and seed; raise DataError if there is no file."""
        if split not in self.by_split:
            known = ", ".join(map(repr, self.by_split))
            raise DataError(
                f"no outputs are recorded for the split {split!r}, only for {known}. Add its file to `outputs`, as "
                f"`{{{split}: FILE}}`, or skip the split for this model."
            )
        files = self.by_split[split]
        file = files.get("", files.get(str(seed)))
        if file is None:
            raise DataError(f"no outputs are recorded for seed {seed}, only for {', '.join(files)}.")
        return file


class AsRecordedConfig(DecoderConfig):
    """The decoder for recorded outputs: returns them unchanged, whatever their length."""

    name, target = "as-recorded", "bench_recorded.system:AsRecorded"
    needs = Recorded

    best: PositiveInt | None = None  #: maximum number of outputs per n-best list; by default all


class ReferencesConfig(TaskConfig):
    """References in text files, one line per example, to score recorded outputs; has no training data."""

    name, target = "references", "bench_recorded.references:RecordedReferences"
    inspector = "bench_recorded.inspecting:inspect_references"

    references: list[Path] = Field(min_length=1)  #: one file per reference of an example, all with equally many lines
    sources: Path | None = None  #: a file with the sources, for samples in reports
    lang: str | None = None  #: ISO 639 code of the language, used by metrics to choose tokenizers
    tokens: bool = False  #: whether texts are tokenized, with spaces between tokens
    pieces: Pieces | None = None  #: kind of pieces to join in references; by default, split references are refused

    def purposes(self, split: str) -> Set[Purpose]:
        return {Purpose.DECODE} if split == "test" else set()

    @property
    def language(self) -> str | None:
        return self.lang

    @property
    def tokenized(self) -> bool:
        return self.tokens


def _mappings(outputs: Path | Mapping[str, SeedFiles]) -> list[Mapping[str, Any]]:
    if isinstance(outputs, Path):
        return []
    return [outputs, *(files for files in outputs.values() if not isinstance(files, Path))]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Config of the model that returns recorded outputs."""
    return [RecordedConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the Config of the decoder for recorded outputs."""
    return [AsRecordedConfig]


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the Config of the task that has only references."""
    return [ReferencesConfig]
