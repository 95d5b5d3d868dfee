"""The interface of inspections: what `bench check` has opened for a part, and what is wrong with it.

A Config names its `inspector`, a function of its settings and an `Inspection`. Paths in the settings lead to files
that are there. It imports no torch. It reads files of up to 100 MB, line by line where it can, and the first record
of larger ones. A DataError that it raises is a problem, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench_core.data import Prompt
from bench_core.errors import DataError, Fault

LARGEST = 100_000_000  #: bytes of a file that is read whole


@dataclass
class Inspection:
    """What an inspector is given, and what it finds.

    A task leaves the examples to decode in `prompts`; a model finds those of the tasks that it is for in `tasks`.
    """

    data: Path  #: the data directory
    answers: Path | None = None  #: where text generators keep what they were answered, as `Generation.folder`
    splits: Sequence[str] = ()  #: of a model: those to decode or score
    seeds: Sequence[int] = ()  #: of a model: those of the suite with which it differs
    tasks: Mapping[str, Inspection] = field(default_factory=dict)  #: of a model: those of its tasks, by name
    is_decoded: bool = False  #: of a model: whether all examples of its splits are decoded
    is_scored: bool = False  #: of a model: whether all targets of its splits are scored
    is_sampled: bool = False  #: whether `limits` choose some of the examples to decode
    problems: list[str] = field(default_factory=list)  #: what a run would fail of
    warnings: list[str] = field(default_factory=list)  #: what is odd
    notes: list[str] = field(default_factory=list)  #: what to know about results, such as that they are bounded
    skipped: list[str] = field(default_factory=list)  #: what was not opened, such as `a.jsonl after its first record`
    #: Of a task, by split: reads the examples to decode; a prompt's text is empty where tokens decide it.
    prompts: dict[str, Callable[[], Iterable[Prompt]]] = field(default_factory=dict)
    #: Of a task, by split: reads the references of each example to decode.
    references: dict[str, Callable[[], Iterable[Sequence[str]]]] = field(default_factory=dict)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note a DataError as a problem, and go on."""
        try:
            yield
        except DataError as error:
            self.problems += str(error).splitlines()

    def are_small(self, paths: Iterable[Path]) -> bool:
        """Return whether files may be read whole; note those that may not be."""
        large = [path for path in paths if path.is_file() and path.stat().st_size > LARGEST]
        for path in large:
            text: Fault = f"{path} after its first record ({path.stat().st_size / 1e6:,.0f} MB)"
            self.skipped.append(text)
        return not large

    def bound(self, split: str, references: int, lost: int, whose: str) -> None:
        """Note how many references of a split tokens cannot write, which bounds scores."""
        if lost:
            most: Fault = f"exact match is at most {100 * (1 - lost / references):.2f}"
            text: Fault = f"{lost:,} of {references:,} references of {split!r} cannot be written by {whose}: {most}."
            self.notes.append(text)

    def compare(self, split: str, examples: int, shared: int) -> None:
        """Warn of examples of a split that are also in the training split."""
        if shared:
            verb = "is" if shared == 1 else "are"
            text: Fault = f"{shared:,} of {examples:,} different examples of {split!r} {verb} also in 'train'."
            self.warnings.append(text)


@dataclass
class Findings:
    """What inspections have found besides problems, for all profiles of a suite."""

    warnings: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)
    inspections: dict[str, Inspection] = field(default_factory=dict)  # which profiles share, by settings
