"""The tasks: generate a text from another text, or continue a text."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from bench_core import Split
from bench_data.plugin import CompletionConfig, DataTaskConfig, TextToTextConfig
from bench_data.reading import ALL, RecordReader
from bench_data.settings import AlignedFiles, Hub, RecordFiles, Saved, TestSet
from bench_text.api import EncodedExamples, Encoder, Example, SequenceTask, corpora


class DataTask(SequenceTask):
    """Examples defined by settings, in the order of their records."""

    config: DataTaskConfig
    given: ClassVar[Literal["source", "prompt"]]  #: role of the input text

    @property
    def splits(self) -> Sequence[Split]:
        return [*self.config.data.origins]

    def examples(self, split: Split, data: Path) -> Iterator[Example]:
        reader = RecordReader(split, self.config, self.given)
        yield from reader.examples()
        if self.config.empty == "drop" and split == "train":
            self._left_out = {"left_out_empty": reader.dropped}

    _left_out: Mapping[str, int] = {}  # counts of the training split

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return the separators between prompts and targets, from `between` or from the data."""
        if self.config.between is None:
            return super().separators(split)
        return dict.fromkeys(self.sources(split), self.config.between)

    def encoders(self, data: Path, examples: Mapping[Split, Sequence[Example]]) -> tuple[Encoder | None, Encoder]:
        """Learn vocabularies from the training examples; without a training split, from all examples."""
        if "train" not in examples:
            examples = {"train": [example._replace(purposes=ALL) for split in examples.values() for example in split]}
        return super().encoders(data, examples)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        chosen, left_out = super().choose(split, encoded)
        return chosen, {**left_out, **(self._left_out if split == "train" else {})}

    def about(self, data: Path) -> dict[str, Any]:
        labels = {split: _label(origin) for split, origin in self.config.data.origins.items()}
        return {"corpus": labels, "embedded": False, **self.config.description()}


class TextToText(DataTask):
    """Generation of a text from another text."""

    config: TextToTextConfig
    given = "source"

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        return self.config.tokenizer.source, self.config.tokenizer.target

    @property
    def target_tokenizer(self) -> Any:
        return self.config.tokenizer.target


class Completion(DataTask):
    """Generation of whole texts, or continuation of prompts."""

    config: CompletionConfig
    given = "prompt"


def _label(origin: RecordFiles | AlignedFiles | Saved | Hub | TestSet) -> str:
    """Return the names and digests of the files of a split, or the name of a data set."""
    if isinstance(origin, Saved):
        return " ".join(filter(None, (origin.saved.name, origin.split)))
    if isinstance(origin, TestSet):
        return f"{origin.sacrebleu} {origin.pair}"
    if isinstance(origin, Hub):
        return " ".join(filter(None, (origin.hub, origin.config, origin.split, f"({origin.revision[:8]})")))
    if isinstance(origin, RecordFiles):
        return " ".join(map(corpora.label, origin.files))
    sides = (origin.source or [], origin.prompt or [], origin.target or [], origin.references)
    return " ".join(corpora.label(path) for paths in sides for path in paths)
