"""The interface of inspections, which open a part's files and contact its servers for `bench check`.

A Config names its `inspector`, a function that takes the settings and an `Inspection`. It must not import torch, and
may assume that all paths in the settings exist. It reads files of up to 100 MB, line by line if possible, and only
the first record of larger files. If it raises a DataError, `bench check` reports a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench_core.data import Prompt
from bench_core.errors import DataError, Fault

MAX_BYTES = 100_000_000  #: maximum size of files that are read in full


@dataclass
class Inspection:
    """The inputs and results of an inspector.

    A task's inspector stores in `prompts` functions that read examples; a model's inspector uses them via `tasks`.
    """

    data: Path  #: the data directory
    answers: Path | None = None  #: folder of responses cached by text generators: `Generation.folder`
    splits: Sequence[str] = ()  #: models only: the splits to decode or score
    seeds: Sequence[int] = ()  #: models only: `ModelConfig.seeds` of the suite's seeds
    tasks: Mapping[str, Inspection] = field(default_factory=dict)  #: models only: inspections of its tasks
    is_decoded: bool = False  #: models only: whether all examples of its splits are decoded
    is_scored: bool = False  #: models only: whether all targets of its splits are scored
    is_sampled: bool = False  #: whether `limits` restrict decoding to a sample of the examples
    problems: list[str] = field(default_factory=list)  #: errors that a run would raise
    warnings: list[str] = field(default_factory=list)  #: suspicious facts
    notes: list[str] = field(default_factory=list)  #: facts that affect results, such as bounds on scores
    skipped: list[str] = field(default_factory=list)  #: data not read, such as `a.jsonl after its first record`
    rows: Mapping[str, int] = field(default_factory=dict)  #: tasks only: rows that planned updates read, by model
    #: Tasks only, by split: reads the examples to decode; a prompt's text is empty if it depends on tokenization.
    prompts: dict[str, Callable[[], Iterable[Prompt]]] = field(default_factory=dict)
    #: Tasks only, by split: reads the references of each example to decode.
    references: dict[str, Callable[[], Iterable[Sequence[str]]]] = field(default_factory=dict)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record a DataError as a problem and continue after the block."""
        try:
            yield
        except DataError as error:
            self.problems += str(error).splitlines()

    def are_small(self, paths: Iterable[Path]) -> bool:
        """Return whether files are small enough to be read in full; record larger files in `skipped`."""
        large = [path for path in paths if path.is_file() and path.stat().st_size > MAX_BYTES]
        for path in large:
            text: Fault = f"{path} after its first record ({path.stat().st_size / 1e6:,.0f} MB)"
            self.skipped.append(text)
        return not large

    def bound(self, split: str, references: int, lost: int, whose: str) -> None:
        """Note how many references of a split the vocabulary cannot represent; they limit the achievable scores."""
        if lost:
            text: Fault = f"{lost:,} of {references:,} references of {split!r} cannot be represented by {whose}"
            limit: Fault = f"exact match is at most {100 * (1 - lost / references):.2f}."
            self.notes.append(f"{text}: {limit}")

    def compare(self, split: str, examples: int, shared: int) -> None:
        """Warn about examples of a split that are also in the training split."""
        if shared:
            verb = "is" if shared == 1 else "are"
            text: Fault = f"{shared:,} of {examples:,} distinct examples of {split!r} {verb} also in 'train'."
            self.warnings.append(text)


@dataclass
class Findings:
    """Inspection results other than problems, for all profiles of a suite."""

    warnings: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)
    inspections: dict[str, Inspection] = field(default_factory=dict)  # by settings; shared by all profiles
