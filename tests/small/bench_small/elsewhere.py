"""The small plugin in other processes, and what two runs of a suite must have in common."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import psutil
import pytest

import bench_small.plugin
from bench_core import Event, Observer, ObserverConfig, TrainingEvent, TrainingName, registry
from bench_core.runs.results import Run
from bench_reports.render.report import write_report
from bench_small.suites import SUITE
from bench_upkeep.garbage import CHECKPOINT

ONE_OF_EACH = SUITE.replace("  two: {name: bigram, scale: 2.0}\n", "").replace("  draw: {name: draw}\n", "").replace(
    "seeds: 2", "seeds: 1"
)  # fmt: skip


@contextmanager
def everywhere(folder: Path) -> Iterator[None]:
    """Install the small plugin here, and for all processes that are started meanwhile."""
    with in_others(folder, bench_small.plugin), registry.extra(bench_small.plugin):
        yield


@contextmanager
def in_others(folder: Path, *plugins: ModuleType) -> Iterator[None]:
    """Install plugins for all processes that are started meanwhile."""
    about = folder / "bench_small-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: bench_small\nVersion: 0\nRequires-Dist: bench-core\n"
    )
    entries = (f"{one.__name__.replace('.', '-')} = {one.__name__}\n" for one in plugins)
    (about / "entry_points.txt").write_text(f"[bench]\n{''.join(entries)}")
    path = os.pathsep.join([str(folder), str(Path(__file__).parent.parent)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        yield


def listened(run: Callable[[list[ObserverConfig]], object]) -> dict[TrainingName, list[Event]]:
    """Return what an observer of a run hears of each training, in order."""
    heard: dict[TrainingName, list[Event]] = {}

    class Listener(Observer):
        def __init__(self, config: ObserverConfig) -> None: ...

        def hear(self, event: Event) -> None:
            if isinstance(event, TrainingEvent):
                heard.setdefault(event.training, []).append(event)

    class ListenerConfig(ObserverConfig):
        name, target = "listener", "nowhere:Listener"

        @classmethod
        def load(cls) -> type[Listener]:
            return Listener

    run([ListenerConfig()])
    return heard


def report(folder: Path, run) -> dict[str, bytes]:
    """Return what a run reports, less what it cost."""
    assert [cell.reason for cell in run.cells if cell.status != "done"] == []
    write_report(run, folder)
    return {name: (folder / name).read_bytes() for name in ("report.md", "report.tex", "results.json")}


#: A training of two processes that takes some seconds.
OF_TWO = ONE_OF_EACH.replace("device: cpu}", "device: cpu, devices: 2}").replace("epochs: 3", "epochs: 60")


def die_and_go_on(run: Callable[[Path], Run], folder: Path, kill: Callable[[], None]) -> None:
    """Run a suite undisturbed, and killed once there is a checkpoint and then again: both end alike, bit by bit."""
    from threading import Thread

    undisturbed, place = folder / "undisturbed", folder / "killed"
    run(undisturbed)

    def wait_and_kill() -> None:
        deadline = time.monotonic() + 300
        while not any((place / "store" / CHECKPOINT).glob("*/manifest.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        kill()

    killer = Thread(target=wait_and_kill)
    killer.start()
    (cell,) = run(place).cells
    killer.join()
    assert cell.status == "failed", "nothing was killed"
    deadline = time.monotonic() + 300
    while list_peers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list_peers() == [], "the other process outlives the first"
    (cell,) = run(place).cells
    assert cell.reason == ""
    files = [next((one / "store" / "train").iterdir()) for one in (undisturbed, place)]
    for name in ("weights.safetensors", "history.jsonl"):
        assert (files[0] / name).read_bytes() == (files[1] / name).read_bytes(), name


def list_peers() -> list[psutil.Process]:
    """Return the processes that share a training of this test with another; other tests may have some too."""
    found = [
        one for one in psutil.process_iter(["cmdline", "environ"]) if one.info["cmdline"] and one.info["environ"]
    ]
    of_us = [one for one in found if one.info["environ"].get("PYTHONPATH") == os.environ["PYTHONPATH"]]
    return [one for one in of_us if "bench_training.peer_process" in one.info["cmdline"]]
