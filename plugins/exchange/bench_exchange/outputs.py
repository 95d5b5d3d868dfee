"""Writes the predictions of a run, one at a time, as JSON lines, CSV or text."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from bench_core import Hypothesis, Prediction
from bench_core.errors import StoreError, SuiteError
from bench_core.runs.results import Run, as_json
from bench_core.runs.selecting import cell_name, chosen, only_one
from bench_core.storage.store import Store
from bench_core.suites.axes import AXES
from bench_core.terminal import to_json, write
from bench_exchange.exporting import new_file
from bench_notebook import StoredPredictions
from plain_files import csv_lines

Format: TypeAlias = Literal["jsonl", "csv", "text"]
Kind: TypeAlias = Literal["decode", "score"]  #: kind of stage that stores the predictions

KINDS: tuple[Kind, ...] = ("decode", "score")

T = TypeVar("T")

TARGETS = ("target_log_prob", "target_tokens", "target_words", "target_bytes", "target_characters")
EXAMPLE_FIELDS = (*TARGETS, "weight", "values", "by_token", "group", "written")  # fields copied from a prediction
OUTPUT_FIELDS = ("text", "finished", "log_prob", "tokens", "actions", "token_count")
COLUMNS = (
    *AXES, "stage", "by", "id", "rank", *OUTPUT_FIELDS, "output_values", "prompt", "references", *EXAMPLE_FIELDS,
)  # fmt: skip
LINE_BREAKS = {"\n": "U+000A", "\r": "U+000D"}


@dataclass
class Outputs:
    """The predictions of the selected cells of a run."""

    run: Run
    store: Store
    cells: str = ""  # filters or words of cell names; default: all cells
    kinds: Sequence[Kind] = KINDS
    problems: list[str] = field(default_factory=list)  # complete after all lines were read

    def lines(self, form: Format) -> Iterator[str]:
        """Yield the lines of a file, including line feeds.

        For text, raises SuiteError if there are several cells or an output has several lines.
        """
        if form == "text":
            return self._texts()
        if form == "csv":
            return csv_lines((row for rows in self._each(as_rows) for row in rows), COLUMNS)
        return (to_json(example) + "\n" for example in self._each(as_example))

    def _cells(self) -> list[Any]:
        return chosen(self.run.cells, lambda result: result.cell, self.cells)

    def _stored_predictions(self) -> Iterator[StoredPredictions]:
        """Yield the stored predictions of the cells; record cells without predictions as problems."""
        cells = self._cells()
        for cell in cells:
            if not any(name == "decode" or name.startswith("score/") for name in cell.artifacts):
                why = f" ({cell.reason})" if cell.reason else ""
                self.problems.append(
                    f"{cell_name(cell.cell)}: {cell.status}{why}; it has neither outputs nor scores."
                )
        yield from (stored for stored in StoredPredictions.of(cells, self.store) if stored.kind in self.kinds)

    def _each(self, shape: Callable[[Prediction, Mapping[str, Any]], T]) -> Iterator[T]:
        """Yield `shape(prediction, names of its stage)` for every prediction."""
        for stored in self._stored_predictions():
            try:
                about = {axis: stored.cell.get(axis) for axis in AXES} | {"stage": stored.kind, "by": stored.by}
                for prediction in stored:
                    yield shape(prediction, about)
            except StoreError as error:
                self.problems.append(str(error))

    def _texts(self) -> Iterator[str]:
        """Return the first output of each example of a single cell, one per line."""
        cell = only_one(self._cells(), lambda result: result.cell, "")
        if "decode" not in cell.artifacts:
            raise SuiteError(f"{cell_name(cell.cell)}: nothing was decoded for this cell, so it has no texts.")
        self.kinds = ("decode",)
        return self._each(lambda prediction, about: _line(prediction, cell_name(cell.cell)))


def as_example(prediction: Prediction, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction as JSON data, preceded by the names in `about`.

    Unknown values are null; infinities and NaN are strings; `actions` is the string `tokens` if actions and tokens
    are equal.
    """
    pairs = zip(prediction.hypotheses, prediction.texts, strict=True)
    return {
        **about,
        "id": prediction.id,
        "prompt": prediction.prompt,
        "references": prediction.references,
        "outputs": [
            {**_output(hypothesis, text), "values": as_json(hypothesis.values)} for hypothesis, text in pairs
        ],
        **{name: as_json(getattr(prediction, name)) for name in EXAMPLE_FIELDS},
    }


def as_rows(prediction: Prediction, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a prediction as one row per hypothesis, one row if there are none.

    Lists, mappings and `written` (which may be an empty text, or null) are JSON.
    """
    example = as_example(prediction, about)
    outputs, written = example.pop("outputs"), example["written"]
    example["written"] = None if written is None else json.dumps(written, ensure_ascii=False)
    common = {name: _flat(value) for name, value in example.items()}
    rows = [
        {
            "rank": rank,
            **{name: _flat(output[name]) for name in OUTPUT_FIELDS},
            "output_values": _flat(output["values"]),
        }
        for rank, output in enumerate(outputs, 1)
    ]
    return [{**common, **row} for row in rows or [{}]]


def _output(hypothesis: Hypothesis, text: str) -> dict[str, Any]:
    actions = "tokens" if hypothesis.actions == hypothesis.tokens else hypothesis.actions
    ending = {"finished": hypothesis.finished, "log_prob": as_json(hypothesis.log_prob)}
    return {
        "text": text,
        **ending,
        "tokens": hypothesis.tokens,
        "actions": actions,
        "token_count": hypothesis.token_count,
    }


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value


def _line(prediction: Prediction, cell: str) -> str:
    text = prediction.texts[0] if prediction.texts else ""
    if name := line_break(text):
        raise SuiteError(
            f"{cell}: the output of example {prediction.id} has a line break ({name}), but text files have one "
            "output per line. Choose --format jsonl or csv."
        )
    return f"{text}\n"


def line_break(text: str) -> str:
    """Return the code point of the first kind of line break in a text, or an empty string."""
    return next((name for character, name in LINE_BREAKS.items() if character in text), "")


def write_lines(lines: Iterable[str], out: Path | None) -> None:
    """Write lines to a new file, which appears once it is complete, or to standard output.

    Raises SuiteError if the file exists or cannot be written.
    """
    if out is None:
        for line in lines:
            write(line)
        return
    with (
        new_file(out, "--out") as partial,
        partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(lines)
