"""The section `counts: {letter: e}`, whose stages count outputs with that letter, a number for each cell."""

from __future__ import annotations

import json

from pydantic import BaseModel

from bench_core import Section, StageKind, hookimpl
from bench_core.sections import CellStage

FILE = "counts.json"


class Counts(BaseModel):
    letter: str


class CountsFile(BaseModel):
    counts: Counts | None = None


class CountsSection(Section):
    keys = ("counts",)
    files = (FILE,)
    schema = "bench_counts.plugin:CountsFile"

    def stages(self, suite, cell):
        if (asked := suite.sections.get("counts")) and cell.decoder is not None:
            yield CellStage("count", asked.letter, {"letter": asked.letter})

    def keep(self, run, store):
        keys = {key for one in run.cells for name, key in one.artifacts.items() if name.startswith("count/")}
        found = {key: store.find("count", key).json("count.json") for key in sorted(keys) if store.has("count", key)}
        if found:
            (run.folder / FILE).write_text(json.dumps(found))

    def merge(self, runs, merged):
        found = {key: one for run in runs for key, one in self.counts(run).items()}
        (merged.folder / FILE).write_text(json.dumps(found))

    def verify(self, run, store):
        from bench_core.runs.manifest import Remark

        for key, one in self.counts(run).items():
            if store and store.has("count", key) and store.find("count", key).json("count.json") != one:
                yield Remark(f"{run.folder / FILE}: {key[:8]} is not as in the store")

    def counts(self, run):
        return json.loads(path.read_text()) if (path := run.folder / FILE).is_file() else {}


@hookimpl
def bench_sections(api):
    return [CountsSection()]


@hookimpl
def bench_stage_kinds(known):
    return [
        StageKind("count", "bench_counts.stages:count", needs_torch=False, files=("count.json",), record="counted")
    ]
