"""Bytes of a store flipped one by one: each is reported, and what a run makes of it is what it was before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from random import Random

import bench_core
from bench_core.errors import StoreError
from bench_core.execution.progress import ProgressDisplay
from bench_core.runs.results import Run
from bench_core.storage.store import Store
from bench_reports.render.report import write_report
from bench_small.runs import with_sections
from bench_small.suites import SUITE
from bench_upkeep.garbage import damages

UNDRAWN = f"""{SUITE.strip()}
claims:
  - {{id: C, text: something, assert: "v('nats', model='one') < v('nats', model='two')"}}
"""
TEXT = f"""{UNDRAWN}
figures:
  - {{id: spread, kind: histogram, values: [ended], by: [model, decoder]}}
  - {{id: curve, kind: line, x: step, y: loss, by: [model]}}
"""
OF_THE_CLOCK = ("manifest.json", "stages.jsonl.gz", "costs.csv", "costs.html", "log")


class Heard(ProgressDisplay):
    """Keeps what a run warns of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@dataclass(frozen=True)
class Flip:
    """A bit of a stored file that is another."""

    kind: str
    key: str
    name: str  # of the file
    place: int
    bit: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.key[:12]}/{self.name}, byte {self.place}, bit {self.bit}"


class Place:
    """A suite, its store, and what its report says while nothing is flipped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, Store(folder / "store")
        folder.mkdir(exist_ok=True)
        (folder / "suite.yaml").write_text(TEXT)
        self.wanted = self.report()[0]

    def at(self, folder: Path) -> Place:
        """Return a copy of this place, which is in a folder."""
        other = copy(self)
        other.folder, other.store = folder, Store(folder / "store")
        return other

    def report(self) -> tuple[dict[str, bytes], list[str]]:
        """Run the suite; return all that it leaves but for what the clock decides, and what it warns of."""
        heard = Heard()
        run = bench_core.run(
            self.folder / "suite.yaml",
            store=self.store.root,
            out=self.folder / "runs",
            data=self.folder,
            progress=heard,
        )
        return self._left_by(run), heard.warnings

    def _left_by(self, run: Run) -> dict[str, bytes]:
        undrawn = with_sections(run, figures=[])  # which takes long
        files = write_report(undrawn, self.folder / "report")
        files += [path for path in run.folder.rglob("*") if path.is_file()]
        return {
            path.relative_to(run.folder if run.folder in path.parents else self.folder).as_posix(): path.read_bytes()
            for path in files
            if path.name not in OF_THE_CLOCK
        }

    def files(self) -> list[tuple[str, str, str, int]]:
        """Return kind, key, name and size of every stored file."""
        found = []
        for kind, key in self.store.entries():
            folder = self.store.path(kind, key)
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            found += [(kind, key, path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths]
        return found

    def every(self, random: Random) -> Iterator[Flip]:
        """Yield a flip of each byte of each file."""
        for kind, key, name, size in self.files():
            yield from (Flip(kind, key, name, place, random.randrange(8)) for place in range(size))

    def some(self, random: Random, count: int) -> Iterator[Flip]:
        """Yield so many flips, of bytes of any file that has some."""
        files = [file for file in self.files() if file[-1]]
        for _ in range(count):
            kind, key, name, size = random.choice(files)
            yield Flip(kind, key, name, random.randrange(size), random.randrange(8))

    def one_of_each(self, random: Random) -> list[Flip]:
        """Return a flip of one file of each name of each kind of artifact."""
        files = {
            (kind, name): (key, size)
            for kind, key, name, size in random.sample(self.files(), k=len(self.files()))
            if size
        }
        return [
            Flip(kind, key, name, random.randrange(size), random.randrange(8))
            for (kind, name), (key, size) in sorted(files.items())
        ]

    def flip(self, one: Flip) -> None:
        """Flip a bit in place; flipped once more, it is as it was."""
        handle = os.open(self.store.path(one.kind, one.key) / one.name, os.O_RDWR)
        try:
            byte = os.pread(handle, 1, one.place)[0] ^ 1 << one.bit
            os.pwrite(handle, bytes([byte]), one.place)
        finally:
            os.close(handle)

    def told(self, one: Flip) -> str:
        """Return what `bench store verify` says of a file while a bit of it is flipped; empty if nothing."""
        self.flip(one)
        try:
            wrong = [*self.store.get(one.kind, one.key).problems()]
        except StoreError as error:
            wrong = [error]
        finally:
            self.flip(one)
        return "; ".join(text for text in map(str, wrong) if f"{one.key}/{one.name}: " in text)

    def repaired(self, *flips: Flip) -> list[str]:
        """Flip bits, run the suite, and again after `bench store verify --repair`; return what is then wrong."""
        for one in flips:
            self.flip(one)
        found = self._differing("a run")
        aside = [place for _, _, place in damages(self.store, repair=True) if place]
        found += self._differing(f"a run after {len(aside)} more were set aside")
        return found + [f"left damaged: {problem}" for _, wrong, _ in damages(self.store) for problem in wrong]

    def _differing(self, when: str) -> list[str]:
        left, warnings = self.report()
        names = [name for name in self.wanted.keys() | left.keys() if self.wanted.get(name) != left.get(name)]
        return [f"{when} leaves another {name}{'' if warnings else ', and says nothing'}" for name in sorted(names)]
