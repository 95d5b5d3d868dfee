"""Finds a trained model of a run in its store, with the settings of its decoders; does not import torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core.computing.context import StageContext
from bench_core.config import Config
from bench_core.errors import DataError, StoreError, SuiteError
from bench_core.planning import cache_keys as keys
from bench_core.planning.path_settings import mark, marks, paths, placed
from bench_core.planning.plan import located_suite
from bench_core.planning.stage_code import changed_code
from bench_core.planning.stages import Stage
from bench_core.registry import configured
from bench_core.runs.provenance import RecordedStage, at, read_parts, read_stages
from bench_core.runs.results import CellResult, Run
from bench_core.runs.run_suite import suite_of
from bench_core.runs.selecting import cell_name, complete, name_on, names_on
from bench_core.stage_kinds import weights_of
from bench_core.storage.store import Store
from bench_core.suites.axes import TRAINING_AXES

MAX_SHOWN_CHANGES = 5  #: maximum number of changes listed in a warning


@dataclass(frozen=True)
class TrainedCells:
    """The cells of a run that share a trained model, with the store and the corpora folder of the run."""

    run: Run
    store: Store
    data: Path
    cells: Sequence[CellResult]

    @classmethod
    def of(cls, run: Run, store: Store, data: Path, axes: Mapping[str, Any]) -> TrainedCells:
        """Choose cells by names on axes; raise SuiteError for an unknown name, or if several training runs match."""
        cells = [*run.cells]
        for axis, name in axes.items():
            if name is not None and (axis != "decoder" or any(result.cell[axis] for result in cells)):
                wanted = complete(axis, str(name), names_on(cells, lambda result: result.cell, axis))
                cells = [result for result in cells if name_on(result.cell, axis) == wanted]
        names_by_axis = {axis: names_on(cells, lambda result: result.cell, axis) for axis in (*TRAINING_AXES, "seed")}
        if undecided := [f"{axis} ({', '.join(names)})" for axis, names in names_by_axis.items() if len(names) > 1]:
            raise SuiteError(f"{run.folder} has {axes['model']!r} several times. Choose by {', '.join(undecided)}.")
        return cls(run, store, data, cells)

    @property
    def label(self) -> str:
        """Return the name of the trained model in messages, such as `words/lstm, seed 0`."""
        return cell_name({axis: self.cells[0].cell.get(axis) for axis in (*TRAINING_AXES, "seed")})

    def stage(self) -> tuple[StageContext, Stage, dict[str, Any]]:
        """Return the context, a stage that decodes with the model, and the settings of the decoders by name.

        Warns about changed code. Raises StoreError if the weights are not in the store, SuiteError if the model
        accepts no new prompts.
        """
        recorded, cell = read_stages(self.run.folder), self.cells[0]
        keys = {"task": cell.artifacts.get("prepare", ""), "model": weights_of(cell.artifacts)}
        if any(key not in recorded for key in keys.values()):
            raise StoreError(f"{self.run.folder} does not record how {self.label} was trained. Run the suite again.")
        inputs = {role: (recorded[key].kind, key) for role, key in keys.items()}
        used = [*self._uses(recorded)]
        if used and "validation" in used[0][1].inputs:  # settings of the evaluation are fitted as in the run
            inputs["validation"] = used[0][1].inputs["validation"]
        self._check_stored(inputs, recorded)
        trained = recorded[inputs["model"][1]]
        settings = used[0][1].settings if used else self._settings(trained)
        access = at(read_parts(self.run.folder), ("models", cell.cell["model"], cell.cell["task"], "access")) or {}
        model = {**trained.settings["model"], **settings.get("evaluation", {}), **access}
        config, name = configured("model", model), model["name"]
        if config.fits_on_validation() and "validation" not in inputs:
            raise StoreError(
                f"{self.label}: {name!r} fits settings on the validation split, but the run neither decoded nor "
                "scored with it. Add a decoder or a metric to the suite, and run it again."
            )
        if not config.takes_new_prompts:
            raise SuiteError(
                f"{self.label}: {name!r} has outputs for the prompts of the suite only; it cannot decode new prompts."
            )
        decoders = {name: stage.settings["decoder"] for name, stage in used if name is not None}
        places = self._places([model, *decoders.values()])
        stage = Stage("decode", "", settings, inputs, self.label, places=places, access=access)
        decoders = {name: placed(decoder, places) for name, decoder in decoders.items()}
        for text in self._changes([stage for _, stage in used]):
            self.store.warn(text)
        return StageContext(self.store, self.data), stage, decoders

    def _uses(self, recorded: Mapping[str, RecordedStage]) -> Iterator[tuple[str | None, RecordedStage]]:
        """Yield each decoder's name and decoding stage; without decoders, yield None and a scoring stage."""
        decoded = {result.cell["decoder"]: recorded.get(result.artifacts.get("decode", "")) for result in self.cells}
        decodings = [(name, stage) for name, stage in decoded.items() if name is not None and stage is not None]
        scorings = (recorded.get(key) for name, key in self.cells[0].artifacts.items() if name.startswith("score/"))
        yield from decodings or [(None, stage) for stage in scorings if stage is not None][:1]

    def _settings(self, trained: RecordedStage) -> dict[str, Any]:
        """Return decoding settings for a model with which the run neither decoded nor scored."""
        placement = {name: trained.settings[name] for name in ("device", "threads")}
        return {**placement, "seed": self.cells[0].cell["seed"], "batch_size": self.run.suite.limits.batch_size}

    def _check_stored(self, inputs: Mapping[str, tuple[str, str]], recorded: Mapping[str, RecordedStage]) -> None:
        """Raise StoreError unless the task and the weights are in the store; the message says how to compute them."""
        for role, (kind, key) in inputs.items():
            if self.store.has(kind, key):
                continue
            missing = "the weights are" if role == "model" else "the tokenizer and data are"
            failed = [result.reason for result in self.cells if result.reason and not recorded[key].result]
            why = f" It failed: {failed[0]}" if failed else ""
            imported = " Imported runs do not contain them." if self.store.stored_kind(kind, key) != kind else ""
            raise StoreError(
                f"{self.label}: {missing} not in the store {self.store.root} ({kind} {key[:12]}).{imported}{why} Set "
                f"--store to the store of the run, or run its suite: bench run {self.run.folder / 'suite.yaml'}"
            )

    def _places(self, settings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Return the marks of the files in the settings of the model and its decoders, by path."""
        if not any(dict(marks(part)) for part in settings):
            return {}
        try:
            suite, cell = located_suite(suite_of(self.run.folder), self.data), self.cells[0].cell
            config = suite.models[cell["model"]].at(cell["task"]).config
            names = dict.fromkeys(result.cell["decoder"] for result in self.cells)
            parts: list[Config] = [config, *(suite.decoders[name] for name in names if name in suite.decoders)]
            files = [path for part in parts for path, _ in paths(part)] + [*config.files(self.data).values()]
            return {str(path.absolute()): mark(path, self.label, self.data) for path in files}
        except DataError as error:
            raise DataError(
                f"{error} Relative paths are resolved from the working directory, {Path.cwd()}: "
                "change to the folder of the suite."
            ) from None

    def _changes(self, used: Sequence[RecordedStage]) -> Iterator[str]:
        """Yield a warning if code or libraries have changed since the run."""
        code = dict.fromkeys(
            name for stage in used for name in changed_code(stage.ingredients["code"], {}, stage.settings)
        )
        versions = {name: old for stage in used for name, old in stage.ingredients["libraries"].items()}
        libraries = [f"{name} {old} -> {new}" for name, old in versions.items() if (new := keys.library(name)) != old]
        if changed := [*(f"code of {name}" for name in code), *libraries]:
            more = f" and {len(changed) - MAX_SHOWN_CHANGES} more" if len(changed) > MAX_SHOWN_CHANGES else ""
            yield (
                f"changed since the run: {', '.join(changed[:MAX_SHOWN_CHANGES])}{more}. Outputs may "
                f"differ from the run's; see `bench why {self.run.folder}`."
            )
