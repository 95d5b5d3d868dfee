"""The settings of data: where each split comes from, and which field is what."""

from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from bench_core import Settings
from bench_data.templates import parts
from bench_text.api import SPLITS, Paths, Pretrained, TestName, Tokenizer, both_sides, listed

SHARE = "`share` is two numbers from 0 to 100, the smaller one first, such as [80, 90]"


def _template(text: str) -> str:
    parts(text)  # raises ValueError
    return text


def _two(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) != 2:
        raise ValueError(SHARE)
    return value


#: The name of a field, or a text with names of fields between braces.
Template: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_template)]
Templates: TypeAlias = Annotated[
    list[Template], Field(min_length=1), BeforeValidator(listed, json_schema_input_type=str | list[str])
]


class Fields(Settings):
    """Which field is what, or which template of fields, such as `{question} ({year})`; `a.b` is `b` of object `a`."""

    source: Template | None = None  #: the text that a target is made from; by default `source`
    prompt: Template | None = None  #: the text before a target; by default none
    target: Template | None = None  #: the text to learn; by default `target`, or for `completion` `text`
    references: Templates | None = None  #: what outputs are compared with: texts or lists; by default the target
    id: Template | None = None  #: what your data call an example, each once; by default it has no name
    group: Template | None = None  #: shared by examples that were not drawn one by one, such as those of a document
    weight: str | None = None  #: a field with the weight of an example; by default 1


#: Fields that trainings do not read, but for groups where records are shared out by these.
ASIDE = ("id", "group", "references")


class Origin(Settings):
    """Where the examples of a split come from."""

    fields: Fields = Fields()  #: what is different here from the fields of the task
    where: dict[str, str | list[str]] = {}  #: only records that have this text, or one of these, in a field
    share: Annotated[tuple[int, int] | None, BeforeValidator(_two, json_schema_input_type=tuple[int, int])] = (
        None  #: of every 100 records, or groups, which: [80, 90] are ten
    )
    targets: bool = True  #: whether there are targets; without, examples can only be decoded

    def trained_on(self, fields: Fields) -> Self:
        """Return what trainings depend on, of an origin of a task with these fields; groups may share out records."""
        own: dict[str, str | None] = dict.fromkeys(ASIDE)
        own["group"] = (self.fields.group or fields.group) if self.share else None
        return self.model_copy(update={"fields": self.fields.model_copy(update=own)})

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.share and not 0 <= self.share[0] < self.share[1] <= 100:
            raise ValueError(SHARE)
        return self


class Files(Origin):
    """Files of records: `.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`, or plain ones with a `text` in each line."""

    files: Paths  #: one, or several one after the other


class Lines(Origin):
    """Plain files side by side: line n of one belongs to line n of the others."""

    source: Paths | None = None  #: of texts that targets are made from
    prompt: Paths | None = None  #: of texts before targets
    target: Paths | None = None  #: of texts to learn; without, examples can only be decoded
    references: list[Path] = []  #: a file for each further reference; an empty line is none

    def trained_on(self, fields: Fields) -> Self:
        return super().trained_on(fields).model_copy(update={"references": []})

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if not any((self.source, self.prompt, self.target)):
            raise ValueError("give the files of `source`, `prompt` or `target`")
        if self.target is None and self.targets:
            return self.model_copy(update={"targets": False})
        return self


class Saved(Origin):
    """A folder that `save_to_disk` of the library datasets has written."""

    saved: Path  #: the folder
    split: str | None = None  #: its split, if it has several


class Hub(Origin):
    """A data set of the Hugging Face hub, of one revision."""

    hub: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")  #: its name
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")  #: the commit, 40 hexadecimal digits
    config: str | None = None  #: which of its parts, where it has several
    split: str = Field(min_length=1)  #: its split
    allow_download: bool = False  #: whether it may be downloaded; otherwise it is read from the cache of the hub


class TestSet(Origin):
    """A test set that sacrebleu has downloaded; its first reference is the target."""

    __test__ = False  # to pytest

    sacrebleu: str = Field(min_length=1)  #: its name, such as `wmt14/full`
    pair: str = Field(pattern=r"^[\w-]+-[\w-]+$")  #: source and target, such as `de-en`


KINDS = {"files": Files, "saved": Saved, "hub": Hub, "sacrebleu": TestSet}


def _read_files(value: Any) -> Any:
    """Take a path, or several, for files of records."""
    return {"files": value} if isinstance(value, str | Path | list) else value


def _choice(value: Any) -> str:
    if isinstance(value, dict):
        return next((key for key in KINDS if key in value), "lines")
    return next((key for key, kind in KINDS.items() if isinstance(value, kind)), "lines")


_Origin: TypeAlias = Annotated[
    Annotated[Files, Tag("files")]
    | Annotated[Lines, Tag("lines")]
    | Annotated[Saved, Tag("saved")]
    | Annotated[Hub, Tag("hub")]
    | Annotated[TestSet, Tag("sacrebleu")],
    Discriminator(_choice),
]
AnyOrigin: TypeAlias = Annotated[
    _Origin, BeforeValidator(_read_files, json_schema_input_type=Path | list[Path] | _Origin)
]


class Data(Settings):
    """Where each split comes from: files, or a mapping that says more."""

    train: AnyOrigin | None = None  #: examples to train on
    valid: AnyOrigin | None = None  #: examples to choose weights and settings by
    test: AnyOrigin | None = None  #: examples to report on
    tests: dict[TestName, AnyOrigin] = {}  #: several test sets by name; each is a split of that name

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.origins:
            raise ValueError("give at least one of `train`, `valid`, `test` and `tests`")
        if self.train and not self.train.targets:
            raise ValueError("`train` needs targets")
        return self

    @property
    def origins(self) -> dict[str, Any]:
        """Return the origin of each split that there is."""
        known = {split: origin for split in SPLITS if (origin := getattr(self, split)) is not None}
        return {**known, **self.tests}

    def only(self, *splits: str) -> Self:
        """Return the origins of some splits."""
        left_out = {name: None for name in SPLITS if name not in splits}
        tests = {name: origin for name, origin in self.tests.items() if name in splits}
        return self.model_copy(update={**left_out, "tests": tests})


class Both(Settings):
    """Tokens of either side."""

    source: Tokenizer  #: what a source is cut into
    target: Tokenizer  #: what a target is cut into

    @model_validator(mode="after")
    def _check_pretrained(self) -> Self:
        if self.source != self.target and any(isinstance(one, Pretrained) for one in (self.source, self.target)):
            raise ValueError("a `pretrained` tokenizer is that of both sides")
        return self


Tokenizers: TypeAlias = Annotated[Both, BeforeValidator(both_sides, json_schema_input_type=str | Tokenizer | Both)]
