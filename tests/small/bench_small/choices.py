"""Runs of suites with choices."""

from __future__ import annotations

from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.grids import expand, plainly
from bench_small.runs import read_suite
from placed_settings import Located, Problems

GRID = {"rnn": {"name": "m", "grid": {"hidden": [8, 16], "tied": [True, False]}}, "base": {"name": "m"}}
RNN = [f"rnn/hidden={hidden}/tied={tied}" for hidden in (8, 16) for tied in ("true", "false")]
DECODERS = ("greedy", "beam")
BY = {"id": "best", "model": "rnn", "by": "nats"}


def cells_of(values, split, metric="nats", better=-1, decoder="greedy", task="words"):
    """Return the cells of one split; several values of a model are those of its seeds, words are reasons."""
    for model, found in values.items():
        for seed, value in enumerate(found if isinstance(found, list) else [found]):
            axes = {"task": task, "model": model, "decoder": decoder, "split": split, "hardware": "default"}
            number = Score(reason=value) if isinstance(value, str) else Score(value, examples=9, better=better)
            status = "failed" if isinstance(value, str) else "done"
            reason = value if isinstance(value, str) else ""
            yield CellResult({**axes, "seed": seed}, status, reason, {metric: number})


def run_with(
    tmp_path, cells, models=GRID, choose=BY, tables=(), published=None, tasks=("words",), decoders=DECODERS, **more
):
    """Return a run of a suite with choices, as if it had just been read."""
    data = {
        "suite": "tests/choices",
        "tasks": {task: {"name": "t"} for task in tasks},
        "models": models,
        "decoders": {name: {"name": "d"} for name in decoders},
        "metrics": {"nats": {"name": "nats"}, "rate": {"name": "rate"}},
        "splits": ["valid", "test"],
        "choose": choose if isinstance(choose, list) else [choose],
        "tables": list(tables),
        **more,
    }
    source = Located("suite.yaml", data)
    found = expand(source, Problems(source))
    suite, sections = read_suite(source.data, found)
    sections["published"] = {"p": published} if published else {}
    return Run(tmp_path / "run", plainly(suite, found), {}, list(cells), sections, grids=found)
