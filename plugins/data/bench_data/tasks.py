"""The tasks: a text from another text, and the rest of a text."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from bench_core import Split
from bench_data.plugin import CompletionConfig, DataTaskConfig, TextToTextConfig
from bench_data.reading import ALL, Reader
from bench_data.settings import Files, Hub, Lines, Saved, TestSet
from bench_text.api import EncodedExamples, Encoder, Example, SequenceTask, corpora


class DataTask(SequenceTask):
    """Examples that settings describe, in the order of their records."""

    config: DataTaskConfig
    given: ClassVar[Literal["source", "prompt"]]  #: what an example has a text for that its target is made from

    @property
    def splits(self) -> Sequence[Split]:
        return [*self.config.data.origins]

    def examples(self, split: Split, data: Path) -> Iterator[Example]:
        reader = Reader(split, self.config, self.given)
        yield from reader.examples()
        if self.config.empty == "drop" and split == "train":
            self._left_out = {"left_out_empty": reader.dropped}

    _left_out: Mapping[str, int] = {}  # of the training split

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return what stands between prompts and targets, where the settings or the data say it."""
        if self.config.between is None:
            return super().separators(split)
        return dict.fromkeys(self.sources(split), self.config.between)

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[Encoder | None, Encoder]:
        """Learn vocabularies from the examples to train on; where there are none, from all, as nothing is trained."""
        if "train" not in found:
            found = {"train": [one._replace(purposes=ALL) for examples in found.values() for one in examples]}
        return super().encoders(data, found)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        chosen, left_out = super().choose(split, encoded)
        return chosen, {**left_out, **(self._left_out if split == "train" else {})}

    def about(self, data: Path) -> dict[str, Any]:
        told = {split: _label(origin) for split, origin in self.config.data.origins.items()}
        return {"corpus": told, "embedded": False, **self.config.described()}


class TextToText(DataTask):
    """A text from another text."""

    config: TextToTextConfig
    given = "source"

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        return self.config.tokenizer.source, self.config.tokenizer.target

    @property
    def target_tokenizer(self) -> Any:
        return self.config.tokenizer.target


class Completion(DataTask):
    """A text, or what follows a prompt."""

    config: CompletionConfig
    given = "prompt"


def _label(origin: Files | Lines | Saved | Hub | TestSet) -> str:
    """Return the names and digests of the files of a split, or the name of a data set."""
    if isinstance(origin, Saved):
        return " ".join(filter(None, (origin.saved.name, origin.split)))
    if isinstance(origin, TestSet):
        return f"{origin.sacrebleu} {origin.pair}"
    if isinstance(origin, Hub):
        return " ".join(filter(None, (origin.hub, origin.config, origin.split, f"({origin.revision[:8]})")))
    if isinstance(origin, Files):
        return " ".join(map(corpora.label, origin.files))
    sides = (origin.source or [], origin.prompt or [], origin.target or [], origin.references)
    return " ".join(corpora.label(path) for paths in sides for path in paths)
