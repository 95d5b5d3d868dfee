"""Settings of data: where each split comes from, and the meaning of fields."""

from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from bench_core import Settings
from bench_data.templates import parts
from bench_text.api import SPLITS, Paths, Pretrained, TestName, Tokenizer, as_list, both_sides

SHARE_ERROR = "`share` must be two numbers from 0 to 100 in ascending order, such as [80, 90]"


def _template(text: str) -> str:
    parts(text)  # raises ValueError
    return text


def _two(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) != 2:
        raise ValueError(SHARE_ERROR)
    return value


#: The name of a field, or a text with field names in braces.
Template: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_template)]
Templates: TypeAlias = Annotated[
    list[Template], Field(min_length=1), BeforeValidator(as_list, json_schema_input_type=str | list[str])
]


class RecordFields(Settings):
    """Meaning of fields, or templates such as `{question} ({year})`; `a.b` is the field `b` of the object `a`."""

    source: Template | None = None  #: input text; default: `source`
    prompt: Template | None = None  #: text before the target; default: none
    target: Template | None = None  #: text to learn; default: `target`, or `text` for `completion`
    references: Templates | None = None  #: reference texts, or lists of texts; default: the target
    id: Template | None = None  #: unique id of an example in your data; default: none
    group: Template | None = None  #: shared by dependent examples, such as sentences of a document
    weight: str | None = None  #: field with the weight of an example; default: 1


#: Fields that training does not depend on, except groups if they determine shares of records.
NOT_TRAINED_ON = ("id", "group", "references")


class Origin(Settings):
    """The origin of a split's examples."""

    fields: RecordFields = RecordFields.model_construct()  #: fields that differ from the task's
    where: dict[str, str | list[str]] = {}  #: only records whose field has this text, or one of these texts
    share: Annotated[tuple[int, int] | None, BeforeValidator(_two, json_schema_input_type=tuple[int, int])] = (
        None  #: range of every 100 records or groups: [80, 90] selects ten of them
    )
    targets: bool = True  #: whether there are targets; without them, examples can only be decoded

    def trained_on(self, fields: RecordFields) -> Self:
        """Return the settings that training depends on, given the task's fields; groups matter only for shares."""
        update: dict[str, str | None] = dict.fromkeys(NOT_TRAINED_ON)
        update["group"] = (self.fields.group or fields.group) if self.share else None
        return self.model_copy(update={"fields": self.fields.model_copy(update=update)})

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.share and not 0 <= self.share[0] < self.share[1] <= 100:
            raise ValueError(SHARE_ERROR)
        return self


class RecordFiles(Origin):
    """Files of records: `.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`, or plain text with a `text` per line."""

    files: Paths  #: one file, or several to concatenate


class AlignedFiles(Origin):
    """Aligned plain files: line n of each file belongs to the same example."""

    source: Paths | None = None  #: input texts
    prompt: Paths | None = None  #: texts before targets
    target: Paths | None = None  #: texts to learn; without them, examples can only be decoded
    references: list[Path] = []  #: one file per further reference; empty lines are ignored

    def trained_on(self, fields: RecordFields) -> Self:
        return super().trained_on(fields).model_copy(update={"references": []})

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if not any((self.source, self.prompt, self.target)):
            raise ValueError("give the files of `source`, `prompt` or `target`")
        if self.target is None and self.targets:
            return self.model_copy(update={"targets": False})
        return self


class Saved(Origin):
    """A folder written by `save_to_disk` of the library `datasets`."""

    saved: Path  #: folder
    split: str | None = None  #: split, if the folder has several


class Hub(Origin):
    """A revision of a data set on the Hugging Face hub."""

    hub: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")  #: name
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")  #: commit, 40 hexadecimal digits
    config: str | None = None  #: configuration, if there are several
    split: str = Field(min_length=1)  #: split
    allow_download: bool = False  #: allow downloading; otherwise only the hub's cache is read


class TestSet(Origin):
    """A test set downloaded by sacrebleu; its first reference is the target."""

    __test__ = False  # not a test class of pytest

    sacrebleu: str = Field(min_length=1)  #: name, such as `wmt14/full`
    pair: str = Field(pattern=r"^[\w-]+-[\w-]+$")  #: language pair, such as `de-en`


KINDS = {"files": RecordFiles, "saved": Saved, "hub": Hub, "sacrebleu": TestSet}


def _read_files(value: Any) -> Any:
    """Interpret a path, or a list of paths, as files of records."""
    return {"files": value} if isinstance(value, str | Path | list) else value


def _choice(value: Any) -> str:
    if isinstance(value, dict):
        return next((key for key in KINDS if key in value), "lines")
    return next((key for key, kind in KINDS.items() if isinstance(value, kind)), "lines")


_Origin: TypeAlias = Annotated[
    Annotated[RecordFiles, Tag("files")]
    | Annotated[AlignedFiles, Tag("lines")]
    | Annotated[Saved, Tag("saved")]
    | Annotated[Hub, Tag("hub")]
    | Annotated[TestSet, Tag("sacrebleu")],
    Discriminator(_choice),
]
AnyOrigin: TypeAlias = Annotated[
    _Origin, BeforeValidator(_read_files, json_schema_input_type=Path | list[Path] | _Origin)
]


class Data(Settings):
    """Origin of each split: files, or a mapping with more settings."""

    train: AnyOrigin | None = None  #: training examples
    valid: AnyOrigin | None = None  #: examples for choosing weights and settings
    test: AnyOrigin | None = None  #: examples to report results on
    tests: dict[TestName, AnyOrigin] = {}  #: further test sets by name; each is a split of that name

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.origins:
            raise ValueError("give at least one of `train`, `valid`, `test` and `tests`")
        if self.train and not self.train.targets:
            raise ValueError("`train` needs targets")
        return self

    @property
    def origins(self) -> dict[str, Any]:
        """Return the origin of each split."""
        known = {split: origin for split in SPLITS if (origin := getattr(self, split)) is not None}
        return {**known, **self.tests}

    def only(self, *splits: str) -> Self:
        """Return the data restricted to the given splits."""
        left_out = {name: None for name in SPLITS if name not in splits}
        tests = {name: origin for name, origin in self.tests.items() if name in splits}
        return self.model_copy(update={**left_out, "tests": tests})


class TokenizerPair(Settings):
    """Tokenizers of source and target."""

    source: Tokenizer  #: tokenizer of the source
    target: Tokenizer  #: tokenizer of the target

    @model_validator(mode="after")
    def _check_pretrained(self) -> Self:
        if self.source != self.target and any(isinstance(side, Pretrained) for side in (self.source, self.target)):
            raise ValueError("a `pretrained` tokenizer must be the same for source and target")
        return self


Tokenizers: TypeAlias = Annotated[
    TokenizerPair, BeforeValidator(both_sides, json_schema_input_type=str | Tokenizer | TokenizerPair)
]
