"""Loads a run for analysis in Python: cells, numbers, bootstrap replicates, histories and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.data import Outcome
from bench_core.errors import PluginError, StoreError, SuiteError
from bench_core.files import data_folder
from bench_core.runs.results import SHORT, CellResult, Run, read_histories, read_run
from bench_core.runs.selecting import cell_name, chosen, name_on, only_one, run_folder
from bench_core.stage_kinds import weights_of
from bench_core.storage.store import Store
from bench_core.suites.axes import AXES, TRAINING_AXES
from bench_notebook.cell_outcomes import KINDS, Kind, StoredOutcomes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench_notebook.trained_model import TrainedModel

INSTALL = "pandas is not installed: python -m pip install 'pandas>=2.2'. All but frames works without it."


def load(run: str | Path, store: str | Path = ".bench/store", runs: str | Path = "runs") -> LoadedRun:
    """Load a run, of this machine or imported, by its folder or by its name in the folder `runs`.

    Outcomes are read from `store` when they are asked for. Raises SuiteError if there is no such run, StoreError if
    a file of it is damaged.
    """
    return LoadedRun(read_run(run_folder(Path(run), Path(runs))), Store(Path(store)))


@dataclass(frozen=True)
class LoadedRun:
    """A run and the store that it used. Rows are mappings, with the names of a cell on its axes first."""

    run: Run
    store: Store

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Return a row for each cell: its axes, status, and the value of each metric."""
        return self.run.rows()

    @property
    def numbers(self) -> list[dict[str, Any]]:
        """Return a row for each number: axes, metric, value, and what is known of it, such as unit and examples."""
        return [
            {**one.cell, "metric": metric, **vars(number)}
            for one in self.run.cells
            for metric, number in one.numbers.items()
        ]

    @cached_property
    def draws(self) -> Mapping[tuple[str, str], NDArray[Any]]:
        """The bootstrap replicates [B, 1000] of each number that has some, by the name of its cell and its metric.

        A cell is called as by `bench show`, such as `words/lstm/greedy/test, seed 0`. The rows are of resamples that
        draw 1, 2, 4, ... examples in a row together; there is more than one where examples continue each other.
        """
        keys = {
            (cell_name(one.cell), name.partition("/")[2]): key
            for one in self.run.cells
            for name, key in one.artifacts.items()
            if name.startswith("measure/")
        }
        found = {name: self.run.draws[key] for name, key in keys.items() if key in self.run.draws}
        return {name: draws for name, draws in found.items() if len(draws)}

    @property
    def histories(self) -> list[dict[str, Any]]:
        """Return a row for each evaluation of a training: task, model, hardware, seed, step, epoch and metrics."""
        try:
            found = dict(read_histories(self.run.folder))
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.run.folder}: {error}. Run the suite again.") from None
        trained: dict[str, Mapping[str, Any]] = {}
        for one in self.run.cells:
            axes: dict[str, Any] = {axis: one.cell.get(axis) for axis in (*TRAINING_AXES, "seed")}
            trained.setdefault(weights_of(one.artifacts)[:SHORT], axes)
        return [{**trained[key], **row} for key, rows in found.items() if key in trained for row in rows]

    def outputs(
        self, cell: str | Mapping[str, Any] = "", kind: Kind = "decode", by: str | None = None, **axes: Any
    ) -> Iterator[Outcome]:
        """Return the outcomes of one cell, in order of id, read one by one.

        The cell is a row of `cells`, a name or filters as on the command line, or axes, such as `model="lstm"`; axes
        on which all cells have one name may be left out. `kind="score"` gives the examples that were scored, with
        the log-probabilities of their targets, by the likelihood `by` if there are several. Raises SuiteError if no
        cell matches, or several; StoreError if the outcomes are missing or damaged.
        """
        if kind not in KINDS:
            raise SuiteError(f"there is no kind {kind!r} of outcomes. Known are {' and '.join(KINDS)}.")
        found = only_one(self._cells(cell, axes), lambda one: one.cell, cell if isinstance(cell, str) else "")
        several = [one for one in StoredOutcomes.of([found], self.store) if one.kind == kind]
        if not several:
            verb = "decoded" if kind == "decode" else "scored"
            raise SuiteError(f"{cell_name(found.cell)}: nothing was {verb} for this cell.")
        if by is None and len(several) == 1:
            return iter(several[0])
        known = {one.by: one for one in several}
        if by not in known:
            names = ", ".join(sorted(map(str, known)))
            raise SuiteError(
                f"{cell_name(found.cell)}: say by which likelihood it was scored: `by` is one of {names}."
            )
        return iter(known[by])

    def _cells(self, cell: str | Mapping[str, Any], axes: Mapping[str, Any]) -> list[CellResult]:
        """Return the cells with some names on axes; raise SuiteError if there are none."""
        if odd := {*axes} - {*AXES}:
            raise SuiteError(f"cells have no axis {min(odd)!r}. Their axes are {', '.join(AXES)}.")
        given = {**({} if isinstance(cell, str) else cell), **axes}
        names = {axis: name_on(given, axis) for axis in AXES if axis in given}
        cells = [one for one in self.run.cells if all(name_on(one.cell, axis) == names[axis] for axis in names)]
        if not cells:
            raise SuiteError(f"no cell of {self.run.folder} has {', '.join(map('='.join, names.items()))}.")
        return cells

    def model(
        self,
        name: str,
        *,
        task: str | None = None,
        seed: int | None = None,
        hardware: str | None = None,
        decoder: str | None = None,
        data: str | Path | None = None,
    ) -> TrainedModel:
        """Return a model by its name in the suite, with its stored weights, in evaluation mode.

        Names on which the run has only one may be left out. Published models are read from where the suite of the run
        names them, or from the folder of corpora `data`. Raises SuiteError if several trainings are left, StoreError
        if the weights are not in the store.
        """
        from bench_notebook.trained_stage import Trained

        axes = {"model": name, "task": task, "hardware": hardware, "decoder": decoder, "seed": seed}
        folder = data_folder(Path(data) if data else None)
        found = Trained.of(self.run, self.store, folder, axes).stage()
        from bench_notebook.trained_model import load_trained

        return load_trained(*found, self.run.suite.limits.max_tokens)

    def all_outputs(self) -> Iterator[StoredOutcomes]:
        """Yield the outcomes of every decoding and every scoring, each with its axes (`cell`) and `kind`."""
        return StoredOutcomes.of(self.run.cells, self.store)

    def cells_frame(self) -> Any:
        """Return `cells` as a frame of pandas."""
        return _frame(self.cells)

    def numbers_frame(self) -> Any:
        """Return `numbers` as a frame of pandas."""
        return _frame(self.numbers)

    def histories_frame(self) -> Any:
        """Return `histories` as a frame of pandas."""
        return _frame(self.histories)

    def draws_frame(self) -> Any:
        """Return `draws` as a frame of pandas: a column for each number, a row for each of 1,000 resamples.

        They draw as many examples together as depend on each other, by `block` of the number.
        """
        from block_bootstrap import BLOCKS

        blocks = {
            (cell_name(one.cell), name): one.numbers[name].block for one in self.run.cells for name in one.numbers
        }
        return _frame({name: draws[BLOCKS.index(blocks[name])] for name, draws in self.draws.items()})

    def outputs_frame(
        self, cell: str | Mapping[str, Any] = "", kind: Kind = "decode", by: str | None = None, **axes: Any
    ) -> Any:
        """Return the outcomes of all cells that match as a frame of pandas, which must fit into memory.

        It has a row for each example of each cell: the axes of the cell, and what `outputs` gives. Scorings, which
        decoders share, come once, with the likelihood `by`.
        """
        cells = chosen(self._cells(cell, axes), lambda one: one.cell, cell if isinstance(cell, str) else "")
        several = [one for one in StoredOutcomes.of(cells, self.store) if one.kind == kind and by in (None, one.by)]
        return _frame([{**one.cell, "by": one.by, **vars(outcome)} for one in several for outcome in one])


def _frame(rows: Any) -> Any:
    try:
        from pandas import DataFrame
    except ImportError:
        raise PluginError(INSTALL) from None
    return DataFrame(rows)
