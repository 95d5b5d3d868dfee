"""Whether `bench check` finds a fault, and whether a run would have failed of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench_small.command_line import bench_here

import bench_core
from bench_faults import data_faults, other_faults, published_faults
from bench_faults.fault import FAULTS, break_
from bench_faults.place import Place
from bench_faults.server import serving
from bench_faults.working import WORKING

#: Each fault in each suite that can have it.
TRIALS = [(name, suite) for name, fault in FAULTS.items() for suite in fault.suites]
REGISTERED = (data_faults, other_faults, published_faults)


@dataclass(frozen=True)
class Checked:
    """What `bench check` said of a suite; `words`: those that a message about its fault must have."""

    place: Place
    words: list[str]
    code: int
    text: str

    @property
    def is_found(self) -> bool:
        """Whether it is an error, and the message says what is wrong."""
        return self.code != 0 and all(word in self.text for word in self.words)


@contextmanager
def broken(name: str | None, suite: str, seed: int) -> Iterator[Checked]:
    """Check a working suite with a fault in it, or without."""
    with serving() as server, TemporaryDirectory() as folder:
        place = Place(Path(folder), Random(f"{name} {suite} {seed}"), server)
        words: list[str] = []
        if name is None:
            WORKING[suite](place)
            place.write()
        else:
            words = list(break_(FAULTS[name], WORKING[suite], place))
        found = bench_here("check", place.suite, folder=place.folder)
        yield Checked(place, words, found.returncode, found.stdout + found.stderr)


def fails(place: Place) -> str:
    """Run a suite with an update of training; return why it fails, or nothing."""
    try:
        run = bench_core.run(place.suite, store=place.folder / "store", out=place.folder / "runs", workers=0)
    except bench_core.BenchError as error:
        return str(error)
    return next((cell.reason for cell in run.cells if cell.status == "failed"), "")
