"""Finds a trained model of a run in its store, with the settings of its decoders; imports no torch."""

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

SHOWN = 5  # names of changed code in a warning


@dataclass(frozen=True)
class Trained:
    """The cells of a run that share a trained model, and where the parts of these cells are."""

    run: Run
    store: Store
    data: Path
    cells: Sequence[CellResult]

    @classmethod
    def of(cls, run: Run, store: Store, data: Path, axes: Mapping[str, Any]) -> Trained:
        """Choose cells by names on axes; raise SuiteError for an unknown name, or if several trainings are left."""
        cells = [*run.cells]
        for axis, given in axes.items():
            if given is not None and (axis != "decoder" or any(one.cell[axis] for one in cells)):
                wanted = complete(axis, str(given), names_on(cells, lambda one: one.cell, axis))
                cells = [one for one in cells if name_on(one.cell, axis) == wanted]
        several = {axis: names_on(cells, lambda one: one.cell, axis) for axis in (*TRAINING_AXES, "seed")}
        if undecided := [f"{axis} ({', '.join(names)})" for axis, names in several.items() if len(names) > 1]:
            raise SuiteError(f"{run.folder} has {axes['model']!r} several times. Choose by {', '.join(undecided)}.")
        return cls(run, store, data, cells)

    @property
    def label(self) -> str:
        """Return what the training is called in messages, such as `words/lstm, seed 0`."""
        return cell_name({axis: self.cells[0].cell.get(axis) for axis in (*TRAINING_AXES, "seed")})

    def stage(self) -> tuple[StageContext, Stage, dict[str, Any]]:
        """Return a stage that decodes with the model, its context, and the settings of decoders by their names.

        Warns of code that has changed. Raises StoreError if the weights are not in the store, and SuiteError for a
        model that takes no new prompts.
        """
        recorded, cell = read_stages(self.run.folder), self.cells[0]
        keys = {"task": cell.artifacts.get("prepare", ""), "model": weights_of(cell.artifacts)}
        if any(key not in recorded for key in keys.values()):
            raise StoreError(f"{self.run.folder} does not record how {self.label} was trained. Run the suite again.")
        inputs = {role: (recorded[key].kind, key) for role, key in keys.items()}
        self._check_stored(inputs, recorded)
        used = [*self._used(recorded)]
        trained = recorded[inputs["model"][1]]
        settings = used[0][1].settings if used else self._settings(trained)
        access = at(read_parts(self.run.folder), ("models", cell.cell["model"], cell.cell["task"], "access")) or {}
        model = {**trained.settings["model"], **settings.get("evaluation", {}), **access}
        if not configured("model", model).takes_new_prompts:
            name = model["name"]
            raise SuiteError(
                f"{self.label}: {name!r} has outputs for the prompts of the suite only, so it cannot decode others."
            )
        decoders = {name: stage.settings["decoder"] for name, stage in used if name is not None}
        places = self._places([model, *decoders.values()])
        stage = Stage("decode", "", settings, inputs, self.label, places=places, access=access)
        decoders = {name: placed(one, places) for name, one in decoders.items()}
        for text in self._changes([one for _, one in used]):
            self.store.warn(text)
        return StageContext(self.store, self.data), stage, decoders

    def _used(self, recorded: Mapping[str, RecordedStage]) -> Iterator[tuple[str | None, RecordedStage]]:
        """Yield a stage that used the model for each decoder, by name; without decoders, one that scored with it."""
        decoded = {one.cell["decoder"]: recorded.get(one.artifacts.get("decode", "")) for one in self.cells}
        found = [(name, stage) for name, stage in decoded.items() if name is not None and stage is not None]
        scored = (recorded.get(key) for name, key in self.cells[0].artifacts.items() if name.startswith("score/"))
        yield from found or [(None, stage) for stage in scored if stage is not None][:1]

    def _settings(self, trained: RecordedStage) -> dict[str, Any]:
        """Return the settings of a stage that would use a model that nothing used."""
        own = {name: trained.settings[name] for name in ("device", "threads")}
        return {**own, "seed": self.cells[0].cell["seed"], "batch_size": self.run.suite.limits.batch_size}

    def _check_stored(self, inputs: Mapping[str, tuple[str, str]], recorded: Mapping[str, RecordedStage]) -> None:
        """Raise StoreError, with the command that computes it, unless the task and the weights are in the store."""
        for role, (kind, key) in inputs.items():
            if self.store.has(kind, key):
                continue
            what = "the weights are" if role == "model" else "the tokenizer and data are"
            failed = [one.reason for one in self.cells if one.reason and not recorded[key].result]
            why = f" It failed: {failed[0]}" if failed else ""
            carried = " Runs are imported without them." if self.store.kept_as(kind, key) != kind else ""
            raise StoreError(
                f"{self.label}: {what} not in the store {self.store.root} ({kind} {key[:12]}).{carried}{why} Name "
                f"the store of the run by --store, or run its suite: bench run {self.run.folder / 'suite.yaml'}"
            )

    def _places(self, settings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Return where the files lie that settings of the model and of decoders name, with their marks."""
        if not any(dict(marks(one)) for one in settings):
            return {}
        try:
            suite, cell = located_suite(suite_of(self.run.folder), self.data), self.cells[0].cell
            config = suite.models[cell["model"]].at(cell["task"]).config
            names = dict.fromkeys(one.cell["decoder"] for one in self.cells)
            parts: list[Config] = [config, *(suite.decoders[name] for name in names if name in suite.decoders)]
            found = [path for one in parts for path, _ in paths(one)] + [*config.files(self.data).values()]
            return {str(path.absolute()): mark(path, self.label, self.data) for path in found}
        except DataError as error:
            raise DataError(
                f"{error} Relative paths of the suite are looked up from the working directory, {Path.cwd()}: "
                "change to the folder of the suite."
            ) from None

    def _changes(self, used: Sequence[RecordedStage]) -> Iterator[str]:
        """Yield what is not as it was when the run was computed."""
        code = dict.fromkeys(name for one in used for name in changed_code(one.ingredients["code"], {}, one.settings))
        versions = {name: old for one in used for name, old in one.ingredients["libraries"].items()}
        libraries = [f"{name} {old} -> {new}" for name, old in versions.items() if (new := keys.library(name)) != old]
        if changed := [*(f"code of {name}" for name in code), *libraries]:
            more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            yield (
                f"changed since the run: {', '.join(changed[:SHOWN])}{more}. Outputs may differ from the run's; "
                f"see `bench why {self.run.folder}`."
            )
