"""The interface of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench_core.data import Batch, Prompt, Purpose, TaskInfo
from bench_core.errors import SuiteError
from bench_core.random_numbers import Noise

Split: TypeAlias = str  #: "train", "valid", "test", and what a task has besides


@dataclass(frozen=True)
class Size:
    """The maximum size of a batch; an example that exceeds it alone is a batch of its own."""

    number: int  # of rows, or of tokens with padding
    unit: Literal["rows", "tokens"] = "rows"  # what is counted


@dataclass(frozen=True)
class TextSize:
    """The size of a text."""

    bytes: int  # in UTF-8
    characters: int  # of Unicode


class Task(ABC):
    """The examples of one problem; built as `Class(config, folder)`, where `prepare` fills `folder`."""

    def __init__(self, config: Any, folder: Path) -> None:
        self.config, self.folder = config, folder
        #: What trainings read of the task, as it is prepared, for `prepare` of a split by itself (`TaskConfig.at`).
        self.base: Task | None = None

    @abstractmethod
    def prepare(self, data: Path) -> TaskInfo:
        """Write all that is needed later from `data` to the folder; raise DataError that names an invalid file."""

    @abstractmethod
    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield one epoch of rows for `purpose` in batches of at most `size`, in file order or shuffled by `noise`.

        For training, shuffled rows may be grouped by length. For other purposes, a shuffled epoch is a random
        permutation of single rows, so that the first n are a fair sample.
        """

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield a row for each new prompt, with its id, in batches of equally long openings.

        A text is the source, or else the prefix. `gold` is the target with stop; without targets it is stop alone. By
        default raises SuiteError: prompts are not texts.
        """
        raise SuiteError(f"{self.config.name} has no prompts that are texts, so it cannot encode new ones.")

    @abstractmethod
    def text(self, tokens: list[int]) -> str:
        """Convert target tokens to the text that metrics compare."""

    def prompt(self, tokens: list[int]) -> str:
        """Convert the prefix of an opening, without stop, to text; by default as `text` does."""
        return self.text(tokens)

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the source text of each example, by id; by default none."""
        return {}

    def groups(self, split: Split) -> Mapping[int, int]:
        """Return the group of each example, by id, if examples were not drawn one by one; by default none.

        Sentences of a document, or captions of an image, share a group: tests draw groups, not examples.
        """
        return {}

    def example_names(self, split: Split) -> Mapping[int, str]:
        """Return what each example is called in the user's data, by id, each name once; by default none has one.

        Outputs of other systems are matched with examples by these names.
        """
        return {}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return what stands between prompt and target in the corpus, by id, where the task cut a text in two.

        Models with tokens of their own read both as one text. By default, and for all other examples, that is the
        `separator` of the Config, or nothing where a prompt is empty or ends with white space.
        """
        return {}

    def written(self, split: Split) -> Mapping[int, str]:
        """Return the targets that their tokens write differently from the first reference, as written, by id.

        They bound what an output can score, such as lower case, `<unk>`, or lost white space. By default none.
        """
        return {}

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the size of the raw text that each target stands for, by id; by default none is known.

        A raw text is what the corpus has, whatever the tokenizer; a stop stands for one line break. It is None for a
        target whose tokens do not spell that text, such as `<unk>` or lower case; all are left out if some examples
        of the split were left out because of their tokens.
        """
        return {}

    @abstractmethod
    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the reference texts of every example, by id."""
