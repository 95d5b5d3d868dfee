"""Finds the recorded output of each example: by its line, its name or its number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from bench_core import DataError, Prompt
from bench_core.terminal import counted
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.recording import Recording
from bench_recorded.reading.records import Record

Way: TypeAlias = Literal["order", "id", "number"]

CUT = 80  #: characters of a prompt that a message shows
NUMBERED = ("moses-nbest", "fairseq", "lm-eval")  #: formats whose ids are numbers of examples, from 0


@dataclass(frozen=True)
class Matched:
    """The outputs of a split."""

    recording: Recording
    by: Way
    split: str
    examples: int | None  # of the split
    checked: bool = False  # whether recorded prompts must be those of the task

    def of(self, prompts: Sequence[Prompt]) -> list[Record]:
        """Return the record of each prompt; raise DataError that says how many have none, and names the first.

        Where prompts are checked, it also shows the first that is another one.
        """
        if other := self.first_other(prompts) if self.checked else "":
            raise DataError(other)
        found = [self.records.get(self._key(prompt)) for prompt in prompts]
        missing = [prompt for prompt, record in zip(prompts, found, strict=True) if record is None]
        if missing:
            raise DataError(self._absent(missing, len(prompts)))
        return [record for record in found if record is not None]

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The records by what they are found by; raises DataError if one comes twice, or lacks an id."""
        found: dict[str, Record] = {}
        file = self.recording.file
        for place, record in enumerate(self.recording.records):
            key = str(place) if self.by == "order" else record.id
            if key is None:
                raise file.error(
                    record.line, "has no id to find its example by. Add one, name its field under `fields`, or set "
                    "`match: order`."
                )  # fmt: skip
            if key in found:
                raise file.error(
                    record.line, f"has id {key!r} again, which is also at {file.called(found[key].line)}. Keep one "
                    "of them."
                )  # fmt: skip
            found[key] = record
        return found

    def first_other(self, prompts: Sequence[Prompt]) -> str:
        """Say that an output is of another prompt, for the first such example; return the empty string if none is."""
        file = self.recording.file
        for prompt in sorted(prompts, key=lambda one: one.id):
            record = self.records.get(self._key(prompt))
            if record is not None and record.prompt is None:
                return f"{file.place(record.line)} has no prompt to check. Add it, or leave out `check`."
            if record is not None and record.prompt is not None and record.prompt.split() != prompt.text.split():
                return (
                    f"{file.place(record.line)} is of another prompt than example {prompt.id} of {self.split!r}: "
                    f"{record.prompt[:CUT]!r}, and not {prompt.text[:CUT]!r}. The outputs are in another order, or "
                    "of other data."
                )
        return ""

    def check_number(self, prompts: Sequence[Prompt]) -> None:
        """Raise DataError if outputs without names cannot be of the split: too few, too many, or other numbers."""
        if self.examples is None or self.by == "id":
            return
        if self.by == "order" and len(self.records) != self.examples:
            raise DataError(
                f"{self.recording.file.path} has {counted(len(self.records), 'output')}, and the split "
                f"{self.split!r} has {counted(self.examples, 'example')}. Outputs without "
                "ids are matched by order, so there is one for each example: leave an empty line for an output that "
                "is empty." + f" {self.first_other(prompts) if self.checked else ''}".rstrip()
            )
        for key, record in self.records.items() if self.by == "number" else ():
            if not (key.isascii() and key.isdecimal() and int(key) < self.examples):
                raise self.recording.file.error(
                    record.line, f"has id {key!r}, and the {self.examples:,} examples of {self.split!r} have the "
                    f"numbers 0 to {self.examples - 1}. Count examples from 0."
                )  # fmt: skip

    def warnings(self) -> Iterator[str]:
        """Yield what is odd about the outputs, but no error."""
        path, records = self.recording.file.path, [*self.records.values()]
        empty = [record.line for record in records if not record.outputs[0].text.strip()]
        if empty:
            verb = "is" if len(empty) == 1 else "are"
            yield f"{path}: {counted(len(empty), 'output')} {verb} empty, the first at line {empty[0]}."
        if self.examples is not None and len(records) > self.examples:
            more = len(records) - self.examples
            yield f"{path}: {counted(more, 'output')} more than {self.split!r} has examples; ids choose among them."
        rising = [record.line for record in records if _rises([one.values.get("score") for one in record.outputs])]
        if rising:
            place = self.recording.file.place(rising[0])
            yield f"{place}: an output has a higher score than one above it. The file's order is kept."

    def _key(self, prompt: Prompt) -> str:
        return prompt.name if self.by == "id" else str(prompt.id)

    def _absent(self, missing: Sequence[Prompt], number: int) -> str:
        first = min(missing, key=lambda prompt: prompt.id)
        if self.by == "id" and not first.name:
            return (
                f"{self.recording.file.path}: outputs have ids, and example {first.id} of {self.split!r} has no name "
                "to find them by. Set `match: number` if ids are numbers of examples, or `match: order`."
            )
        known = ", ".join(map(repr, [*self.records][:3]))
        name = f", {first.name!r}" if self.by == "id" else ""
        numbers = " If they are numbers of examples, set `match: number`." if self.by == "id" else ""
        return (
            f"{self.recording.file.path} has no output for {len(missing):,} of {counted(number, 'example')} of "
            f"{self.split!r} that were decoded together, the first of them example {first.id}{name}; its ids are "
            f"such as {known}.{numbers}"
        )


def matched(
    recording: Recording, config: RecordedConfig, prompts: Sequence[Prompt], split: str, examples: int | None
) -> Matched:
    """Return outputs matched as the Config says; `auto` goes by ids where there are any.

    Those of JSON lines are the names of examples where these have names, else their numbers.
    """
    by: Way = _usual(recording, prompts[0]) if config.match == "auto" else config.match
    found = Matched(recording, by, split, examples, config.check == "prompt" or split in config.prompts)
    found.check_number(prompts)
    return found


def _usual(recording: Recording, prompt: Prompt) -> Way:
    if all(record.id is None for record in recording.records):
        return "order"
    return "number" if recording.file.format in NUMBERED or not prompt.name else "id"


def _rises(scores: Sequence[float | None]) -> bool:
    """Return whether an output has a higher score than the one above it."""
    return any(a is not None and b is not None and a < b for a, b in pairwise(scores))
