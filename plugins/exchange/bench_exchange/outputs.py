"""Writes the outcomes of a run as lines of JSON, CSV or text, one by one."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from bench_core import Hypothesis, Outcome
from bench_core.errors import StoreError, SuiteError
from bench_core.runs.results import Run, as_json
from bench_core.runs.selecting import cell_name, chosen, only_one
from bench_core.storage.store import Store
from bench_core.suites.axes import AXES
from bench_core.terminal import to_json, write
from bench_exchange.exporting import whole
from bench_notebook import StoredOutcomes
from plain_files import csv_lines

Format: TypeAlias = Literal["jsonl", "csv", "text"]
Kind: TypeAlias = Literal["decode", "score"]  #: of outcomes

KINDS: tuple[Kind, ...] = ("decode", "score")

T = TypeVar("T")

TARGETS = ("target_log_prob", "target_tokens", "target_words", "target_bytes", "target_characters")
OF_EXAMPLE = (*TARGETS, "weight", "values", "group")  # fields of an outcome that are carried as they are
OF_OUTPUT = ("text", "finished", "log_prob", "tokens", "actions")
COLUMNS = (*AXES, "stage", "by", "id", "rank", *OF_OUTPUT, "output_values", "prompt", "references", *OF_EXAMPLE)
BREAKS = {"\n": "U+000A", "\r": "U+000D"}  # what ends a line of text


@dataclass
class Outputs:
    """The outcomes of the cells of a run that were chosen."""

    run: Run
    store: Store
    cells: str = ""  # filters, or words of names; all cells by default
    kinds: Sequence[Kind] = KINDS
    problems: list[str] = field(default_factory=list)  # what could not be read, and why, once all lines were taken

    def lines(self, form: Format) -> Iterator[str]:
        """Yield the lines of a file, its line feeds included.

        Raises SuiteError if a text file is asked of several cells, or for an output that has several lines.
        """
        if form == "text":
            return self._texts()
        if form == "csv":
            return csv_lines((row for rows in self._each(as_rows) for row in rows), COLUMNS)
        return (to_json(example) + "\n" for example in self._each(as_example))

    def _cells(self) -> list[Any]:
        return chosen(self.run.cells, lambda one: one.cell, self.cells)

    def _stored(self) -> Iterator[StoredOutcomes]:
        """Yield what there is of the cells; note those that have nothing."""
        cells = self._cells()
        for one in cells:
            if not any(name == "decode" or name.startswith("score/") for name in one.artifacts):
                why = f" ({one.reason})" if one.reason else ""
                self.problems.append(f"{cell_name(one.cell)}: {one.status}{why}; it has neither outputs nor scores.")
        yield from (one for one in StoredOutcomes.of(cells, self.store) if one.kind in self.kinds)

    def _each(self, shape: Callable[[Outcome, Mapping[str, Any]], T]) -> Iterator[T]:
        """Yield what `shape` makes of every outcome and the names of its stage."""
        for stored in self._stored():
            try:
                about = {axis: stored.cell.get(axis) for axis in AXES} | {"stage": stored.kind, "by": stored.by}
                for outcome in stored:
                    yield shape(outcome, about)
            except StoreError as error:
                self.problems.append(str(error))

    def _texts(self) -> Iterator[str]:
        """Return the first output of each example of one cell, a line each."""
        cell = only_one(self._cells(), lambda one: one.cell, "")
        if "decode" not in cell.artifacts:
            raise SuiteError(f"{cell_name(cell.cell)}: nothing was decoded for this cell, so it has no texts.")
        self.kinds = ("decode",)
        return self._each(lambda outcome, about: _line(outcome, cell_name(cell.cell)))


def as_example(outcome: Outcome, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return an outcome as JSON data after its names.

    What is unknown is null; numbers that are infinite or undefined are words, and so are actions that are the tokens.
    """
    pairs = zip(outcome.hypotheses, outcome.texts, strict=True)
    return {
        **about,
        "id": outcome.id,
        "prompt": outcome.prompt,
        "references": outcome.references,
        "outputs": [{**_output(one, text), "values": _plain(one.values)} for one, text in pairs],
        **{name: _plain(getattr(outcome, name)) for name in OF_EXAMPLE},
    }


def as_rows(outcome: Outcome, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an outcome as rows, one for each hypothesis, or one without any; lists and mappings are JSON."""
    example = as_example(outcome, about)
    outputs = example.pop("outputs")
    common = {name: _flat(value) for name, value in example.items()}
    rows = [
        {"rank": rank, **{name: _flat(one[name]) for name in OF_OUTPUT}, "output_values": _flat(one["values"])}
        for rank, one in enumerate(outputs, 1)
    ]
    return [{**common, **row} for row in rows or [{}]]


def _output(one: Hypothesis, text: str) -> dict[str, Any]:
    actions = "tokens" if one.actions == one.tokens else one.actions
    found = {"text": text, "finished": one.finished, "log_prob": _plain(one.log_prob), "tokens": one.tokens}
    return {**found, "actions": actions}


def _plain(value: Any) -> Any:
    """Return a value in which infinities and NaN are words."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return as_json(value) if isinstance(value, float) else value


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value


def _line(outcome: Outcome, cell: str) -> str:
    text = outcome.texts[0] if outcome.texts else ""
    if name := line_break(text):
        raise SuiteError(
            f"{cell}: the output of example {outcome.id} has a line break ({name}), and a text file has one output a "
            "line. Choose --format jsonl or csv."
        )
    return f"{text}\n"


def line_break(text: str) -> str:
    """Return the code of a line break in a text; the empty string if it has none."""
    return next((name for character, name in BREAKS.items() if character in text), "")


def write_lines(lines: Iterable[str], out: Path | None) -> None:
    """Write lines to a new file, which is there once it is whole, or to standard output.

    Raises SuiteError if the file is there, or cannot be written.
    """
    if out is None:
        for line in lines:
            write(line)
        return
    with (
        whole(out, "--out") as partial,
        partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(lines)
