"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Set
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import Purpose, Source, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_data import data_sets, test_sets
from bench_data.settings import ASIDE, Both, Data, Fields, Files, Hub, Lines, Saved, TestSet, Tokenizers
from bench_text.api import SentencePiece, Tokenizer, Words, tokenizer_digests

CODE = r"^[a-z]{2,3}$"  # ISO 639
CITED = {"bpe": "sennrich2016", "codes": "sennrich2016", "sentencepiece": "kudo2018"}  #: tokenizers


class DataTaskConfig(TaskConfig):
    """What the tasks of this plugin have in common."""

    inspector = "bench_data.inspecting:inspect"

    data: Data  #: where the examples of each split come from
    fields: Fields = Fields()  #: which field of a record is what
    target_language: str | None = Field(None, pattern=CODE)  #: the ISO 639 code of the language of targets
    longest: PositiveInt | None = None  #: tokens of a source or target; longer examples are not trained on
    between: str | None = None  #: what stands between prompt and target; a space, unless they have white space there
    empty: Literal["error", "keep", "drop"] = "error"  #: what a blank text does; `drop` leaves it out of `train`

    @property
    def tokenizers(self) -> list[Any]:
        """Return the settings of all tokenizers."""
        raise NotImplementedError

    def checked(self, unused: str) -> Self:
        """Return these settings; raise ValueError if they have fields or files for what is `unused`."""
        if any(getattr(fields, unused) is not None for fields in self._all_fields()):
            raise ValueError(f"`fields` of {self.name} have no `{unused}`")
        if any(getattr(origin, unused) is not None for origin in self.lines()):
            raise ValueError(f"{self.name} takes no files of `{unused}`")
        return self

    def lines(self) -> list[Lines]:
        """Return those splits that are plain files side by side."""
        return [origin for origin in self.data.origins.values() if isinstance(origin, Lines)]

    def _all_fields(self) -> list[Fields]:
        return [self.fields, *(origin.fields for origin in self.data.origins.values())]

    def at(self, split: str | None) -> Self:
        """Return what a split depends on, or what trainings do: their examples.

        What examples are called, their groups, references and languages change no training; a split on which a metric
        selects has these.
        """
        if split is not None:
            kept = {} if split == "train" else {"longest": None}
            return self.model_copy(update={"data": self.data.only(split), **kept})
        data = self.data.only("train", "valid")
        for name, origin in data.origins.items():
            data = data.model_copy(update={name: origin.trained_on(self.fields)})
        fields = self.fields.model_copy(update=dict.fromkeys(ASIDE))
        aside = {name: None for name in ("target_language", "source_language", "between") if hasattr(self, name)}
        return self.model_copy(update={"data": data, "fields": fields, **aside})

    def usual(self, split: str) -> Fields:
        """Return which field is what where no settings say so."""
        raise NotImplementedError

    def completed(self, split: str) -> Fields:
        """Return which field is what in a split: as its own settings say, else those of the task, else as usual."""
        own, all_of = self.data.origins[split].fields, self.fields
        found = {name: value for one in (all_of, own) for name, value in one if value is not None}
        return self.usual(split).model_copy(update=found)

    def described(self) -> dict[str, Any]:
        """Return what reports show besides the files."""
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
        """Return all of them, but DECODE alone for a split without targets."""
        origin = self.data.origins.get(split)
        return set() if origin is None else set(Purpose) if origin.targets else {Purpose.DECODE}

    def extras(self) -> Set[str]:
        """Return the libraries that read the data, and that of a tokenizer; lists of parts ask without any data."""
        found = {"sentencepiece"} if any(isinstance(one, SentencePiece) for one in self.tokenizers) else set()
        origins = self.data.origins if hasattr(self, "data") else {}
        for origin in origins.values():
            if isinstance(origin, Saved | Hub):
                found.add("datasets")
            if isinstance(origin, TestSet):
                found.add("sacrebleu")
            if isinstance(origin, Files) and any(path.suffix.lower() == ".parquet" for path in origin.files):
                found.add("parquet")
        return found

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of test sets and pretrained tokenizers; files are settings, and so are revisions.

        Raises DataError for a test set that is not here, or a revision that may not be downloaded either.
        """
        for origin in self.data.origins.values():
            if isinstance(origin, Hub) and not origin.allow_download and find_spec("huggingface_hub"):
                data_sets.snapshot(origin)
        known = [one for one in self.data.origins.values() if isinstance(one, TestSet) and find_spec("sacrebleu")]
        return digests_of(
            *(lambda one=one: test_sets.digests(one) for one in known),
            *(lambda one=one: tokenizer_digests(one, data) for one in self.tokenizers),
        )


class TextToTextConfig(DataTaskConfig):
    """A text from another text, such as a translation or an answer, from your own data."""

    name, target = "text-to-text", "bench_data.tasks:TextToText"
    source = Source.TOKENS
    cites = [f"tokenizer.{side}.kind={kind}: {key}" for side in ("source", "target") for kind, key in CITED.items()]

    tokenizer: Tokenizers = Both(source=Words(), target=Words())  #: of both sides, or one for each
    shared: bool = False  #: whether sources and targets have one vocabulary
    source_language: str | None = Field(None, pattern=CODE)  #: the ISO 639 code of the language of sources

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shared and self.tokenizer.source != self.tokenizer.target:
            raise ValueError("a shared vocabulary needs the same tokenizer for source and target")
        if any(origin.source is None for origin in self.lines()):
            raise ValueError("a split of plain files needs the files of `source`")
        return self.checked("prompt")

    @property
    def tokenizers(self) -> list[Any]:
        return [self.tokenizer.source, self.tokenizer.target]

    def usual(self, split: str) -> Fields:
        return Fields(source="source", target="target")

    def described(self) -> dict[str, Any]:
        return {"shared": self.shared, **super().described()}


class CompletionConfig(DataTaskConfig):
    """What follows a prompt, or whole texts without one, from your own data."""

    name, target = "completion", "bench_data.tasks:Completion"
    cites = [f"tokenizer.kind={kind}: {key}" for kind, key in CITED.items()]

    tokenizer: Tokenizer = Words()  #: units of texts: word, char, bpe, codes, sentencepiece, pretrained
    prefix: NonNegativeInt = 0  #: tokens at the beginning of a text that are given, where there is no prompt

    @model_validator(mode="after")
    def _check(self) -> Self:
        has_prompt = [*(one.prompt for one in self._all_fields()), *(one.prompt for one in self.lines())]
        if self.prefix and any(has_prompt):
            raise ValueError("give either `prefix`, or the field of the `prompt`")
        return self.checked("source")

    @property
    def tokenizers(self) -> list[Any]:
        return [self.tokenizer]

    def usual(self, split: str) -> Fields:
        origin = self.data.origins[split]
        if isinstance(origin, Lines):
            return Fields(prompt="prompt" if origin.prompt else None, target="target")
        return Fields(target="target" if isinstance(origin, TestSet) else "text")


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks of this plugin."""
    return [TextToTextConfig, CompletionConfig]
