"""Damage done on purpose, in a scratch folder, and whether it is caught."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from bench_core.errors import BenchError
from bench_small.scratch import SUITE_NAME, Missed, Place, Scratch, wait_for
from bench_upkeep.garbage import damages

LARGEST = 2**18  # bytes of a file where space is short: less than the weights, more than all else
OVERLAP = 1.0  # seconds in which a second training would begin if nothing kept it from that

Drill: TypeAlias = Callable[[Scratch], str]


class Skipped(Exception):
    """A drill that cannot be held on this system."""


@dataclass(frozen=True)
class Finding:
    """What came of a drill."""

    what: str
    state: Literal["caught", "missed", "skipped"]
    found: str
    seconds: float


def drills() -> Iterator[Finding]:
    """Hold one drill after the other in a folder that is removed at the end; yield what came of each."""
    with TemporaryDirectory(prefix="bench-drill-", ignore_cleanup_errors=True) as folder:
        scratch = Scratch(Path(folder))
        yield (first := held("undisturbed run", undisturbed, scratch))
        if first.state == "missed":
            return  # nothing to compare with
        for what, drill in DRILLS.items():
            yield held(what, drill, scratch)


def held(what: str, drill: Drill, scratch: Scratch) -> Finding:
    """Hold a drill."""
    begun = time.perf_counter()
    try:
        state, found = "caught", drill(scratch)
    except Skipped as reason:
        state, found = "skipped", str(reason)
    except Exception as error:  # whatever it is, what should have been seen was not
        known = isinstance(error, (Missed, BenchError))
        state, found = "missed", str(error) if known else f"{type(error).__name__}: {error}"
    return Finding(what, state, found, round(time.perf_counter() - begun, 1))  # type: ignore[arg-type]


def undisturbed(scratch: Scratch) -> str:
    """Run the suite, for all else to be compared with."""
    return f"all {len(scratch.undisturbed.last_run.cells)} cells are done"


def flipped_byte(scratch: Scratch) -> str:
    """Change a bit of a stored number, and one of the weights from which it is made again."""
    place = scratch.copied("flipped")
    cell = next(one for one in scratch.undisturbed.last_run.cells if one.cell["model"] == "helped")
    number = place.store.path("measure", cell.artifacts["measure/match"]) / "number.json"
    weights = place.store.path("train", cell.artifacts["train"]) / "weights.safetensors"
    _flip(number, number.read_bytes().index(b'"value": ') + len(b'"value": '))
    _flip(weights, -1)
    predictions = place.store.path("decode", cell.artifacts["decode"])
    predictions.rename(place.folder / "predictions")  # so that the weights must be read
    place.run().expect(0, str(number), str(weights))
    scratch.compare(place)
    _check_whole(place)
    return "reported and repaired, results identical"


def killed_worker(scratch: Scratch) -> str:
    """Kill a worker in the middle of a training that writes checkpoints."""
    place = scratch.place("killed")
    checkpoints = place.root / "checkpoint"
    with place.started("run", place.suite, "--checkpoint-every", "0s") as process:
        wait_for(lambda: process.poll() is not None or any(checkpoints.glob("*/manifest.json")))
        _kill_workers(process.pid)
        place.ended(process).expect(1, "the worker process")
    states = sorted({cell.status for cell in place.last_run.cells})
    report = place.folder / "reports" / f"{SUITE_NAME}-failed" / "report.md"
    if states != ["done", "failed"] or "failed" not in report.read_text(encoding="utf-8"):
        raise Missed(f"its cells alone should be told as failed; there are cells {' and '.join(states)}")
    place.run().expect(0)
    scratch.compare(place)
    _check_whole(place)
    return "its cells failed and no others; run again, results identical"


def edited_helper(scratch: Scratch) -> str:
    """Edit a comment, then a line of code, in the helper of a plugin."""
    place, known = scratch.copied("edited"), "code of bench_drill_helped.helper:scale changed"
    before = _labels(place)
    affected = {key for key, label in before.items() if " x helped" in label}
    with _edited(scratch.helper, "as said", "as it was"):
        _expect_to_do(place, 0, "a changed comment")
    with _edited(scratch.helper, "return 1.0", "return 0.5"):
        _expect_to_do(place, len(affected), "a changed line")
        runs = scratch.undisturbed.folder / "runs"
        asked = place.bench("why", place.suite, "--json", "--runs", runs)
        answers = json.loads(asked.expect(0).text)["answers"]
        causes = [answer for answer in answers if answer["cause"]]
        if not causes or any(known != one["text"] for answer in causes for one in answer["differences"]):
            raise Missed(f"`bench why` does not name the cause, {known!r}")
        place.run().expect(0)
        made = {label for key, label in _labels(place).items() if key not in before}
    if made != {before[key] for key in affected}:
        raise Missed(f"made again were: {', '.join(sorted(made)) or 'none'}")
    _expect_to_do(place, 0, "the line as it was")
    return (
        f"its {len(affected)} stages were made again and no others; `bench why` names it; a comment changes nothing"
    )


def full_disk(scratch: Scratch) -> str:
    """Run where no file may be as large as the weights."""
    try:
        import resource
    except ImportError:
        raise Skipped("this system has no limit of the size of files") from None
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    place = scratch.place("full")
    short = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({LARGEST}, {largest}))"
    place.run(before=short).expect(1, "the store cannot be written")
    if any((place.root / "unfinished").iterdir()):
        raise Missed("something half-written was left behind")
    _check_whole(place)
    place.run().expect(0)
    scratch.compare(place)
    return (
        "told in a line, nothing half-written; with room again, results identical (by a limit of the size of files)"
    )


def two_runs(scratch: Scratch) -> str:
    """Start a run while another is at the same training."""
    one = scratch.place("one")
    other = scratch.place("other", one.root)
    scratch.trainings.unlink(missing_ok=True)
    scratch.hold.touch()
    try:
        with one.started("run", one.suite) as first:
            wait_for(lambda: first.poll() is not None or _trainings(scratch) > 0)
            with other.started("run", other.suite) as second:
                wait_for(lambda: second.poll() is not None or "train words x helped" in other.said)
                wait_for(lambda: _trainings(scratch) > 1, OVERLAP)
                scratch.hold.unlink()
                other.ended(second).expect(0)
            one.ended(first).expect(0)
    finally:
        scratch.hold.unlink(missing_ok=True)
    if _trainings(scratch) != 1:
        raise Missed(f"a training was done {_trainings(scratch)} times")
    scratch.compare(one)
    scratch.compare(other)
    _check_whole(one)
    return "one waited for the other, each training done once, results identical"


DRILLS: Mapping[str, Drill] = {
    "flipped byte": flipped_byte,
    "killed worker": killed_worker,
    "edited helper": edited_helper,
    "full disk": full_disk,
    "two runs at once": two_runs,
}


def _flip(path: Path, place: int) -> None:
    """Change the lowest bit of a byte: a digit stays one."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _kill_workers(run: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(run).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _check_whole(place: Place) -> None:
    """Raise Missed if anything in a store is damaged."""
    for _, wrong, _ in damages(place.store):
        for problem in wrong:
            raise Missed(str(problem))


def _labels(place: Place) -> dict[str, str]:
    """Return kind and label of all that is stored, by key."""
    store = place.store
    return {key: f"{kind} {store.get(kind, key).manifest['label']}" for kind, key in store.entries()}


@contextmanager
def _edited(path: Path, old: str, new: str) -> Iterator[None]:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def _expect_to_do(place: Place, number: int, why: str) -> None:
    planned = json.loads(place.bench("plan", place.suite, "--json").expect(0).text)
    left = sum(row["to do"] for row in planned["stages"])
    if left != number:
        raise Missed(f"{why} would have {left} stages made again, not {number}")


def _trainings(scratch: Scratch) -> int:
    """Return how many trainings with the helper have begun."""
    return len(scratch.trainings.read_text(encoding="utf-8").splitlines()) if scratch.trainings.exists() else 0
