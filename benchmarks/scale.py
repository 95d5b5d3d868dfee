"""Measure many cells, artifacts and predictions: `python benchmarks/scale.py [--quick] [--only WORD] [--in FOLDER]`.

First generates a store, a run and predictions of the given sizes. Then each task, and the simplest program that reads or
computes the same, runs in a separate process; the table has CPU seconds and peak memory, including Python and
imports. With `--in`, generated data stay in the folder and are reused.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

SUITE = """
suite: benchmarks/scale
tasks:
  words:
    {{name: sequence-completion, corpus: {{name: english, sentences: 200}}, tokenizer: {{kind: word}}, prefix: 2}}
models:
{models}
decoders:
{decoders}
metrics: {{non-termination: {{name: non-termination, limit: 1}}, length: {{name: length}}}}
training: {{updates: 1, batch_size: 4, select: {{examples: 4}}}}
seeds: {seeds}
limits: {{max_tokens: 4, examples: 4, scored: 4}}
hardware: {{device: cpu, threads: 1}}
tables:
  - {{id: main, rows: [decoder], columns: [model], values: [non-termination, length]}}
"""
MODELS, DECODERS = 20, 25


def write_suite(folder: Path, seeds: int) -> Path:
    """Write a suite of 500 cells per seed."""
    path = folder / f"suite-{seeds}.yaml"
    models = (f"  m{n}: {{name: rnn-lm, hidden: 4, layers: 1, dropout: {n / 100}}}" for n in range(MODELS))
    decoders = (f"  d{n}: {{name: greedy, max_tokens: {n + 1}}}" for n in range(DECODERS))
    text = SUITE.format(models="\n".join(models), decoders="\n".join(decoders), seeds=seeds)
    path.write_text(text, encoding="utf-8")
    return path


# generated data


def make_store(folder: Path, seeds: int) -> None:
    """Write all artifacts of a suite, 1,520 per seed."""
    from bench_core.planning.plan import plan
    from bench_core.storage.store import Store
    from bench_core.suites.load import load

    store, provenance = (
        Store(folder / "store"),
        {"torch": "2.13.0", "python": "3.11.7", "device": "cpu", "threads": 1},
    )
    for stage in plan(load(write_suite(folder, seeds)), folder).stages.values():
        about = {"ingredients": stage.ingredients, "label": stage.label, "cost": {"seconds": 0.5, "examples": 4}}
        with store.writing(stage.kind, stage.key, {**about, "provenance": provenance}, sync=False) as place:
            FILL[stage.kind](place, int(stage.key[:8], 16) / 2**32)


def _prepared(place: Path, share: float) -> None:
    info = {"vocabulary": ["</s>", "a", "b"], "counts": [3, 4, 5], "extras": {"embedded": True}}
    (place / "task_info.json").write_text(json.dumps(info), encoding="utf-8")


def _trained(place: Path, share: float) -> None:
    (place / "weights.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (place / "history.jsonl").write_text(json.dumps({"step": 1, "epoch": 1, "loss": share}) + "\n", encoding="utf-8")
    (place / "training.json").write_text(json.dumps({"parameters": 100, "updates": 1}), encoding="utf-8")


def _decoded(place: Path, share: float) -> None:
    from bench_core.storage.predictions import write_predictions

    write_predictions(place / "predictions.jsonl.gz", islice(predictions(), 4))
    sample = {"id": 0, "prompt": "a b", "text": f"a b {share}", "reference": "a", "finished": True, "tokens": 3}
    (place / "samples.json").write_text(json.dumps([{**sample, "id": n} for n in range(3)]), encoding="utf-8")


def _measured(place: Path, share: float) -> None:
    import numpy as np

    from bench_core.storage.predictions import write_lines

    number = {
        "value": share, "examples": 4, "label": "Non-termination", "unit": "%", "digits": 2, "better": -1,
        "signature": "limit:1", "sample": "0123456789abcdef", "scale": "linear", "units": 4, "block": 1, "error": 0.0,
    }  # fmt: skip
    np.save(place / "draws.npy", np.random.default_rng(int(share * 2**32)).normal(share, 0.1, (1, 1000)))
    write_lines(place / "parts.jsonl.gz", [0, 1, 0, 1])
    (place / "number.json").write_text(json.dumps(number), encoding="utf-8")


FILL: dict[str, Callable[[Path, float], None]] = {
    "prepare": _prepared, "train": _trained, "decode": _decoded, "measure": _measured,
}  # fmt: skip


def predictions() -> Iterator[Any]:
    """Yield predictions endlessly."""
    from bench_core import Hypothesis, Prediction

    number = 0
    while True:
        text = f"the words of example {number} and then some more of them"
        tokens = [(number * place) % 1000 + 1 for place in range(1, 21)]
        hypothesis = Hypothesis(tokens, number % 7 > 0, log_prob=-number / 13, actions=tokens)
        yield Prediction(number, "the words", [text], [hypothesis], [text.upper()], None, 21, 12)
        number += 1


# tasks on generated data in a folder


def plan_cells(folder: Path, seeds: int) -> None:
    from bench_core.planning.plan import plan
    from bench_core.suites.load import load

    plan(load(write_suite(folder, seeds)), folder)


def plain_keys(folder: Path, seeds: int) -> None:
    """Hash one piece of JSON per stage."""
    stage = {"settings": {"name": "rnn-lm", "hidden": 4}, "inputs": {"model": ["train", "0" * 64]}, "code": "0" * 500}
    for number in range(seeds * (MODELS + 3 * MODELS * DECODERS)):
        hashlib.sha256(json.dumps({**stage, "seed": number}, sort_keys=True).encode()).hexdigest()


def list_store(folder: Path, size: int) -> None:
    _bench("store", "ls", "--store", folder / "store")


def verify_store(folder: Path, size: int) -> None:
    _bench("store", "verify", "--store", folder / "store")


def clean_store(folder: Path, size: int) -> None:
    _bench("store", "gc", "--dry-run", "--store", folder / "store", "--keep", folder / "run")


def read_manifests(folder: Path, size: int) -> None:
    for path in (folder / "store").glob("*/*/manifest.json"):
        json.loads(path.read_bytes())


def hash_files(folder: Path, size: int) -> None:
    for path in (folder / "store").glob("*/*/*"):
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256").hexdigest()


def write_folder(folder: Path, seeds: int) -> None:
    """Write the folder of a run whose artifacts are all stored."""
    from bench_core.planning.plan import plan
    from bench_core.runs.run_writer import CellRecord
    from bench_core.storage.store import Store
    from bench_core.suites.load import load

    suite, store = load(write_suite(folder, seeds)), Store(folder / "store")
    planned = plan(suite, folder)
    measures = [stage.key for stage in planned.stages.values() if stage.kind == "measure"]
    numbers = {key: store.get("measure", key).json("number.json") for key in measures}
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    CellRecord(suite, planned, store, {}, {}, numbers, {}).write(place)


def plain_folder(folder: Path, seeds: int) -> None:
    """Plan, and read the files of the store that a run folder contains."""
    plan_cells(folder, seeds)
    for kind, name in (("measure", "number.json"), ("measure", "draws.npy"), ("decode", "samples.json")):
        for path in (folder / "store" / kind).glob("*"):
            (path / name).read_bytes()


def read_folder(folder: Path, seeds: int) -> None:
    from bench_core.runs.results import read_run

    read_run(folder / "run")


def report(folder: Path, seeds: int) -> None:
    _bench("report", folder / "run", "--out", folder / "report")


def parse_cells(folder: Path, seeds: int) -> None:
    """Parse the lines of the cells as JSON, and write them back."""
    cells = [json.loads(line) for line in (folder / "run" / "cells.jsonl").read_bytes().splitlines()]
    (folder / "cells.json").write_text(json.dumps(cells), encoding="utf-8")


def write_many(folder: Path, number: int) -> None:
    from bench_core.storage.predictions import by_id, write_predictions

    write_predictions(folder / "predictions.gz", by_id(islice(predictions(), number), folder))


def plain_write(folder: Path, number: int) -> None:
    with gzip.open(folder / "plain.gz", "wb", 6) as file:
        for prediction in islice(predictions(), number):
            line = {
                **vars(prediction),
                "hypotheses": [{**vars(h), "actions": "tokens"} for h in prediction.hypotheses],
            }
            file.write((json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n").encode())


def read_many(folder: Path, number: int) -> None:
    from bench_core.storage.predictions import read_predictions

    assert sum(1 for _ in read_predictions(folder / "predictions.gz")) == number


def plain_read(folder: Path, number: int) -> None:
    with gzip.open(folder / "predictions.gz") as file:
        assert sum(1 for line in file if json.loads(line)) == number


def export_json(folder: Path, number: int) -> None:
    _export(folder, "jsonl")


def export_csv(folder: Path, number: int) -> None:
    _export(folder, "csv")


def _export(folder: Path, form: Any) -> None:
    """Write the predictions of a run with one cell, as `bench outputs` does."""
    from bench_core.runs.results import CellResult, Run
    from bench_core.storage.store import Store
    from bench_core.suites.schema import SuiteFile
    from bench_exchange.outputs import Outputs, write_lines

    store, key = Store(folder / "given"), "0" * 64
    if not store.has("decode", key):
        with store.writing("decode", key, {}) as place:
            shutil.copyfile(folder / "predictions.gz", place / "predictions.jsonl.gz")
    suite = SuiteFile.model_validate({"suite": "given", "tasks": {"words": {"name": "words"}}, "quote": True})
    axes = {"task": "words", "model": "m", "decoder": "d", "split": "test", "hardware": "default", "seed": 0}
    run = Run(folder, suite, {}, [CellResult(axes, "done", artifacts={"decode": key})])
    out = folder / f"given.{form}"
    out.unlink(missing_ok=True)
    write_lines(Outputs(run, store).lines(form), out)


def plain_export(folder: Path, number: int) -> None:
    with gzip.open(folder / "predictions.gz") as file, (folder / "plain.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(json.loads(line)) + "\n" for line in file)


def measure_many(folder: Path, number: int) -> None:
    """Compute a metric of all predictions with 1,000 bootstrap samples, as the stage does."""
    from bench_core import TaskInfo
    from bench_core.computing.bootstrap import draws
    from bench_core.computing.result_checks import measured
    from bench_core.storage.predictions import read_predictions, write_lines
    from bench_metrics.length import Length
    from bench_metrics.plugin import LengthConfig

    metric, parts, _ = measured(
        Length(LengthConfig()), TaskInfo(["</s>"]), read_predictions(folder / "predictions.gz")
    )
    draws(metric, parts)
    write_lines(folder / "parts.gz", parts)


def plain_measure(folder: Path, number: int) -> None:
    """Read all lengths and sum 1,000 bootstrap samples of them."""
    import numpy as np

    with gzip.open(folder / "predictions.gz") as file:
        lengths = np.array([len(json.loads(line)["hypotheses"][0]["tokens"]) for line in file], np.float64)
    generator = np.random.default_rng(0)
    for _ in range(1_000):
        lengths[generator.integers(0, number, number)].sum()


def _bench(*words: object) -> None:
    from bench_core.commands.main import main

    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until exit)
    sys.argv = ["bench", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


#: title, our function, the plain function, kind of size, budgets in seconds and MB
WORK: list[tuple[str, Callable[[Path, int], None], Callable[[Path, int], None], str, tuple[Any, Any]]] = [
    ("plan of {:,} cells", plan_cells, plain_keys, "few", (2, "")),
    ("plan of {:,} cells", plan_cells, plain_keys, "many", (20, 400)),
    ("`store ls` of {:,} artifacts", list_store, read_manifests, "artifacts", ("", "")),
    ("`store verify` of {:,} artifacts", verify_store, hash_files, "artifacts", ("", "")),
    ("run folder of {:,} cells", write_folder, plain_folder, "few", ("", "")),
    ("reading the run folder", read_folder, parse_cells, "few", ("", "")),
    ("report of {:,} cells", report, parse_cells, "few", (3, 250)),
    ("`store gc` of {:,} artifacts", clean_store, read_manifests, "artifacts", ("", "")),
    ("{:,} predictions written", write_many, plain_write, "predictions", ("", "")),
    ("{:,} predictions read", read_many, plain_read, "predictions", ("", "")),
    ("{:,} predictions exported as JSON", export_json, plain_export, "predictions", ("", "")),
    ("{:,} predictions exported as CSV", export_csv, plain_export, "predictions", ("", "")),
    ("{:,} predictions measured", measure_many, plain_measure, "predictions", ("", "")),
]


def cost(work: Callable[[Path, int], None], folder: Path, size: int) -> tuple[float, float]:
    """Return CPU seconds and peak MB of a process that runs `work`."""
    command = [sys.executable, __file__, "--do", work.__name__, "--size", str(size), "--in", str(folder)]
    process = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    seconds, memory = map(float, process.stdout.split())
    return seconds, memory


def do(name: str, folder: Path, size: int) -> None:
    """Run a function in this process, and print its CPU seconds and peak MB."""
    stdout, start = sys.stdout, time.process_time()
    globals()[name](folder, size)
    spent = time.process_time() - start
    print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, file=stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use small sizes, to test the script")
    parser.add_argument("--only", default="", help="run only tasks whose title contains this word")
    parser.add_argument("--in", type=Path, dest="folder", help="folder of generated data, which is kept")
    parser.add_argument("--do", help="internal: run one function")
    parser.add_argument("--size", type=int, default=0)
    options = parser.parse_args()
    if options.do:
        do(options.do, options.folder, options.size)
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-scale-"))
    try:
        print(table(folder, options.quick, options.only))
    finally:
        if not options.folder:
            shutil.rmtree(folder)


def table(folder: Path, quick: bool, only: str) -> str:
    """Return a Markdown table of all costs."""
    from tabulate import tabulate

    folder.mkdir(parents=True, exist_ok=True)
    seeds, few, many, number = (1, 1, 2, 2_000) if quick else (33, 20, 200, 1_000_000)
    if not (folder / "store").exists():
        cost(make_store, folder, seeds)  # in a separate process, whose peak memory later processes do not inherit
    artifacts = sum(1 for _ in (folder / "store").glob("*/*/manifest.json"))
    cells = MODELS * DECODERS
    sizes = {"few": few, "many": many, "artifacts": artifacts, "predictions": number}
    rows = []
    for what, ours, plain, kind, (seconds, memory) in WORK:
        size = sizes[kind]
        name = what.format(size * cells if kind in ("few", "many") else size)
        if only in name:
            rows.append([name, *cost(ours, folder, size), seconds, memory, *cost(plain, folder, size)])
    headings = ["what", "seconds", "MB", "budget, s", "budget, MB", "plain, s", "plain, MB"]
    return tabulate(rows, headings, "pipe", floatfmt=("", ".2f", ".0f", "", "", ".2f", ".0f"))


if __name__ == "__main__":
    main()
