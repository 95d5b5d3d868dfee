"""The README, and the pages that it grew into, do what they say."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import bench_notebook
from bench_core.storage.store import Store

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = README + "".join((ROOT / "docs" / name).read_text() for name in ("running.md", "bring-your-own.md"))
BENCH = Path(sys.executable).parent / "bench"

PLUGIN = {
    "pyproject.toml": "[project.entry-points.bench]",
    "bench_mine/__init__.py": "class StackedLSTMConfig",
    "bench_mine/model.py": "class StackedLSTM(LanguageModel)",
}


def block(start):
    """Return the first block of code that has `start` in it."""
    return next(text for text in re.findall(r"```\w+\n(.*?)```", PAGES, re.DOTALL) if start in text)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the plugin and the suite of these pages, and install the plugin as pip does."""
    folder = tmp_path_factory.mktemp("readme")
    package = folder / "bench-mine" / "bench_mine"
    package.mkdir(parents=True)
    for path, start in PLUGIN.items():
        (package.parent / path).write_text(block(start))
    (package / "test_mine.py").write_text(block("check_model"))
    (folder / "suite.yaml").write_text(block("suite: do-lstms-stop"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder / "site", folder / "bench-mine"], check=True)
    return folder


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_plugin_of_the_readme_has_at_most_45_lines():
    lines = [line for start in PLUGIN.values() for line in block(start).splitlines() if line.strip()]
    assert len(lines) <= 45


@pytest.mark.slow
def test_its_model_trains_and_decodes_and_its_metric_measures(written):
    added = ["--set", "models.mine={name: stacked-lstm}", "--set", "metrics.overlap={name: word-overlap}"]
    run(written, BENCH, "run", "suite.yaml", "--profile", "quick", "--workers", "0", *added)
    (folder,) = (path.parent for path in (written / "reports").glob("do-lstms-stop-quick+*/report.md"))
    report = (folder / "report.md").read_text()
    assert re.search(r"\| Decoder +\| +tanh +\| +lstm +\| +mine +\|", report)
    assert re.search(r"\| mine +\| +\**[\d.]+", report)
    (results,) = (written / "runs").glob("*/cells.jsonl")
    assert "overlap" in results.read_text()


@pytest.mark.slow
def test_the_test_of_the_readme_passes(written):
    test = written / "bench-mine" / "bench_mine" / "test_mine.py"
    assert "1 passed" in run(written, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test)


def test_the_readme_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150


def test_links_lead_somewhere():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert path.startswith("https:") or (ROOT / path).exists(), path


def own_data(folder):
    """Write what the README calls one's own: JSON lines, a saved data set, outputs of last year's system."""
    draw = random.Random(0)
    pairs = {
        "der": "the",
        "hund": "dog",
        "katze": "cat",
        "sieht": "sees",
        "einen": "a",
        "baum": "tree",
        "nie": "never",
    }

    def rows(name, number):
        for place in range(number):
            words = draw.choices([*pairs], k=draw.randint(2, 5))
            english = " ".join(pairs[word] for word in words)
            yield {
                "id": f"{name}-{place}", "topic": "pets", "de": " ".join(words), "en": english, "others": [english.upper()],
            }  # fmt: skip

    sizes = {"train": 90, "valid": 12, "test": 15}
    own = {name: [*rows(name, number)] for name, number in sizes.items()}
    folder.mkdir()
    for name, lines in own.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outputs = [{"id": one["id"], "output": one["en"]} for one in own["test"]]
    draw.shuffle(outputs)
    (folder / "last-year.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in outputs))
    return own


def saved_data(folder, own):
    """Save the same as a data set with splits."""
    import datasets

    names = {"train": "train", "validation": "valid", "test": "test"}
    columns = {"german": "de", "english": "en"}
    found = {
        split: datasets.Dataset.from_dict({new: [one[old] for one in own[name]] for new, old in columns.items()})
        for split, name in names.items()
    }
    datasets.DatasetDict(found).save_to_disk(str(folder / "talks"))


def test_the_suite_of_ones_own_has_at_most_40_lines():
    assert len([line for line in block("suite: ours-and-theirs").splitlines() if line.strip()]) <= 40


@pytest.mark.slow
@pytest.mark.extra("bench-data", "datasets")
def test_own_data_outputs_of_others_and_a_served_model_stand_in_one_suite(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "plugins" / "served" / "tests"))
    from servers import serving, truthful

    import bench_core

    own = own_data(tmp_path / "own")
    saved_data(tmp_path / "own", own)
    path = tmp_path / "suite.yaml"
    path.write_text(block("suite: ours-and-theirs"))
    with serving(truthful) as server:
        settings = [f"models.served.url={server.url}"]
        run = bench_core.run(path, settings=settings, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert {(cell.status, cell.reason) for cell in run.cells} == {("done", "")}
    seeds = Counter((cell.cell["task"], cell.cell["model"]) for cell in run.cells)
    assert seeds == {
        ("notes", "ours"): 3, ("talks", "ours"): 3, ("notes", "last-year"): 1, ("notes", "served"): 1, ("talks", "served"): 1,
    }  # fmt: skip
    numbers = {(cell.cell["task"], cell.cell["model"]): cell.numbers for cell in run.cells}
    assert numbers["notes", "last-year"]["bleu"].value == pytest.approx(100)
    assert numbers["notes", "ours"]["bleu"].value < 100
    assert server.prompts.total() == 30, "each example is asked once"
    assert {prompt for prompt in server.prompts if "pets" in prompt} == {
        f"In English: pets: {one['de']}" for one in own["test"]
    }
    prompts = {
        one.texts[0]
        for one in bench_notebook.load(run.folder, store=tmp_path / "store").outputs(model="served", task="talks")
    }
    assert prompts == {f"IN ENGLISH: {one['de'].upper()}" for one in own["test"]}
    verifying = pytest.importorskip("bench_exchange.verifying")
    remarks = verifying.Verifier(Store(tmp_path / "store")).verify(run.folder)
    assert [one.text for one in remarks if one.wrong] == []
