"""Measure the cost of the guards of stages (observed inputs, watched code, repeated results): `python benchmarks/stages.py`.

Smoke suites, and eight decoders with weights of 1 GB, run in this process with all guards and without each of them, on
fresh stores; medians of CPU seconds of all threads. `--quick` only tests the script. Budgets: inputs 2 % and 30 ms per
stage; watched code 50 ms per stage; both together 1.1 times the stages without guards, plus 50 ms per stage.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from tabulate import tabulate

from bench_authors.looks.metrics import MetricLook
from bench_authors.looks.models import SecondLook
from bench_authors.looks.tasks import TaskLook
from bench_core import run
from bench_core.computing.clocks import cpu_seconds
from bench_core.execution import performing

ROOT = Path(__file__).parents[1]
SUITES = ("quickstart", "ecoc/parameters", "indigo/table-2", "rnn/characters", "ssm/table-1", "strlm/samples")
LARGE = """
suite: large
tasks:
  sentences: {{name: sequence-completion, corpus: {{name: english, sentences: 400}}, prefix: 2}}
models:
  lstm: {{name: rnn-lm, hidden: {hidden}, layers: 2}}
training: {{updates: 0}}
decoders:
  greedy: {{name: greedy}}
  ancestral: {{name: ancestral}}
  second: {{name: top-k, k: 2}}
  top-k: {{name: top-k, k: 5}}
  nucleus: {{name: nucleus, mass: 0.9}}
  narrow: {{name: nucleus, mass: 0.3}}
  beam-2: {{name: beam, width: 2}}
  beam-4: {{name: beam, width: 4}}
metrics:
  ended: {{name: non-termination}}
limits: {{examples: 16, max_tokens: 12}}
hardware: {{threads: 1, device: cpu}}
"""


def unobserved() -> ExitStack:
    """Return a context in which inputs of stages are not observed."""
    return patched(
        (performing, "observe", lambda work, *args: work()),
        (performing, "_remembering", lambda *args: nullcontext({})),
        (performing, "_all_inputs", lambda *args, **options: {}),
    )


def unwatched() -> ExitStack:
    """Return a context in which replaced code and changed settings are not detected."""
    return patched((performing, "_watch", lambda *args: nullcontext()))


def unrepeated() -> ExitStack:
    """Return a context in which rows, predictions and tasks are not computed again for comparison."""
    nothing: Callable[..., None] = lambda *args: None  # noqa: E731
    looks = {
        SecondLook: ("at_outputs", "at_scores"), MetricLook: ("at_predictions",), TaskLook: ("prepared_again", "at_examples"),
    }  # fmt: skip
    return patched(*((owner, name, nothing) for owner, names in looks.items() for name in names))


def unguarded() -> ExitStack:
    """Return a context without any guards of stages."""
    stack = ExitStack()
    for way in (unobserved, unwatched, unrepeated):
        stack.enter_context(way())
    return stack


def patched(*patches: tuple[Any, str, Any]) -> ExitStack:
    """Return a context in which attributes are replaced; raise AttributeError if an attribute does not exist."""
    stack = ExitStack()
    for owner, name, value in patches:
        stack.enter_context(patch.object(owner, name, value))
    return stack


WAYS: Mapping[str, Callable[[], ExitStack]] = {
    "all": ExitStack, "inputs": unobserved, "code": unwatched, "looks": unrepeated, "none": unguarded,
}  # fmt: skip


def measure(path: Path, profile: str | None, repeats: int) -> tuple[int, dict[str, float]]:
    """Return a suite's number of stages, and median CPU seconds with all guards, without each, and without any."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    stages = 0
    run_once(path, profile)  # imports everything and digests its code
    for _ in range(repeats):
        for name, way in WAYS.items():
            with way():
                stages, spent = run_once(path, profile)
            seconds[name].append(spent)
    return stages, {name: median(each) for name, each in seconds.items()}


def run_once(path: Path, profile: str | None) -> tuple[int, float]:
    """Run a suite on a fresh store; return the number of its stages and CPU seconds."""
    with TemporaryDirectory() as folder:
        gc.collect()
        start = cpu_seconds()
        result = run(path, profile, store=Path(folder, "store"), out=Path(folder, "runs"))
        spent = cpu_seconds() - start
        assert all(cell.status == "done" for cell in result.cells), path
        return sum(1 for _ in result.artifacts()), spent


def row(name: str, stages: int, seconds: Mapping[str, float]) -> list[object]:
    """Return the table row of a suite."""
    whole, bare = seconds["all"], seconds["none"]
    each = {way: 1000 * (whole - seconds[way]) / stages for way in ("inputs", "code", "looks")}
    allowed = 1.1 * bare + 0.05 * stages
    inputs = each["inputs"] <= 30 and whole - seconds["inputs"] <= max(0.02 * whole, 0.001 * stages)
    met = inputs and each["code"] <= 50 and seconds["looks"] <= allowed
    return [
        name,
        stages,
        bare,
        whole,
        *each.values(),
        100 * (whole / seconds["inputs"] - 1),
        whole / bare,
        "yes" if met else "no",
    ]


@contextmanager
def large(hidden: int) -> Iterator[Path]:
    """Yield the path of a suite with eight decoders and one untrained model."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "suite.yaml")
        path.write_text(LARGE.format(hidden=hidden), encoding="utf-8")
        yield path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run the quickstart and small weights once")
    parser.add_argument("--suites", nargs="*", default=SUITES, help="suites below suites/, without .yaml")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names, repeats = (options.suites[:1], 1) if options.quick else (options.suites, 5)
    rows = [row(name, *measure(ROOT / "suites" / f"{name}.yaml", "smoke", repeats)) for name in names]
    hidden = 64 if options.quick else 4096
    with large(hidden) as path:
        rows.append(row(f"8 decoders, LSTM of 2 x {hidden}", *measure(path, None, 1 if options.quick else 3)))
    heads = [
        "suite", "stages", "s, no guards", "s, guards", "inputs, ms/stage", "code, ms/stage",
        "repetition, ms/stage", "inputs, %", "ratio", "met",
    ]  # fmt: skip
    print("## Guards of stages (`stages.py`)\n")
    print(tabulate(rows, heads, "pipe", floatfmt=("", "", ".2f", ".2f", ".1f", ".1f", ".1f", ".1f", ".2f", "")))


if __name__ == "__main__":
    main()
