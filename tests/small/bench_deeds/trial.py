"""Tries a deed: runs a suite of clean parts and of one that does it, and says what became of the clean ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CLEAN = {"task": {"words"}, "model": {"one", "two"}, "decoder": {"best", "drawn"}}
METRICS = ("shape", "nats")
SECTIONS = {"task": "tasks", "model": "models", "decoder": "decoders", "metric": "metrics", "probe": "probes"}
FILES = {"train": ("weights.safetensors",), "decode": None, "score": None, "measure": None}  # None: all of them
SECONDS = 40.0  # after which a fork is taken to hang; with worker processes, some of which have to start:
SECONDS_WITH_WORKERS = 400.0


def suite(*cases):
    """Return a suite of clean parts and of those that do the deeds of cases, before the others, as JSON.

    One model is enough for decoders and tasks with a deed, of which each stage may cost a process.
    """
    sections = {
        "tasks": {"words": {"name": "deeds-words", "words": 12}},
        "models": {"one": {"name": "deeds-table"}, "two": {"name": "deeds-table", "scale": 1.5}},
        "decoders": {"best": {"name": "deeds-best"}, "drawn": {"name": "deeds-drawn"}},
        "metrics": {"shape": {"name": "deeds-shape"}, "nats": {"name": "deeds-nats"}},
        "probes": {},
    }
    skipped = []
    for number, (part, config, deed) in enumerate(cases):
        section = SECTIONS[part]
        more = {"words": 12} if part == "task" else {}
        skipped += [{part: f"deed{number}", "model": "two"}] if part in ("task", "decoder") else []
        sections[section] = {f"deed{number}": {"name": config, "deed": deed, **more}, **sections[section]}
    rest = {
        "suite": "tests/deeds",
        "training": {"epochs": 2, "lr": 0.1, "batch_size": 4, "select": {"metric": "nats"}},
        "seeds": 1,
        "skip": skipped,
        "limits": {"max_tokens": 6},
        "hardware": {"threads": 1, "device": "cpu"},
    }
    return json.dumps({**rest, **{name: section for name, section in sections.items() if section}}, indent=1)


@dataclass
class Found:
    """What a run left: its cells, and the files of the artifacts in its store."""

    cells: list[dict]
    stored: dict[tuple[str, str], dict[str, str]]
    labels: dict[tuple[str, str], str]
    log: str = ""
    code: int | None = 0
    said: str = ""
    cpu: float = 0.0

    @property
    def clean(self):
        """Return the clean numbers, by cell and metric, and the reason where there is none."""
        return {
            (*(cell["cell"][axis] for axis in CLEAN), metric): number["reason"] or number
            for cell in self.cells
            if all(cell["cell"][axis] in names for axis, names in CLEAN.items())
            for metric in METRICS
            for number in [cell["numbers"].get(metric) or {"reason": cell["reason"] or cell["status"]}]
        }

    def own(self, part, name):
        """Return of each cell in which a deed has a part whether it has a result, and the reason if it has none."""
        for cell in self.cells:
            if part == "metric":
                number = cell["numbers"].get(name)
                if number is None or number.get("value") is None:
                    yield False, (number or {}).get("reason") or cell["reason"]
                else:
                    yield True, ""
            elif part == "probe":
                found = cell["probes"].get(name) or {}
                yield (
                    bool(found.get("numbers") or found.get("finding")),
                    self._reason_of_probe(name) or cell["reason"],
                )
            elif cell["cell"][part] == name:
                yield cell["status"] == "done", cell["reason"]

    def _reason_of_probe(self, name):
        """Return why a probe failed, of which a cell tells but one."""
        told = (line.partition(f": probe of {name} of ")[2] for line in self.log.splitlines())
        return next(filter(None, told), "")


class Place:
    """A folder with an installation of the parts of its own, the server, and what the clean suite leaves."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0
        self.package = folder / "packages" / "bench_deeds"
        shutil.copytree(HERE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        about = folder / "packages" / "bench_deeds-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: bench_deeds\nVersion: 0\nRequires-Dist: bench-core\n"
        )
        (about / "entry_points.txt").write_text("[bench]\ndeeds = bench_deeds.plugin\n")
        warm, also = folder / "warm", folder / "warm" / "also.yaml"
        warm.mkdir()
        (warm / "suite.yaml").write_text(suite(*((part, f"deed-{part}", "none") for part in SECTIONS)))
        also.write_text(suite(*((part, f"imported-{part}", "none") for part in SECTIONS)))
        request = {**self._request(warm, 0, None), "also": str(also)}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "bench_deeds.server", json.dumps(request)], cwd=warm, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "packages"), str(HERE.parent)]),
                 "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        while not (line := self.server.stdout.readline()).startswith('{"ready"'):
            assert line, "the server has died"
        self.clean = self.run("clean", "clean", suite())
        assert self.clean.code == 0, self.clean.said

    def close(self):
        self.server.stdin.close()
        self.server.wait()

    def tried(self, *cases, workers=0, order="first"):
        """Run the suite with these cases, then the clean one on the same store; return what both leave."""
        self.number += 1
        parts = [(case.part, case.config, case.name) for case in cases]
        try:
            first = self.run(f"{self.number}", f"{self.number}", suite(*parts), workers, order)
            self._open(self.folder / f"{self.number}")
        finally:
            shutil.copy(HERE / "endings.txt", self.package / "endings.txt")
        return first, self.run(f"{self.number}-again", f"{self.number}", suite())

    def spoilt(self, case):
        """Return whether a deed that is done before a run of the clean suite changes anything in it."""
        self.number += 1
        name = f"{self.number}"
        try:
            found = self.run(name, name, suite(), before=case.name)
        finally:
            self._open(self.folder / name)
            shutil.copy(HERE / "endings.txt", self.package / "endings.txt")
        return found.clean != self.clean.clean or found.stored != self.clean.stored

    def run(self, name, store, text, workers=0, order=None, before=None):
        """Run a suite in a fork of the server; return what it leaves."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "suite.yaml").write_text(text)
        request = self._request(folder, workers, order, before)
        request["store"] = str(self.folder / store / "store")
        print(json.dumps(request), file=self.server.stdin, flush=True)
        answer = json.loads(self.server.stdout.readline())
        runs = [*(folder / "runs").glob("*/cells.jsonl")]
        cells = [json.loads(line) for line in runs[0].read_text().splitlines()] if runs else []
        log = (runs[0].parent / "log").read_text() if runs else ""
        said = (folder / "said.txt").read_text(errors="replace") if (folder / "said.txt").exists() else ""
        return Found(
            cells, *stored(Path(request["store"])), log=log, code=answer["code"], said=said[-2000:], cpu=answer["cpu"]
        )

    def _request(self, folder, workers, order, before=None):
        return {
            "folder": str(folder), "suite": str(folder / "suite.yaml"), "store": str(folder / "store"),
            "out": str(folder / "runs"), "workers": workers, "order": order,
            "before": before, "seconds": SECONDS_WITH_WORKERS if workers else SECONDS,
        }  # fmt: skip

    def _open(self, folder):
        for path in [folder, folder / "store", *(folder / "store").glob("*")]:
            path.chmod(0o755)


def stored(store):
    """Return the digests of files in a store by kind and key, as its manifests have them, and labels."""
    files, labels = {}, {}
    for path in sorted(store.glob("*/*/manifest.json")):
        kind, key = path.parts[-3:-1]
        if kind not in FILES:
            continue
        found = json.loads(path.read_text())
        names = FILES[kind] or found["files"]
        files[kind, key] = {name: str(found["files"][name]) for name in names if name in found["files"]}
        labels[kind, key] = found["label"]
    return files, labels


def problems(clean, found, again, failing=True):
    """Yield what is wrong with the clean cells after a deed, in its run and in a clean one on its store.

    With `failing`, a clean cell without a number is a problem in the run, too; it always is one afterwards.
    """
    for name, run in (("in the run", found), ("again", again)):
        numbers = run.clean
        for cell, number in clean.clean.items():
            other = numbers.get(cell, "there is no such cell")
            if isinstance(other, str):
                if name == "again" or failing:
                    yield f"{name}, {' x '.join(cell)} failed: {other}"
            elif other != number:
                yield f"{name}, {' x '.join(cell)} is wrong: {other['value']}, not {number['value']}"
        for entry, files in clean.stored.items():
            other = run.stored.get(entry, files)
            wrong = [file for file in files if other.get(file) != files[file]]
            if wrong:
                yield f"{name}, stored for {entry[0]} of {clean.labels[entry]}: another {', '.join(wrong)}"


def own_problems(case, found, number=0):
    """Yield what is wrong with what became of the deed's own cells."""
    name = f"deed{number}"
    own = [*found.own(case.part, name)]
    if case.own == "either" or not found.cells:
        return
    if not own:
        yield "it has no cells"
    if all(done for done, _ in own) or (case.moment != "import" and any(done for done, _ in own)):
        yield "its own cells have results"  # what an import did is undone, and it is not done again
    reasons = [reason.partition(": ")[2] for _, reason in own if reason]
    if case.own == "fails" and not any(word in reason for word in case.names for reason in reasons):
        yield f"no reason has {' or '.join(case.names)}: {sorted(set(reasons))}"


def alarms(case, found, number=0):
    """Yield what was said of a harmless deed, and what became of its own cells."""
    own = [*found.own(case.part, f"deed{number}")]
    if not own or not all(done for done, _ in own):
        yield f"its own cells have no results: {own}"
    warnings = (line for line in found.log.splitlines() if line.startswith("warning: "))
    known = (
        ": it read ",
        ": unobserved: ",
        " are shared with ",
        " are repeated",
        "no heartbeat ",
    )  # on a busy machine
    yield from (line for line in warnings if not any(text in line for text in known))
