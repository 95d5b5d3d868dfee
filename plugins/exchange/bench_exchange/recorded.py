"""Traces every cell of a run to its stages and their keys, using only the records of the run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench_core.errors import StoreError
from bench_core.planning.cache_keys import SCHEME, key_of
from bench_core.runs.manifest import Remark
from bench_core.runs.provenance import (
    HARDWARE,
    PARTS,
    STAGES,
    RecordedStage,
    at,
    read_parts,
    read_stages,
    settings_by_part,
)
from bench_core.runs.results import CellResult, Run, finding_digest, history_files, number_digest, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.stage_kinds import WEIGHTS
from bench_exchange.compatibility import matrix
from bench_exchange.suite_settings import as_mapping, truncate, unlike_settings
from input_digests import described
from plain_files import from_csv

COSTS_KEY_LENGTH = 16  # characters of a key in the costs of a run


def contradictions(run: Run) -> Iterator[Remark]:
    """Yield contradictions between the files of a run, and missing records."""
    try:
        stages, parts = read_stages(run.folder), read_parts(run.folder)
    except StoreError as error:
        yield Remark(str(error))
        return
    if not stages:
        if any(cell.artifacts or cell.numbers for cell in run.cells):
            yield Remark(f"{run.folder}: {STAGES} is missing: the stages of its cells are unknown")
        return
    yield from _RecordedRun(run, stages, parts).remarks()


def key_fits(stage: RecordedStage) -> bool | None:
    """Return whether the key of a stage matches its ingredients; None for an unknown key scheme."""
    if key_of({**stage.ingredients, "scheme": stage.scheme}) == stage.key:
        return True
    return False if stage.scheme == SCHEME else None


@dataclass
class _RecordedRun:
    """A run with its recorded stages and part settings."""

    run: Run
    stages: Mapping[str, RecordedStage]
    parts: Mapping[str, Any]

    def remarks(self) -> Iterator[Remark]:
        """Yield all contradictions."""
        folder = self.run.folder
        fits = {key: key_fits(stage) for key, stage in self.stages.items()}
        for stage in self.stages.values():
            if fits[stage.key] is False:
                yield Remark(f"{folder / STAGES}: {stage.kind} {stage.key}: the key does not match the ingredients")
        other = sum(fit is None for fit in fits.values())
        if other:
            why = "have a scheme unknown to this version"
            yield Remark(f"{folder / STAGES}: the keys of {other:,} stages {why}", wrong=False)
        for cell in self.run.cells:
            name = cell_name(cell.cell)
            yield from (Remark(f"{folder}: {name}: {text}") for text in [*self._cell(cell), *self._results(cell)])
        texts = [*self._matrix(), *self._unused_stages(), *self._unused_replicates(), *self._info()]
        texts += [*self._unrecorded_inputs(), *self._files()]
        texts = [f"{folder}: {text}" for text in texts]
        texts += [f"{folder / 'suite.yaml'}: {text}" for text in unlike_settings(self.run, self.parts)]
        yield from map(Remark, texts)

    def _cell(self, cell: CellResult) -> Iterator[str]:
        """Yield stages of a cell that do not match its names."""
        for name, key in cell.artifacts.items():
            stage = self.stages.get(key)
            if stage is None:
                yield f"{name} {key} is not among the recorded stages"
                continue
            if stage.kind != name.partition("/")[0]:
                yield f"{name} is a {stage.kind}"
                continue
            yield from (f"{name}: {text}" for text in self._settings(cell, name, stage))
            yield from self._inputs(cell, name, stage)
            if name in WEIGHTS:
                yield from self._hardware(cell, stage)
        if cell.artifacts:
            yield from self._missing(cell)

    def _settings(self, cell: CellResult, name: str, stage: RecordedStage) -> Iterator[str]:
        """Yield stage settings that do not match the names of the cell."""
        for place, value in settings_by_part(cell.cell, name, stage.settings):
            section, *inside = place
            if section == "cell":
                known, fits = cell.cell.get(inside[0]), value == cell.cell.get(inside[0])
            elif section == "seeds":
                known = self.parts.get("seeds")
                fits = isinstance(value, list) and cell.cell["seed"] in value and {*value} <= {*(known or ())}
            else:
                known = at(self.parts, place)
                batch_sizes = self.parts.get("batch_sizes") if place == ("limits", "batch_size") else None
                fits = value == known or value in (batch_sizes or ())  # runs that were merged may differ
            if not fits:
                way, ours, theirs = _leaf(value, known, place[-1])
                yield f"{way} is {truncate(ours)}, but {_owner(place)} has {truncate(theirs)}"

    def _inputs(self, cell: CellResult, name: str, stage: RecordedStage) -> Iterator[str]:
        """Yield inputs of a stage that are not stages of the same cell."""
        for role, (kind, key) in stage.inputs.items():
            if kind == "vmapped":
                joint = self.stages.get(key)
                if joint is None or joint.kind != kind or cell.cell["seed"] not in joint.settings.get(kind, ()):
                    yield f"{name}: its joint training stage {key} is not recorded or does not cover this seed"
                else:
                    yield from (f"{kind}: {text}" for text in self._settings(cell, kind, joint))
                    yield from self._inputs(cell, kind, joint)
                continue
            train = cell.artifacts.get("prepare/train")  # splits are prepared separately
            if role in ("select", "stop") or (role == "validation" and train):
                evaluated = self.stages.get(key)
                split = "valid" if role == "validation" else at(stage.settings, ("training", role, "split"))
                about = evaluated and (evaluated.kind, evaluated.settings.get("split"), evaluated.inputs.get("task"))
                if about != (kind, split, ("prepare", train)):
                    yield f"{name}: its evaluation split, {kind} {key}, is not recorded or differs"
                continue
            ours = f"score/{name.partition('/')[2]}" if kind == "score" else kind
            if role == "task" and name in ("prepare", "vmapped", *WEIGHTS) and train:
                ours = "prepare/train"
            if cell.artifacts.get(ours) != key:
                yield f"{name}: its input `{role}` is {kind} {key}, which is not a stage of the cell"

    def _hardware(self, cell: CellResult, stage: RecordedStage) -> Iterator[str]:
        """Yield library versions and hardware of a stage that are missing in all environments of the cell."""
        places = [self.run.info["environments"][place] for place in cell.environments]
        known = as_mapping(stage.ingredients.get("libraries"))
        for name, version in known.items() if places else ():
            if all(place.get("libraries", {}).get(name, version) != version for place in places):
                yield f"it was computed with {name} {version}, which none of its environments has"
        for name in (*HARDWARE, "torch"):
            value = known.get(name) if name == "torch" else stage.settings.get(name)
            if value is not None and places and value not in [place.get(name, value) for place in places]:
                yield f"it was computed with {name} {value}, but none of its environments has this value"

    def _missing(self, cell: CellResult) -> Iterator[str]:
        """Yield missing and unexpected stages and numbers of a cell."""
        suite = self.run.suite
        skipped = [skip for skip in suite.skip if skip.metric]
        of_cell = ({**cell.cell, "metric": name} for name in suite.metrics)
        metrics = {names["metric"] for names in of_cell if not any(skip.covers(**names) for skip in skipped)}
        weights = next((name for name in WEIGHTS if name in cell.artifacts), WEIGHTS[0])
        expected = {"prepare", weights, *(f"measure/{name}" for name in metrics)}
        expected |= {"decode"} if cell.cell.get("decoder") else set()
        kinds = {name.partition("/")[0] for name in (*expected, "decode", *WEIGHTS)}  # excludes sections of plugins
        known = {name for name in cell.artifacts if name.partition("/")[0] in kinds}
        known.discard("prepare/train")  # this stage exists if splits are prepared separately
        for name in sorted(expected ^ known):
            yield f"{name} is {'missing' if name in expected else 'not in the suite'}"
        for name in sorted(metrics ^ {*cell.numbers}) if cell.status == "done" else ():
            yield f"{name}: {'the number is missing' if name in metrics else 'the suite has no such metric'}"

    def _results(self, cell: CellResult) -> Iterator[str]:
        """Yield numbers and findings of a cell that differ from its stages, and its status if it is wrong."""
        results = {name: self.stages[key].result for name, key in cell.artifacts.items() if key in self.stages}
        for name, number in cell.numbers.items():
            key = cell.artifacts.get(f"measure/{name}")
            result = results.get(f"measure/{name}", "")
            digest = number_digest(number, self.run.draws.get(key or "")) if number.value is not None else ""
            if digest != result:
                wrong = "the number differs from the result of its stage"
                wrong = wrong if result else "there is a number, but its stage did not finish"
                wrong = wrong if digest else "the number from its stage is missing"
                yield f"{name}: {wrong} (or its bootstrap replicates differ)"
        for name in {*results} & {f"probe/{name}" for name in cell.probes}:
            if finding_digest(cell.probes[name.partition("/")[2]]) != results[name]:
                yield f"{name}: the finding differs from the result of its stage"
        for name in sorted(name for name in results if name.startswith("probe/") and results[name]):
            if name.partition("/")[2] not in cell.probes:
                yield f"{name}: the finding from its stage is missing"
        whole = bool(results) and all(results.values())
        if whole != (cell.status == "done"):
            yield f"it is {cell.status!r}, but {'all' if whole else 'not all'} of its stages finished"

    def _matrix(self) -> Iterator[str]:
        """Yield missing, unexpected and duplicate cells."""
        expected = {cell_name(cell) for cell in matrix(self.run.suite) if self._pairs(cell)}
        counts = Counter(cell_name(cell.cell) for cell in self.run.cells)
        for name in sorted(expected ^ {*counts}):
            yield f"{name}: the {'cell is missing' if name in expected else 'suite has no such cell'}"
        yield from (f"{name}: the cell is duplicated" for name, number in counts.items() if number > 1)

    def _pairs(self, cell: Mapping[str, Any]) -> bool:
        """Return whether the model and decoder of a cell were planned together with its seed."""
        seeds = at(self.parts, ("pairs", str(cell["task"]), str(cell["model"]), str(cell["decoder"])))
        return seeds is None or str(cell["seed"]) in seeds

    def _unused_stages(self) -> Iterator[str]:
        """Yield recorded stages that belong to no cell and no task."""
        pending = [key for cell in self.run.cells for key in cell.artifacts.values()]
        pending += [key for key, stage in self.stages.items() if stage.kind == "prepare"]
        seen: set[str] = set()
        while pending:
            key = pending.pop()
            if key not in seen and key in self.stages:
                seen.add(key)
                pending += [inner for _, inner in self.stages[key].inputs.values()]
        for key in {*self.stages} - seen:
            yield f"{STAGES}: {self.stages[key].kind} {key} belongs to no cell"

    def _unused_replicates(self) -> Iterator[str]:
        """Yield bootstrap replicates that belong to no number of the run."""
        keys = {key for cell in self.run.cells for key in cell.artifacts.values()}
        yield from (f"draws.safetensors: {key} belongs to no measure of a cell" for key in {*self.run.draws} - keys)

    def _info(self) -> Iterator[str]:
        """Yield differences between run.json and the suite or the stages."""
        info, suite = self.run.info, self.run.suite
        for name, known in (("suite", suite.suite), ("title", suite.title), ("source", suite.source)):
            if info.get(name, known) != known:
                yield f"run.json: {name} is {truncate(info[name])} but {truncate(known)} in suite.yaml"
        label = f"{suite.suite}-{info['profile']}" if info.get("profile") else suite.suite
        if info["label"] != label:
            yield f"run.json: the label is {truncate(info['label'])}, not {truncate(label)}"
        for what, setting in (("tasks", "data"), ("models", "files")):
            for name, digests in info.get("read", {}).get(what, {}).items():
                recorded = at(self.parts, (what, name))
                settings_of_parts = [recorded] if what == "tasks" else [*as_mapping(recorded).values()]
                planned = [as_mapping(as_mapping(settings).get(setting)) for settings in settings_of_parts]
                for file, digest in digests.items():
                    expected = [files[file] for files in planned if file in files]
                    if expected and digest not in expected:
                        yield f"run.json: the digest of {file} of {what[:-1]} {name!r} differs from {PARTS}"

    def _unrecorded_inputs(self) -> Iterator[str]:
        """Yield observed inputs of stages that run.json does not record."""
        marks: dict[tuple[str, str], set[str]] = {}
        for stage in self.stages.values():
            for sort, inputs in stage.observed.items():
                for name, mark in inputs.items():
                    marks.setdefault((sort, name), set()).add(mark)
        recorded = self.run.info.get("observed", {})
        for (sort, name), known in marks.items():
            if recorded.get(sort, {}).get(name) not in known:
                yield f"run.json: observed input {described(sort, name)} is missing or differs from {STAGES}"

    def _files(self) -> Iterator[str]:
        """Yield costs and histories that belong to no recorded stage."""
        kinds = {key[:COSTS_KEY_LENGTH]: stage.kind for key, stage in self.stages.items()}
        for row in from_csv(plain_file(self.run.folder / "costs.csv").decode()):
            if kinds.get(row["key"]) != row["stage"]:
                yield f"costs.csv: {row['stage']} {row['what']} ({row['key']}) is not a recorded stage"
        for key, path in history_files(self.run.folder).items():
            trained = (stage_key for stage_key, stage in self.stages.items() if stage.kind in WEIGHTS)
            if not any(stage_key.startswith(key) for stage_key in trained):
                yield f"history/{path.name} belongs to no recorded training run"


def _owner(place: Iterable[str]) -> str:
    """Return the owner of a setting, such as `model 'lstm' on 'words'`."""
    section, *names = place
    if section in ("cell", "seeds", "limits"):
        return {"cell": "the cell", "seeds": "the suite", "limits": "the suite"}[section]
    kind = section.removesuffix("s")
    return f"{kind} {names[0]!r} on {names[1]!r}" if section == "models" else f"{kind} {names[0]!r}"


def _leaf(first: Any, other: Any, way: str) -> tuple[str, Any, Any]:
    """Return the first place at which two settings differ, and both values."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        name = next(name for name in {**first, **other} if first.get(name) != other.get(name) or name not in first)
        return _leaf(first.get(name), other.get(name), f"{way}.{name}")
    return way, first, other
