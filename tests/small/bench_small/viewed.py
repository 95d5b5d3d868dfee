"""Folders of runs and reports to view."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace

from bench_core.runs.manifest import write_manifest
from bench_reports.render.report import write_report
from bench_small.runs import cell, number, run_of, stored

FIRST, SECOND = "words-20261101-120000", "words-20261102-130000"


def put(root, name, run, report=None):
    """Write a run into a folder, with a manifest, and its report into another; return the run as it is read."""
    folder = root / "runs" / name
    folder.mkdir(parents=True)
    found = stored(replace(run, folder=folder))
    write_manifest(folder, "run", name)
    if report:
        write_report(found, root / "reports" / report)
    return found


def history(folder, key, values):
    """Write the history of a training, one evaluation for each value."""
    (folder / "history").mkdir(exist_ok=True)
    lines = [json.dumps({"step": 10 * step, "epoch": 0, "loss": value}) for step, value in enumerate(values, 1)]
    (folder / "history" / f"words-{key[:12]}.jsonl").write_text("\n".join(lines))


def output(model, decoder, text, number=7, **more):
    axes = {"task": "words", "model": model, "decoder": decoder, "split": "test", "hardware": "default", "seed": 0}
    fixed = {"prompt": "the", "reference": "cat sat here", "finished": True, "tokens": 3}
    return {"cell": axes, "id": number, "text": text, **fixed, **more}


def two_runs(root):
    """Write a folder with two runs of three models, the first with three seeds and a report; return the runs."""
    seeds = {"rnn": [1.0, 2.0, 3.0], "lstm": [4.0, 4.5, None], "gru": [7.0, 7.0, 7.0]}
    cells = []
    for model, values in seeds.items():
        for seed, value in enumerate(values):
            about = {"signature": "a|b", "sample": "s1"}
            if value is None:
                cells.append(cell(model, "greedy", seed, status="failed", reason="out of memory"))
                continue
            kind = "bound" if model == "gru" else "exact"
            numbers = {"rate": number(value, **about), "nats": number(10 * value, kind=kind, **about)}
            one = cell(model, "greedy", seed, numbers)
            cells.append(replace(one, artifacts={"train": f"{model[0]}{seed}" * 20, "decode": "0" * 8}))
    samples = [
        output("rnn", "greedy", "dog sat here"), output("lstm", "greedy", "cat sat"),
        output("rnn", "greedy", "one more", 8),
    ]  # fmt: skip
    names = ("rnn", "lstm", "gru")
    first = run_of(root, cells, {}, names=names, title="Words <first>", profile="small", samples=samples)
    found = [put(root, FIRST, first, "words")]
    history(found[0].folder, "r0" * 20, [3.0, 2.0, 1.0])
    history(found[0].folder, "l0" * 20, [4.0, 3.0])
    other = [cell(model, "greedy", 0, {"rate": number(9.0, signature="a|c", sample="s2")}) for model in names]
    found.append(put(root, SECOND, run_of(root, other, {}, names=names, title="Words, second")))
    return found


def unpacked(page):
    """Return what the page knows at once, and the data of each run by its place."""
    (about,) = re.findall(r'<script type="application/json" id="runs-data">(.*?)</script>', page, re.DOTALL)
    blocks = re.findall(r'<script type="text/plain" id="data-(\d+)">(.*?)</script>', page)
    return json.loads(about), {int(place): json.loads(gzip.decompress(b64decode(text))) for place, text in blocks}
