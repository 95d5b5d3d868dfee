"""Prepares outputs for scoring: removes thinking and joins pieces, or refuses outputs with thinking or pieces."""

from collections.abc import Sequence
from dataclasses import replace

from bench_core import DataError, Thinking, thinking_in, without_thinking
from bench_recorded.reading.pieces import PIECE_FORMATS, Pieces, join_pieces
from bench_recorded.reading.records import Output, OutputFile, OutputRecord

CERTAINTY_MARGIN = 1e-6  #: nats; a log-probability closer to 0 counts as 0


def prepare_outputs(
    file: OutputFile, records: Sequence[OutputRecord], pieces: Pieces | None, thinking: Thinking
) -> list[OutputRecord]:
    """Return records with outputs ready for scoring; raise DataError for outputs that need another setting."""
    if not records:
        raise DataError(f"{file.path} has no outputs. It must have one per example.")
    _check_likelihoods(file, records)
    prepared = [
        replace(each, outputs=[_clean(file, each, output, thinking) for output in each.outputs]) for each in records
    ]
    return _join(file, prepared, pieces)


def _check_likelihoods(file: OutputFile, records: Sequence[OutputRecord]) -> None:
    """Raise DataError if there are several log-probabilities and all of them are 0."""
    known = [output.log_prob for record in records for output in record.outputs if output.log_prob is not None]
    if len(known) > 1 and min(known) >= -CERTAINTY_MARGIN:
        raise file.error(
            records[0].line, f"is the first of {len(known):,} outputs that all have log-probability 0, as if each "
            "were certain; some systems write 0 for values that they do not compute. Remove the log-probabilities."
        )  # fmt: skip


def _clean(file: OutputFile, record: OutputRecord, output: Output, thinking: Thinking) -> Output:
    """Remove thinking from an output; unfinished thinking makes it unfinished. Raise DataError for `refuse`."""
    tag = thinking_in(output.text)
    if not tag or thinking == "keep":
        return output
    if thinking == "drop":
        text, finished = without_thinking(output.text)
        return replace(output, text=text, finished=finished)
    raise file.error(
        record.line, f"has {tag} in an output. Set `thinking: drop` to remove the thinking before scoring, or "
        "`thinking: keep` to score it as text (--thinking of `bench score`)."
    )  # fmt: skip


def _join(file: OutputFile, records: Sequence[OutputRecord], pieces: Pieces | None) -> list[OutputRecord]:
    """Join the pieces of outputs, and of prompts if they are split into the same kind of pieces."""
    texts = [(file.place(record.line), output.text) for record in records for output in record.outputs]
    whole = join_pieces(texts, pieces)
    joined = [
        replace(each, outputs=[replace(output, text=next(whole)) for output in each.outputs]) for each in records
    ]
    if pieces in (None, "none") or not any(PIECE_FORMATS[pieces].is_in(record.prompt or "") for record in joined):
        return joined
    return [replace(each, prompt=PIECE_FORMATS[pieces].join(each.prompt)) if each.prompt else each for each in joined]
