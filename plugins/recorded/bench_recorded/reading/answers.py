"""What of recorded outputs is compared: without what a system thought before, in whole words; and what cannot be."""

from collections.abc import Sequence
from dataclasses import replace

from bench_core import DataError, Thinking, thinking_in, without_thinking
from bench_recorded.reading.pieces import WAYS, Pieces, joined
from bench_recorded.reading.records import Output, OutputFile, Record

CERTAIN = 1e-6  #: nats above which the probability of an output is 1 but for rounding


def answers(file: OutputFile, records: Sequence[Record], pieces: Pieces | None, thinking: Thinking) -> list[Record]:
    """Return outputs as they are compared; raise DataError for those of which no setting says how."""
    if not records:
        raise DataError(f"{file.path} has no outputs. It has one for each example.")
    _check_likelihoods(file, records)
    found = [
        replace(one, outputs=[_answer(file, one, output, thinking) for output in one.outputs]) for one in records
    ]
    return _whole(file, found, pieces)


def _check_likelihoods(file: OutputFile, records: Sequence[Record]) -> None:
    """Raise DataError if all outputs, of which there are several, have probability 1."""
    known = [one.log_prob for record in records for one in record.outputs if one.log_prob is not None]
    if len(known) > 1 and min(known) >= -CERTAIN:
        raise file.error(
            records[0].line, f"begins {len(known):,} outputs which all have the log-probability 0, so that each is "
            "certain, as of a system that fills in 0 for what it does not compute. Take the log-probabilities out."
        )  # fmt: skip


def _answer(file: OutputFile, record: Record, output: Output, thinking: Thinking) -> Output:
    """Return an output without what was thought before, unfinished if that was cut; raise DataError if unsettled."""
    tag = thinking_in(output.text)
    if not tag or thinking == "keep":
        return output
    if thinking == "drop":
        text, finished = without_thinking(output.text)
        return replace(output, text=text, finished=finished)
    raise file.error(
        record.line, f"has {tag} in an output, and would be compared with that. Set `thinking: drop` to take it off, "
        "or `thinking: keep` (--thinking of `bench score`)."
    )  # fmt: skip


def _whole(file: OutputFile, records: Sequence[Record], pieces: Pieces | None) -> list[Record]:
    """Return outputs in whole words; prompts too, if they are in the same pieces."""
    texts = [(file.place(record.line), one.text) for record in records for one in record.outputs]
    whole = joined(texts, pieces)
    found = [
        replace(record, outputs=[replace(one, text=next(whole)) for one in record.outputs]) for record in records
    ]
    if pieces in (None, "none") or not any(WAYS[pieces].is_in(record.prompt or "") for record in found):
        return found
    return [replace(one, prompt=WAYS[pieces].join(one.prompt)) if one.prompt else one for one in found]
