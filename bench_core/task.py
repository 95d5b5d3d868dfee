"""The interface of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench_core.data import Batch, Prompt, Purpose, TaskInfo
from bench_core.errors import SuiteError
from bench_core.random_numbers import Rng

Split: TypeAlias = str  #: "train", "valid", "test", and further splits of a task


@dataclass(frozen=True)
class Size:
    """The maximum size of a batch; an example that exceeds it forms its own batch."""

    number: int
    unit: Literal["rows", "tokens"] = "rows"  # tokens include padding


@dataclass(frozen=True)
class TextSize:
    """The size of a text."""

    bytes: int  # UTF-8
    characters: int  # Unicode code points


class Task(ABC):
    """A task with its examples; built as `Class(config, folder)`, where `prepare` fills `folder`."""

    def __init__(self, config: Any, folder: Path) -> None:
        self.config, self.folder = config, folder
        #: The prepared training data of the task, set before `prepare` of a separate split (`TaskConfig.at`).
        self.base: Task | None = None

    @abstractmethod
    def prepare(self, data: Path) -> TaskInfo:
        """Write all data needed later from `data` to the folder; raise a DataError that names an invalid file."""

    @abstractmethod
    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        """Yield one epoch of rows for `purpose` in batches of at most `size`, in file order or shuffled by `rng`.

        For training, shuffled rows may be grouped by length. For other purposes, a shuffled epoch is a random
        permutation of single rows, so that the first n are an unbiased sample.
        """

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield a row for each new prompt, with its id, in batches with prompts of equal length.

        `Prompt.text` is the source or, without a source, the prompt. `gold` is the target followed by EOS, or EOS
        alone without targets. By default raises SuiteError: prompts are not texts.
        """
        raise SuiteError(f"{self.config.name} cannot encode new prompts, because its prompts are not texts.")

    @abstractmethod
    def text(self, tokens: list[int]) -> str:
        """Convert target tokens to the text that metrics compare."""

    def prompt(self, tokens: list[int]) -> str:
        """Convert prompt tokens, without EOS, to text; by default calls `text`."""
        return self.text(tokens)

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the source text of each example by id; by default none."""
        return {}

    def groups(self, split: Split) -> Mapping[int, int]:
        """Return the group of each example by id, if examples were not sampled independently; by default none.

        Sentences of a document, or captions of an image, share a group: tests resample groups instead of examples.
        """
        return {}

    def example_names(self, split: Split) -> Mapping[int, str]:
        """Return the unique name of each example in the user's data by id; by default none.

        Outputs of other systems are matched with examples by these names.
        """
        return {}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return the text between prompt and target in the corpus by id, for examples split from a longer text.

        Models with their own tokenizer read both as one text. By default, and for all other examples, this text is
        the `separator` of the Config, or empty if a prompt is empty or ends with whitespace.
        """
        return {}

    def target_spellings(self, split: Split) -> Mapping[int, str]:
        """Return, by id, the texts decoded from the tokens of targets, if they differ from the first reference.

        Lower case, `<unk>` and lost whitespace cause such differences, which limit scores. By default none.
        """
        return {}

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the size of the raw text of each target by id; by default none.

        The raw text is the text in the corpus, before tokenization; EOS counts as a line break. The size is None if
        the target's tokens do not decode to the raw text, as with `<unk>` or lower case. Return no sizes at all if
        examples of the split were excluded because of their tokens.
        """
        return {}

    @abstractmethod
    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the reference texts of every example by id."""
