"""Loads a run for analysis in Python: cells, numbers, bootstrap replicates, training histories and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.data import Prediction
from bench_core.errors import PluginError, StoreError, SuiteError
from bench_core.files import data_folder
from bench_core.runs.results import KEY_CHARACTERS, CellResult, Run, read_histories, read_run
from bench_core.runs.selecting import cell_name, chosen, name_on, only_one, run_folder
from bench_core.stage_kinds import weights_of
from bench_core.storage.store import Store
from bench_core.suites.axes import AXES, TRAINING_AXES
from bench_notebook.cell_predictions import KINDS, Kind, StoredPredictions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench_notebook.trained_model import TrainedModel

PANDAS_MISSING = "pandas is not installed: python -m pip install 'pandas>=2.2'. Only data frames need it."


def load(run: str | Path, store: str | Path = ".bench/store", runs: str | Path = "runs") -> LoadedRun:
    """Load a local or imported run by its folder, or by its name in the folder `runs`.

    Predictions are read from `store` on demand. Raises SuiteError for an unknown run, StoreError for a damaged file.
    """
    return LoadedRun(read_run(run_folder(Path(run), Path(runs))), Store(Path(store)))


@dataclass(frozen=True)
class LoadedRun:
    """A run and its store. Rows are mappings that begin with the axes of their cell."""

    run: Run
    store: Store

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Return a row for each cell: axes, status and the value of each metric."""
        return self.run.rows()

    @property
    def numbers(self) -> list[dict[str, Any]]:
        """Return a row for each number: axes, metric, value and details such as unit and examples."""
        return [
            {**result.cell, "metric": metric, **vars(number)}
            for result in self.run.cells
            for metric, number in result.numbers.items()
        ]

    @cached_property
    def draws(self) -> Mapping[tuple[str, str], NDArray[Any]]:
        """The bootstrap replicates [B, 1000] of each number that has replicates, by names of cell and metric.

        Cells are named as in `bench show`, such as `words/lstm/greedy/test, seed 0`. Row i resamples blocks of 2^i
        consecutive examples; B > 1 only if examples continue each other.
        """
        keys = {
            (cell_name(result.cell), name.partition("/")[2]): key
            for result in self.run.cells
            for name, key in result.artifacts.items()
            if name.startswith("measure/")
        }
        replicates = {name: self.run.draws[key] for name, key in keys.items() if key in self.run.draws}
        return {name: draws for name, draws in replicates.items() if len(draws)}

    @property
    def histories(self) -> list[dict[str, Any]]:
        """Return a row for each evaluation during training: task, model, hardware, seed, step, epoch and metrics."""
        try:
            recorded = dict(read_histories(self.run.folder))
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.run.folder}: {error}. Run the suite again.") from None
        trainings: dict[str, Mapping[str, Any]] = {}
        for result in self.run.cells:
            axes: dict[str, Any] = {axis: result.cell.get(axis) for axis in (*TRAINING_AXES, "seed")}
            trainings.setdefault(weights_of(result.artifacts)[:KEY_CHARACTERS], axes)
        return [{**trainings[key], **row} for key, rows in recorded.items() if key in trainings for row in rows]

    def outputs(
        self, cell: str | Mapping[str, Any] = "", kind: Kind = "decode", by: str | None = None, **axes: Any
    ) -> Iterator[Prediction]:
        """Iterate over the predictions of one cell in order of id, read one at a time.

        Choose the cell by a row of `cells`, by a name or filters as on the command line, or by axes, such as
        `model="lstm"`; an axis with the same name in all cells may be omitted. `kind="score"` returns the scored
        examples with the log-probabilities of their targets; `by` chooses among several likelihoods. Raises
        SuiteError unless exactly one cell matches, StoreError if its predictions are missing or damaged.
        """
        if kind not in KINDS:
            raise SuiteError(f"predictions have no kind {kind!r}. Choose {' or '.join(KINDS)}.")
        match = only_one(self._cells(cell, axes), lambda result: result.cell, cell if isinstance(cell, str) else "")
        stored = [
            predictions for predictions in StoredPredictions.of([match], self.store) if predictions.kind == kind
        ]
        if not stored:
            verb = "decoded" if kind == "decode" else "scored"
            raise SuiteError(f"{cell_name(match.cell)}: nothing was {verb} for this cell.")
        if by is None and len(stored) == 1:
            return iter(stored[0])
        known = {predictions.by: predictions for predictions in stored}
        if by not in known:
            names = ", ".join(sorted(map(str, known)))
            raise SuiteError(f"{cell_name(match.cell)}: choose a likelihood: set `by` to one of {names}.")
        return iter(known[by])

    def _cells(self, cell: str | Mapping[str, Any], axes: Mapping[str, Any]) -> list[CellResult]:
        """Return the cells with the chosen names on their axes; raise SuiteError if no cell matches."""
        if odd := {*axes} - {*AXES}:
            raise SuiteError(f"cells have no axis {min(odd)!r}. Their axes are {', '.join(AXES)}.")
        wanted = {**({} if isinstance(cell, str) else cell), **axes}
        names = {axis: name_on(wanted, axis) for axis in AXES if axis in wanted}
        cells = [
            result for result in self.run.cells if all(name_on(result.cell, axis) == names[axis] for axis in names)
        ]
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

        Axes with a single name in the run may be omitted. Published models are read from the path in the run's suite,
        or from the corpora folder `data`. Raises SuiteError if several training runs match, StoreError if the
        weights are not in the store.
        """
        from bench_notebook.trained_stage import TrainedCells

        axes = {"model": name, "task": task, "hardware": hardware, "decoder": decoder, "seed": seed}
        folder = data_folder(Path(data) if data else None)
        training = TrainedCells.of(self.run, self.store, folder, axes).stage()
        from bench_notebook.trained_model import load_trained

        return load_trained(*training, self.run.suite.limits.max_tokens)

    def all_outputs(self) -> Iterator[StoredPredictions]:
        """Yield the predictions of each decoding and scoring stage of the run, with axes (`cell`) and `kind`."""
        return StoredPredictions.of(self.run.cells, self.store)

    def cells_frame(self) -> Any:
        """Return `cells` as a pandas DataFrame."""
        return _frame(self.cells)

    def numbers_frame(self) -> Any:
        """Return `numbers` as a pandas DataFrame."""
        return _frame(self.numbers)

    def histories_frame(self) -> Any:
        """Return `histories` as a pandas DataFrame."""
        return _frame(self.histories)

    def draws_frame(self) -> Any:
        """Return `draws` as a pandas DataFrame: a column for each number, a row for each of 1,000 resamples.

        The resamples use the block length of the number (`block`).
        """
        from block_bootstrap import BLOCKS

        blocks = {
            (cell_name(result.cell), name): result.numbers[name].block
            for result in self.run.cells
            for name in result.numbers
        }
        return _frame({name: draws[BLOCKS.index(blocks[name])] for name, draws in self.draws.items()})

    def outputs_frame(
        self, cell: str | Mapping[str, Any] = "", kind: Kind = "decode", by: str | None = None, **axes: Any
    ) -> Any:
        """Return the predictions of all matching cells as a pandas DataFrame, which must fit into memory.

        It has a row for each example of each cell, with the axes of the cell and the fields of the prediction.
        Scored examples, which cells with different decoders share, appear once, with their likelihood `by`.
        """
        cells = chosen(self._cells(cell, axes), lambda result: result.cell, cell if isinstance(cell, str) else "")
        stored = [
            predictions
            for predictions in StoredPredictions.of(cells, self.store)
            if predictions.kind == kind and by in (None, predictions.by)
        ]
        return _frame([{**part.cell, "by": part.by, **vars(prediction)} for part in stored for prediction in part])


def _frame(rows: Any) -> Any:
    try:
        from pandas import DataFrame
    except ImportError:
        raise PluginError(PANDAS_MISSING) from None
    return DataFrame(rows)
