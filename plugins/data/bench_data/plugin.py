"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import Purpose, Source, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_data.settings import (
    NOT_TRAINED_ON,
    AlignedFiles,
    Data,
    Hub,
    RecordFields,
    RecordFiles,
    Saved,
    TestSet,
    TokenizerPair,
    Tokenizers,
)
from bench_text.api import SentencePiece, Tokenizer, Words

CODE = r"^[a-z]{2,3}$"  # ISO 639
TOKENIZER_CITATIONS = {"bpe": "sennrich2016", "codes": "sennrich2016", "sentencepiece": "kudo2018"}


class DataTaskConfig(TaskConfig):
    """Settings shared by the tasks of this plugin."""

    inspector = "bench_data.inspecting:inspect"

    data: Data  #: origin of the examples of each split
    fields: RecordFields = RecordFields.model_construct()  #: meaning of the fields of a record
    target_language: str | None = Field(None, pattern=CODE)  #: ISO 639 code of the target language
    longest: PositiveInt | None = None  #: maximum tokens of a source or target in training
    between: str | None = None  #: separator between prompt and target; default: a space, unless the data have one
    empty: Literal["error", "keep", "drop"] = "error"  #: how to treat blank texts; `drop` excludes them from `train`

    @property
    def tokenizers(self) -> list[Any]:
        """Return the settings of all tokenizers."""
        raise NotImplementedError

    def check_unused(self, unused: str) -> Self:
        """Return self; raise ValueError if fields or files of the `unused` kind are set."""
        if any(getattr(fields, unused) is not None for fields in self._all_fields()):
            raise ValueError(f"`fields` of {self.name} have no `{unused}`")
        if any(getattr(origin, unused) is not None for origin in self.lines()):
            raise ValueError(f"{self.name} does not use files of `{unused}`")
        return self

    def lines(self) -> list[AlignedFiles]:
        """Return the splits that are aligned plain files."""
        return [origin for origin in self.data.origins.values() if isinstance(origin, AlignedFiles)]

    def _all_fields(self) -> list[RecordFields]:
        return [self.fields, *(origin.fields for origin in self.data.origins.values())]

    def at(self, split: str | None) -> Self:
        """Return the settings that affect a split or, for None, training.

        Ids, groups, references and languages do not affect training; a split used for checkpoint selection by a
        metric keeps them.
        """
        if split is not None:
            ignored = {} if split == "train" else {"longest": None}
            return self.model_copy(update={"data": self.data.only(split), **ignored})
        data = self.data.only("train", "valid")
        for name, origin in data.origins.items():
            data = data.model_copy(update={name: origin.trained_on(self.fields)})
        fields = self.fields.model_copy(update=dict.fromkeys(NOT_TRAINED_ON))
        aside = {name: None for name in ("target_language", "source_language", "between") if hasattr(self, name)}
        return self.model_copy(update={"data": data, "fields": fields, **aside})

    def default_fields(self, split: str) -> RecordFields:
        """Return the default meaning of fields in a split."""
        raise NotImplementedError

    def fields_of(self, split: str) -> RecordFields:
        """Return the meaning of fields in a split: its own settings, then the task's settings, then defaults."""
        split_fields, task_fields = self.data.origins[split].fields, self.fields
        values = {
            name: value for fields in (task_fields, split_fields) for name, value in fields if value is not None
        }
        return self.default_fields(split).model_copy(update=values)

    def description(self) -> dict[str, Any]:
        """Return the task properties that reports show besides the files."""
        known = {side: getattr(self, f"{side}_language", None) for side in ("source", "target")}
        languages = {side: code for side, code in known.items() if code}
        return {"languages": languages} if languages else {}

    @property
    def language(self) -> str | None:
        return self.target_language

    @property
    def separator(self) -> str:
        return super().separator if self.between is None else self.between

    @property
    def test_sets(self) -> list[str]:
        return [*self.data.tests]

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all purposes, or only DECODE for a split without targets."""
        origin = self.data.origins.get(split)
        return set() if origin is None else set(Purpose) if origin.targets else {Purpose.DECODE}

    def extras(self) -> Set[str]:
        """Return the extras that data and tokenizers need; also works on the class, without data."""
        needed = {"sentencepiece"} if any(isinstance(each, SentencePiece) for each in self.tokenizers) else set()
        origins = self.data.origins if hasattr(self, "data") else {}
        for origin in origins.values():
            if isinstance(origin, Saved | Hub):
                needed.add("datasets")
            if isinstance(origin, TestSet):
                needed.add("sacrebleu")
            if isinstance(origin, RecordFiles) and any(path.suffix.lower() == ".parquet" for path in origin.files):
                needed.add("parquet")
        return needed

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of test sets and pretrained tokenizers; files and revisions are covered by settings.

        Raises DataError for a missing test set, and for a missing revision whose download is not allowed.
        """
        from bench_data import data_sets, test_sets  # only when data are read
        from bench_text.api import tokenizer_digests

        for origin in self.data.origins.values():
            if isinstance(origin, Hub) and not origin.allow_download and find_spec("huggingface_hub"):
                data_sets.snapshot(origin)
        downloaded = [
            origin for origin in self.data.origins.values() if isinstance(origin, TestSet) and find_spec("sacrebleu")
        ]
        return digests_of(
            *(lambda origin=origin: test_sets.digests(origin) for origin in downloaded),
            *(lambda settings=settings: tokenizer_digests(settings, data) for settings in self.tokenizers),
        )


class TextToTextConfig(DataTaskConfig):
    """Map one text to another, as in translation or question answering, with your own data."""

    name, target = "text-to-text", "bench_data.tasks:TextToText"
    source = Source.TOKENS
    cites = [
        f"tokenizer.{side}.kind={kind}: {key}"
        for side in ("source", "target")
        for kind, key in TOKENIZER_CITATIONS.items()
    ]

    tokenizer: Tokenizers = TokenizerPair.model_construct(
        source=Words.model_construct(), target=Words.model_construct()
    )  #: one for both sides, or one for each
    shared: bool = False  #: use one vocabulary for sources and targets
    source_language: str | None = Field(None, pattern=CODE)  #: ISO 639 code of the source language

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shared and self.tokenizer.source != self.tokenizer.target:
            raise ValueError("a shared vocabulary needs the same tokenizer for source and target")
        if any(origin.source is None for origin in self.lines()):
            raise ValueError("a split of plain files needs the files of `source`")
        return self.check_unused("prompt")

    @property
    def tokenizers(self) -> list[Any]:
        return [self.tokenizer.source, self.tokenizer.target]

    def default_fields(self, split: str) -> RecordFields:
        return RecordFields(source="source", target="target")

    def description(self) -> dict[str, Any]:
        return {"shared": self.shared, **super().description()}


class CompletionConfig(DataTaskConfig):
    """Continue a prompt, or generate whole texts, with your own data."""

    name, target = "completion", "bench_data.tasks:Completion"
    cites = [f"tokenizer.kind={kind}: {key}" for kind, key in TOKENIZER_CITATIONS.items()]

    tokenizer: Tokenizer = Words.model_construct()  #: word, char, bpe, codes, sentencepiece or pretrained
    prefix: NonNegativeInt = 0  #: tokens at the beginning of a text that serve as its prompt

    @model_validator(mode="after")
    def _check(self) -> Self:
        has_prompt = [*(fields.prompt for fields in self._all_fields()), *(origin.prompt for origin in self.lines())]
        if self.prefix and any(has_prompt):
            raise ValueError("give either `prefix`, or the field of the `prompt`")
        return self.check_unused("source")

    @property
    def tokenizers(self) -> list[Any]:
        return [self.tokenizer]

    def default_fields(self, split: str) -> RecordFields:
        origin = self.data.origins[split]
        if isinstance(origin, AlignedFiles):
            return RecordFields(prompt="prompt" if origin.prompt else None, target="target")
        return RecordFields(target="target" if isinstance(origin, TestSet) else "text")


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks of this plugin."""
    return [TextToTextConfig, CompletionConfig]
