"""Matches recorded outputs to examples by order, name or number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from bench_core import DataError, Prompt
from bench_core.terminal import count_of
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.recording import Recording
from bench_recorded.reading.records import OutputRecord

MatchBy: TypeAlias = Literal["order", "id", "number"]

MAX_PROMPT = 80  #: maximum length of prompts quoted in messages, in characters
NUMBERED = ("moses-nbest", "fairseq", "lm-eval")  #: formats whose ids number the examples from 0


@dataclass(frozen=True)
class MatchedOutputs:
    """The outputs of a split, matched to examples."""

    recording: Recording
    by: MatchBy
    split: str
    examples: int | None  # size of the split; None if unknown
    checked: bool = False  # whether recorded prompts must equal the task's prompts

    def of(self, prompts: Sequence[Prompt]) -> list[OutputRecord]:
        """Return the record of each prompt; raise DataError if a prompt has no record.

        If prompts are checked, also raises DataError for the first prompt that differs from the prompt of its record.
        """
        if mismatch := self.prompt_mismatch(prompts) if self.checked else "":
            raise DataError(mismatch)
        matches = [self.records.get(self._key(prompt)) for prompt in prompts]
        missing = [prompt for prompt, record in zip(prompts, matches, strict=True) if record is None]
        if missing:
            raise DataError(self._missing_outputs(missing, len(prompts)))
        return [record for record in matches if record is not None]

    @cached_property
    def records(self) -> Mapping[str, OutputRecord]:
        """The records by order, id or number; raises DataError if an id is duplicated or missing."""
        records: dict[str, OutputRecord] = {}
        file = self.recording.file
        for place, record in enumerate(self.recording.records):
            key = str(place) if self.by == "order" else record.id
            if key is None:
                raise file.error(
                    record.line, "has no id. Add one, set the name of its field under `fields`, or set "
                    "`match: order`."
                )  # fmt: skip
            if key in records:
                raise file.error(
                    record.line, f"has the same id {key!r} as {file.line_name(records[key].line)}. Remove one of "
                    "them."
                )  # fmt: skip
            records[key] = record
        return records

    def prompt_mismatch(self, prompts: Sequence[Prompt]) -> str:
        """Return a message for the first example whose recorded prompt is missing or differs, or the empty string."""
        file = self.recording.file
        for prompt in sorted(prompts, key=lambda prompt: prompt.id):
            record = self.records.get(self._key(prompt))
            if record is not None and record.prompt is None:
                return f"{file.place(record.line)} has no prompt to check. Add it, or remove `check`."
            if record is not None and record.prompt is not None and record.prompt.split() != prompt.text.split():
                return (
                    f"{file.place(record.line)} has a different prompt than example {prompt.id} of {self.split!r}: "
                    f"{record.prompt[:MAX_PROMPT]!r} instead of {prompt.text[:MAX_PROMPT]!r}. "
                    "The outputs are in another order, or belong to other data."
                )
        return ""

    def check_count(self, prompts: Sequence[Prompt]) -> None:
        """Raise DataError for too few or too many outputs matched by order, or an id that numbers no example."""
        if self.examples is None or self.by == "id":
            return
        if self.by == "order" and len(self.records) != self.examples:
            raise DataError(
                f"{self.recording.file.path} has {count_of(len(self.records), 'output')}, but the split "
                f"{self.split!r} has {count_of(self.examples, 'example')}. Outputs without ids are matched by "
                "order, one per example: write an empty line for an empty output."
                + f" {self.prompt_mismatch(prompts) if self.checked else ''}".rstrip()
            )
        for key, record in self.records.items() if self.by == "number" else ():
            if not (key.isascii() and key.isdecimal() and int(key) < self.examples):
                raise self.recording.file.error(
                    record.line, f"has id {key!r}, but the {self.examples:,} examples of {self.split!r} are "
                    f"numbered from 0 to {self.examples - 1}. Set `fields: {{id: ...}}` of the task "
                    "if its data have ids, or count from 0."
                )  # fmt: skip

    def warnings(self) -> Iterator[str]:
        """Yield warnings about empty outputs, unmatched outputs, and n-best lists that are not sorted by score."""
        path, records = self.recording.file.path, [*self.records.values()]
        empty = [record.line for record in records if not record.outputs[0].text.strip()]
        if empty:
            verb = "is" if len(empty) == 1 else "are"
            yield f"{path}: {count_of(len(empty), 'output')} {verb} empty, the first at line {empty[0]}."
        if self.examples is not None and len(records) > self.examples:
            more = len(records) - self.examples
            yield f"{path}: {count_of(more, 'more output')} than {self.split!r} has examples; the rest is ignored."
        rising = [record.line for record in records if _rises([each.values.get("score") for each in record.outputs])]
        if rising:
            place = self.recording.file.place(rising[0])
            yield f"{place}: an output has a higher score than the one before it. The order of the file is kept."

    def _key(self, prompt: Prompt) -> str:
        return prompt.name if self.by == "id" else str(prompt.id)

    def _missing_outputs(self, missing: Sequence[Prompt], number: int) -> str:
        first = min(missing, key=lambda prompt: prompt.id)
        if self.by == "id" and not first.name:
            return (
                f"{self.recording.file.path}: outputs have ids, but example {first.id} of {self.split!r} has no name "
                "to match. Set `match: number` if ids are numbers of examples, or `match: order`."
            )
        known = ", ".join(map(repr, [*self.records][:3]))
        name = f", {first.name!r}" if self.by == "id" else ""
        numbers = " If these are numbers of examples, set `match: number`." if self.by == "id" else ""
        return (
            f"{self.recording.file.path} has no output for {len(missing):,} of {count_of(number, 'example')} of "
            f"{self.split!r} decoded together; the first is example {first.id}{name}. The file has ids such as "
            f"{known}.{numbers}"
        )


def match_outputs(
    recording: Recording, config: RecordedConfig, prompts: Sequence[Prompt], split: str, examples: int | None
) -> MatchedOutputs:
    """Match outputs as set by `match`; raise DataError if they cannot belong to the split.

    `auto` matches by order if ids are missing, by number for `NUMBERED` formats or unnamed examples, else by name.
    """
    by: MatchBy = _default_match(recording, prompts[0]) if config.match == "auto" else config.match
    outputs = MatchedOutputs(recording, by, split, examples, config.check == "prompt" or split in config.prompts)
    outputs.check_count(prompts)
    return outputs


def _default_match(recording: Recording, prompt: Prompt) -> MatchBy:
    if all(record.id is None for record in recording.records):
        return "order"
    return "number" if recording.file.format in NUMBERED or not prompt.name else "id"


def _rises(scores: Sequence[float | None]) -> bool:
    """Return whether an output has a higher score than the one before it."""
    return any(a is not None and b is not None and a < b for a, b in pairwise(scores))
