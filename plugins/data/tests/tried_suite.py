"""A suite of two test sets with its files: what is planned of it, and what comes out when all is computed."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from random import Random

from ruamel.yaml import YAML

import bench_core
from bench_core.execution.progress import ProgressDisplay
from bench_core.planning.plan import plan
from bench_core.suites.load import load

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "saw", "under", "red")
SPLITS = {"train": 40, "valid": 8, "old": 7, "new": 6}


def records(split):
    """Return records of a split, with all that a data task can be told of them."""
    random = Random(split)

    def text():
        return " ".join(random.choices(WORDS, k=random.randint(2, 5)))

    return [
        {
            "q": text(), "a": text(), "other": text(), "more": [text()], "id": f"{split}-{number}", "by": f"n{number}",
            "doc": f"d{number // 2}", "story": f"s{number // 3}", "weight": 1 + number % 2, "kind": "xy"[number % 2],
        }
        for number in range(SPLITS[split])
    ]  # fmt: skip


def suite_of(kind):
    """Return a suite of two test sets with a model that is cheap to train."""
    model = (
        {"name": "rnn-seq2seq", "hidden": 8, "layers": 1}
        if kind == "text-to-text"
        else {"name": "ngram-lm", "order": 2}
    )
    given = {"source": "q"} if kind == "text-to-text" else {"prompt": "q"}
    return {
        "suite": "tests/dependence",
        "tasks": {
            "own": {
                "name": kind,
                "data": {
                    "train": {"files": "train.jsonl"},
                    "valid": {"files": "valid.jsonl"},
                    "tests": {"old": {"files": "old.jsonl"}, "new": {"files": "new.jsonl"}},
                },
                "fields": {**given, "target": "a", "references": ["a", "more"], "id": "id", "group": "doc"},
            }
        },
        "models": {"model": model},
        "decoders": {"drawn": {"name": "ancestral"}},
        "metrics": {"chrf": {"name": "chrf"}, "nats": {"name": "perplexity"}},
        "training": {"updates": 2, "batch_size": 8, "select": {"metric": "loss"}},
        "splits": ["old", "new"],
        "hardware": {"device": "cpu", "threads": 1},
        "limits": {"max_tokens": 6},
    }


class Tried:
    """A suite with its files: what is planned, and what comes out when all is computed from nothing."""

    def __init__(self, folder, kind):
        self.folder, self.suite = folder, suite_of(kind)
        self.records = {split: records(split) for split in SPLITS}
        self.texts = {}  # of further files, by name

    @property
    def task(self):
        return self.suite["tasks"]["own"]

    def written(self):
        self.folder.mkdir(exist_ok=True)
        for split, rows in self.records.items():
            (self.folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        for name, text in self.texts.items():
            (self.folder / name).write_text(text)
        with (self.folder / "suite.yaml").open("w") as file:
            YAML(typ="safe").dump(self.suite, file)
        return self.folder / "suite.yaml"

    def found(self):
        """Return the keys that are planned and the digests of results, both by kind and label."""
        return found(self.written().parent)


def found(folder):
    """Return the keys that are planned of `suite.yaml` in a folder and the digests of results, by kind and label."""
    stages = plan(load(folder / "suite.yaml"), folder).stages.values()
    run = bench_core.run(
        folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder, workers=0,
        progress=ProgressDisplay(),
    )  # fmt: skip
    assert {cell.status for cell in run.cells} == {"done"}, [cell.reason for cell in run.cells]
    keys = {(one.kind, one.label): one.key for one in stages}
    return keys, {place: digest(folder / "store" / place[0] / key) for place, key in keys.items()}


def digest(folder):
    """Return the digest of the files of an artifact, without what names the key of another."""
    found = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if path.name == "number.json":
            content = json.dumps({**json.loads(content), "sample": None}).encode()
        found.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return found.hexdigest()
