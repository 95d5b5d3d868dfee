"""Compare predictions of `bench plan --calibrate` with the actual costs of ten small training runs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from bench_core.execution.workers import Workers
from bench_core.planning.plan import plan
from bench_core.planning.stages import StageRequest
from bench_core.storage.costs import Costs
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_upkeep.calibrating import PHASE_SECONDS, Calibrating
from bench_upkeep.cost_estimates import CostEstimates

FACTOR = 1.5  #: budget: maximum factor between predicted and measured CPU time

SENTENCES = "{name: sequence-completion, corpus: {name: english, sentences: 3000}, prefix: 3}"
STREAM = "{name: language-modeling, corpus: {name: english, sentences: 3000}}"
REVERSED = "{name: translation, shared: true}"
WORDS = "{name: word-generation, corpus: {name: english, sentences: 5000}, min_count: 2, epoch: 2000, samples: 200}"
SMALL = "d_model: 64, heads: 4, layers: 2, feed_forward: 128"
STATES = "samples: 2, trajectories: 500, information_draws: 5, reader: 16, posterior: 16"

#: name -> task, model and settings of the training run
TRAININGS = {
    "LSTM": (SENTENCES, "{name: rnn-lm, hidden: 128}", "epochs: 6"),
    "RNN (tanh)": (SENTENCES, "{name: rnn-lm, cell: tanh, hidden: 128}", "epochs: 10"),
    "self-terminating LSTM": (SENTENCES, "{name: self-terminating-rnn-lm, hidden: 128}", "epochs: 5"),
    "LSTM on a stream": (STREAM, "{name: rnn-lm, hidden: 128}", "epochs: 10"),
    "error-correcting codes": (STREAM, "{name: ecoc-lm, hidden: 64, bits: 60}", "epochs: 6"),
    "sampled softmax": (STREAM, "{name: softmax-lm, hidden: 64}", "epochs: 6"),
    "encoder-decoder": (REVERSED, "{name: rnn-seq2seq, hidden: 64, embedding: 64}", "updates: 200, evaluate_every: 50"),
    "Transformer": (REVERSED, f"{{name: transformer, {SMALL}}}", "updates: 200, evaluate_every: 100"),
    "insertion in any order": (
        REVERSED, f"{{name: indigo, order: searched, beam: 4, {SMALL}}}",
        "phases: [{updates: 100, order: l2r}, {updates: 40, order: searched}]",
    ),
    "deep state space model": (WORDS, f"{{name: deep-ssm, {STATES}}}", "updates: 150, evaluate_every: 50"),
}  # fmt: skip


def suite_of(name: str, folder: Path) -> Path:
    """Write a suite with one training run; return its path."""
    task, model, training = TRAININGS[name]
    path = folder / f"{name.split()[0]}.yaml"
    path.write_text(
        f"suite: predictions\ntasks: {{task: {task}}}\nmodels: {{model: {model}}}\nmetrics: {{nats: {{name: perplexity}}}}\n"
        f"training: {{batch_size: 32, {training}}}\nhardware: {{device: cpu, threads: 1}}\ntables: []\n",
        encoding="utf-8",
    )
    return path


def measure(name: str, folder: Path, seconds: float) -> dict[str, object]:
    """Calibrate a training run, then perform it; return a table row."""
    store, suite = Store(folder / "store"), load(suite_of(name, folder))
    graph = plan(suite, folder)
    (stage,) = [stage for stage in graph.stages.values() if stage.kind == "train"]
    with Workers(1, store.root, folder) as executor:
        work = Calibrating(suite, graph, store, executor, CostEstimates(graph.stages, Costs(store)), seconds=seconds)
        work.run([stage])
        if stage.key in work.failures:
            raise SystemExit(f"{name}: {work.failures[stage.key]}")
        executor.submit(StageRequest(stage), lambda *_: None).result()
    predicted, cost = work.estimates.of(stage), store.get("train", stage.key).manifest["cost"]
    assert predicted.seconds is not None
    assert predicted.cpu_seconds is not None
    ratio = predicted.cpu_seconds / cost["cpu_seconds"]
    return {
        "training": name, "updates": cost["updates"], "predicted, CPU s": predicted.cpu_seconds,
        "measured, CPU s": cost["cpu_seconds"], "ratio": ratio,
        f"within {FACTOR}": "yes" if 1 / FACTOR <= ratio <= FACTOR else "no",
        "ratio of wall time": predicted.seconds / cost["seconds"],
    }  # fmt: skip


def rows(quick: bool) -> Iterator[dict[str, object]]:
    """Yield a table row per training run, each with its own store."""
    names = ["LSTM on a stream"] if quick else [*TRAININGS]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            yield measure(name, Path(folder), 0.2 if quick else PHASE_SECONDS)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="only one training run, to test the script")
    print("## Predictions (`predictions.py`): `bench plan --calibrate` and actual costs\n")
    print(tabulate(rows(parser.parse_args().quick), headers="keys", tablefmt="pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
