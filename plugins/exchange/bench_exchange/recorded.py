"""Follows every cell of a run to its stages and their keys, by what the run records and by nothing else."""

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
from bench_exchange.suite_settings import as_mapping, shortened, unlike_settings
from input_digests import described
from plain_files import from_csv

SHORT = 16  # letters of a key in costs.csv


def contradictions(run: Run) -> Iterator[Remark]:
    """Yield where the files of a run contradict each other, and what they do not tell."""
    try:
        stages, parts = read_stages(run.folder), read_parts(run.folder)
    except StoreError as error:
        yield Remark(str(error))
        return
    if not stages:
        if any(cell.artifacts or cell.numbers for cell in run.cells):
            yield Remark(f"{run.folder}: {STAGES} is missing: nothing says what its cells were computed from")
        return
    yield from _Recorded(run, stages, parts).remarks()


def key_fits(stage: RecordedStage) -> bool | None:
    """Return whether the key of a stage is that of its ingredients; None if its scheme is not known here."""
    if key_of({**stage.ingredients, "scheme": stage.scheme}) == stage.key:
        return True
    return False if stage.scheme == SCHEME else None


@dataclass
class _Recorded:
    """A run, and what it records of its stages and parts."""

    run: Run
    stages: Mapping[str, RecordedStage]
    parts: Mapping[str, Any]

    def remarks(self) -> Iterator[Remark]:
        """Yield all contradictions."""
        folder = self.run.folder
        fits = {key: key_fits(stage) for key, stage in self.stages.items()}
        for stage in self.stages.values():
            if fits[stage.key] is False:
                yield Remark(f"{folder / STAGES}: {stage.kind} {stage.key}: the key is not that of its ingredients")
        other = sum(fit is None for fit in fits.values())
        if other:
            why = "were computed by another scheme than this version knows"
            yield Remark(f"{folder / STAGES}: the keys of {other:,} stages {why}", wrong=False)
        for cell in self.run.cells:
            name = cell_name(cell.cell)
            yield from (Remark(f"{folder}: {name}: {text}") for text in [*self._cell(cell), *self._results(cell)])
        texts = [*self._matrix(), *self._behind(), *self._shared(), *self._info(), *self._observed(), *self._files()]
        for text in texts:
            yield Remark(f"{folder}: {text}")
        for text in unlike_settings(self.run, self.parts):
            yield Remark(f"{folder / 'suite.yaml'}: {text}")

    def _cell(self, cell: CellResult) -> Iterator[str]:
        """Yield where the stages of a cell are not those of its names."""
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
            yield from self._lacking(cell)

    def _settings(self, cell: CellResult, name: str, stage: RecordedStage) -> Iterator[str]:
        """Yield the settings of a stage that are not those of the names of its cell."""
        for place, value in settings_by_part(cell.cell, name, stage.settings):
            section, *inside = place
            if section == "cell":
                known, fits = cell.cell.get(inside[0]), value == cell.cell.get(inside[0])
            elif section == "seeds":
                known = self.parts.get("seeds")
                fits = isinstance(value, list) and cell.cell["seed"] in value and {*value} <= {*(known or ())}
            else:
                known = at(self.parts, place)
                several = self.parts.get("batch_sizes") if place == ("limits", "batch_size") else None
                fits = value == known or value in (several or ())  # merged runs may differ in it
            if not fits:
                way, ours, theirs = _leaf(value, known, place[-1])
                yield f"{way} is {shortened(ours)}, and {_owner(place)} has {shortened(theirs)}"

    def _inputs(self, cell: CellResult, name: str, stage: RecordedStage) -> Iterator[str]:
        """Yield the inputs of a stage that are not the cell's other stages."""
        for role, (kind, key) in stage.inputs.items():
            if kind == "together":
                joint = self.stages.get(key)
                if joint is None or joint.kind != kind or cell.cell["seed"] not in joint.settings.get(kind, ()):
                    yield f"{name}: its joint training {key} is not recorded, or not of this seed"
                else:
                    yield from (f"{kind}: {text}" for text in self._settings(cell, kind, joint))
                    yield from self._inputs(cell, kind, joint)
                continue
            if role in ("select", "stop"):
                judged, asked = self.stages.get(key), at(stage.settings, ("training", role, "split"))
                if judged is None or judged.kind != kind or judged.settings.get("split") != asked:
                    yield f"{name}: the split that it is judged on, {kind} {key}, is not recorded, or another one"
                continue
            ours = f"score/{name.partition('/')[2]}" if kind == "score" else kind
            if role == "task" and name in ("prepare", "together", *WEIGHTS) and "prepare/train" in cell.artifacts:
                ours = "prepare/train"
            if cell.artifacts.get(ours) != key:
                yield f"{name}: its {role} is {kind} {key}, which is not the cell's"

    def _hardware(self, cell: CellResult, stage: RecordedStage) -> Iterator[str]:
        """Yield what a cell was computed with by its stages, and not by its environments."""
        places = [self.run.info["environments"][place] for place in cell.environments]
        known = as_mapping(stage.ingredients.get("libraries"))
        for name, version in known.items() if places else ():
            if all(place.get("libraries", {}).get(name, version) != version for place in places):
                yield f"it was computed with {name} {version}, which none of its environments has"
        for name in (*HARDWARE, "torch"):
            value = known.get(name) if name == "torch" else stage.settings.get(name)
            if value is not None and places and value not in [place.get(name, value) for place in places]:
                yield f"it was computed with {name} {value}, and its environments say otherwise"

    def _lacking(self, cell: CellResult) -> Iterator[str]:
        """Yield the stages and numbers that a cell should have, and those that it should not."""
        suite = self.run.suite
        skipped = [skip for skip in suite.skip if skip.metric]
        of_cell = ({**cell.cell, "metric": name} for name in suite.metrics)
        metrics = {one["metric"] for one in of_cell if not any(skip.covers(**one) for skip in skipped)}
        weights = next((name for name in WEIGHTS if name in cell.artifacts), WEIGHTS[0])
        expected = {"prepare", weights, *(f"measure/{name}" for name in metrics)}
        expected |= {"decode"} if cell.cell.get("decoder") else set()
        kinds = {name.partition("/")[0] for name in (*expected, "decode", *WEIGHTS)}  # not of sections of plugins
        known = {name for name in cell.artifacts if name.partition("/")[0] in kinds}
        known.discard("prepare/train")  # of tasks of which splits are prepared apart
        for name in sorted(expected ^ known):
            yield f"{name} is {'missing' if name in expected else 'not in the suite'}"
        for name in sorted(metrics ^ {*cell.numbers}) if cell.status == "done" else ():
            yield f"{name}: {'the number is missing' if name in metrics else 'the suite has no such metric'}"

    def _results(self, cell: CellResult) -> Iterator[str]:
        """Yield the numbers and findings of a cell that are not those of its stages, and a status that is not."""
        left = {name: self.stages[key].result for name, key in cell.artifacts.items() if key in self.stages}
        for name, number in cell.numbers.items():
            key = cell.artifacts.get(f"measure/{name}")
            result = left.get(f"measure/{name}", "")
            told = number_digest(number, self.run.draws.get(key or "")) if number.value is not None else ""
            if told != result:
                wrong = "the number is not the one that its stage left"
                wrong = wrong if result else "there is a number, but its stage did not finish"
                wrong = wrong if told else "the number that its stage left is missing"
                yield f"{name}: {wrong}, or its bootstrap replicates"
        for name in {*left} & {f"probe/{name}" for name in cell.probes}:
            if finding_digest(cell.probes[name.partition("/")[2]]) != left[name]:
                yield f"{name}: the finding is not the one that its stage left"
        for name in sorted(name for name in left if name.startswith("probe/") and left[name]):
            if name.partition("/")[2] not in cell.probes:
                yield f"{name}: the finding that its stage left is missing"
        whole = bool(left) and all(left.values())
        if whole != (cell.status == "done"):
            yield f"it is {cell.status!r}, but {'all' if whole else 'not all'} of its stages finished"

    def _matrix(self) -> Iterator[str]:
        """Yield the cells that a run lacks by its suite, and those that it has besides or twice."""
        expected = {cell_name(cell) for cell in matrix(self.run.suite) if self._pairs(cell)}
        found = Counter(cell_name(cell.cell) for cell in self.run.cells)
        for name in sorted(expected ^ {*found}):
            yield f"{name}: the {'cell is missing' if name in expected else 'suite has no such cell'}"
        yield from (f"{name}: the cell is there twice" for name, number in found.items() if number > 1)

    def _pairs(self, cell: Mapping[str, Any]) -> bool:
        """Return whether model and decoder of a cell were planned together with its seed."""
        seeds = at(self.parts, ("pairs", str(cell["task"]), str(cell["model"]), str(cell["decoder"])))
        return seeds is None or str(cell["seed"]) in seeds

    def _behind(self) -> Iterator[str]:
        """Yield the recorded stages that are behind no cell and no task."""
        left = [key for cell in self.run.cells for key in cell.artifacts.values()]
        left += [key for key, stage in self.stages.items() if stage.kind == "prepare"]
        seen: set[str] = set()
        while left:
            key = left.pop()
            if key not in seen and key in self.stages:
                seen.add(key)
                left += [inner for _, inner in self.stages[key].inputs.values()]
        for key in {*self.stages} - seen:
            yield f"{STAGES}: {self.stages[key].kind} {key} is behind no cell"

    def _shared(self) -> Iterator[str]:
        """Yield the bootstrap replicates that are of no number of the run."""
        keys = {key for cell in self.run.cells for key in cell.artifacts.values()}
        yield from (f"draws.safetensors: {key} is no measure of a cell" for key in {*self.run.draws} - keys)

    def _info(self) -> Iterator[str]:
        """Yield what run.json tells otherwise than the suite and the stages."""
        info, suite = self.run.info, self.run.suite
        for name, known in (("suite", suite.suite), ("title", suite.title), ("source", suite.source)):
            if info.get(name, known) != known:
                yield f"run.json: {name} is {shortened(info[name])}, and {shortened(known)} in suite.yaml"
        label = f"{suite.suite}-{info['profile']}" if info.get("profile") else suite.suite
        if info["label"] != label:
            yield f"run.json: the label is {shortened(info['label'])}, not {shortened(label)}"
        for what, setting in (("tasks", "data"), ("models", "files")):
            for name, digests in info.get("read", {}).get(what, {}).items():
                recorded = at(self.parts, (what, name))
                several = [recorded] if what == "tasks" else [*as_mapping(recorded).values()]
                planned = [as_mapping(as_mapping(one).get(setting)) for one in several]
                for file, digest in digests.items():
                    told = [one[file] for one in planned if file in one]
                    if told and digest not in told:
                        yield f"run.json: the digest of {file} of {what[:-1]} {name!r} is not that in {PARTS}"

    def _observed(self) -> Iterator[str]:
        """Yield the inputs that a stage observed besides its key and run.json does not tell."""
        marks: dict[tuple[str, str], set[str]] = {}
        for stage in self.stages.values():
            for sort, found in stage.observed.items():
                for name, mark in found.items():
                    marks.setdefault((sort, name), set()).add(mark)
        told = self.run.info.get("observed", {})
        for (sort, name), known in marks.items():
            if told.get(sort, {}).get(name) not in known:
                yield f"run.json: {described(sort, name)} is not among its observed inputs as in {STAGES}"

    def _files(self) -> Iterator[str]:
        """Yield costs, histories and lines of the log that are of no recorded stage."""
        kinds = {key[:SHORT]: stage.kind for key, stage in self.stages.items()}
        rows = from_csv(plain_file(self.run.folder / "costs.csv").decode())
        for row in rows:
            if kinds.get(row["key"]) != row["stage"]:
                yield f"costs.csv: {row['stage']} {row['what']} ({row['key']}) is no recorded stage"
        for key, path in history_files(self.run.folder).items():
            trained = (one for one, stage in self.stages.items() if stage.kind in WEIGHTS)
            if not any(one.startswith(key) for one in trained):
                yield f"history/{path.name} is of no recorded training"


def _owner(place: Iterable[str]) -> str:
    """Say whose setting a place is, such as `model 'lstm' on 'words'`."""
    section, *names = place
    if section in ("cell", "seeds", "limits"):
        return {"cell": "the cell", "seeds": "the suite", "limits": "the suite"}[section]
    kind = section.removesuffix("s")
    return f"{kind} {names[0]!r} on {names[1]!r}" if section == "models" else f"{kind} {names[0]!r}"


def _leaf(one: Any, other: Any, way: str) -> tuple[str, Any, Any]:
    """Return the first place at which two settings differ, and what is there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        name = next(name for name in {**one, **other} if one.get(name) != other.get(name) or name not in one)
        return _leaf(one.get(name), other.get(name), f"{way}.{name}")
    return way, one, other
