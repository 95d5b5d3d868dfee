"""What the guards of stages cost: inputs observed, code watched, results computed again. `python benchmarks/stages.py`.

Smoke suites, and eight decoders on weights of 1 GB, run in this process with all guards and without each in turn, on
fresh stores; CPU seconds of all threads, medians. `--quick` is for a look. Budgets: inputs 2 % and 30 ms a stage;
watched code 50 ms a stage; both together 1.1 times the stages without guards, and 50 ms a stage.
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
from bench_core.execution import executor

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
    """Do not observe what stages read."""
    return patched(
        (executor, "observe", lambda work, *rest: work()),
        (executor, "_remembering", lambda *given: nullcontext({})),
        (executor, "_observed", lambda *given: {}),
    )


def unwatched() -> ExitStack:
    """Do not look for replaced code and changed settings."""
    return patched((executor, "_watched", lambda *given: nullcontext()))


def seen_once() -> ExitStack:
    """Do not compute rows, outcomes and tasks again."""
    nothing: Callable[..., None] = lambda *given: None  # noqa: E731
    looks = {
        SecondLook: ("at_outputs", "at_scores"), MetricLook: ("at_outcomes",), TaskLook: ("prepared_again", "at_examples"),
    }  # fmt: skip
    return patched(*((owner, name, nothing) for owner, names in looks.items() for name in names))


def unguarded() -> ExitStack:
    """Do none of these."""
    stack = ExitStack()
    for one in (unobserved, unwatched, seen_once):
        stack.enter_context(one())
    return stack


def patched(*replaced: tuple[Any, str, Any]) -> ExitStack:
    """Return a context in which attributes are others."""
    stack = ExitStack()
    for owner, name, value in replaced:
        stack.enter_context(patch.object(owner, name, value))
    return stack


WAYS: Mapping[str, Callable[[], ExitStack]] = {
    "all": ExitStack, "inputs": unobserved, "code": unwatched, "looks": seen_once, "none": unguarded,
}  # fmt: skip


def measured(path: Path, profile: str | None, repeats: int) -> tuple[int, dict[str, float]]:
    """Return the stages of a suite, and the CPU seconds of a run with all guards, without each, and without any."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    stages = 0
    once(path, profile)  # so that all is imported, and its code digested
    for _ in range(repeats):
        for name, way in WAYS.items():
            with way():
                stages, spent = once(path, profile)
            found[name].append(spent)
    return stages, {name: median(each) for name, each in found.items()}


def once(path: Path, profile: str | None) -> tuple[int, float]:
    """Run a suite on a fresh store; return its stages and CPU seconds."""
    with TemporaryDirectory() as folder:
        gc.collect()
        begun = cpu_seconds()
        found = run(path, profile, store=Path(folder, "store"), out=Path(folder, "runs"))
        spent = cpu_seconds() - begun
        assert all(cell.status == "done" for cell in found.cells), path
        return sum(1 for _ in found.artifacts()), spent


def row(name: str, stages: int, found: Mapping[str, float]) -> list[object]:
    """Return what guards cost a suite."""
    whole, bare = found["all"], found["none"]
    each = {one: 1000 * (whole - found[one]) / stages for one in ("inputs", "code", "looks")}
    allowed = 1.1 * bare + 0.05 * stages
    inputs = each["inputs"] <= 30 and whole - found["inputs"] <= max(0.02 * whole, 0.001 * stages)
    met = inputs and each["code"] <= 50 and found["looks"] <= allowed
    return [
        name,
        stages,
        bare,
        whole,
        *each.values(),
        100 * (whole / found["inputs"] - 1),
        whole / bare,
        "yes" if met else "no",
    ]


@contextmanager
def large(hidden: int) -> Iterator[Path]:
    """Yield a suite of eight decoders on one model that is not trained."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "suite.yaml")
        path.write_text(LARGE.format(hidden=hidden), encoding="utf-8")
        yield path


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--quick", action="store_true", help="the quickstart and small weights, once")
    words.add_argument("--suites", nargs="*", default=SUITES, help="below suites/")
    given = words.parse_args()
    torch.set_num_threads(1)
    names, repeats = (given.suites[:1], 1) if given.quick else (given.suites, 5)
    rows = [row(name, *measured(ROOT / "suites" / f"{name}.yaml", "smoke", repeats)) for name in names]
    hidden = 64 if given.quick else 4096
    with large(hidden) as path:
        rows.append(row(f"8 decoders, LSTM of 2 x {hidden}", *measured(path, None, 1 if given.quick else 3)))
    heads = [
        "suite", "stages", "seconds without guards", "with them", "inputs, ms a stage", "code, ms a stage",
        "looks, ms a stage", "inputs, %", "times", "met",
    ]  # fmt: skip
    print("## Guards of stages (`stages.py`)\n")
    print(tabulate(rows, heads, "pipe", floatfmt=("", "", ".2f", ".2f", ".1f", ".1f", ".1f", ".1f", ".2f", "")))


if __name__ == "__main__":
    main()
