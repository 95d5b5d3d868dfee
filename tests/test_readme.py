"""The README does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BENCH = Path(sys.executable).parent / "bench"

PLUGIN = {
    "pyproject.toml": "[project.entry-points.bench]",
    "bench_mine/__init__.py": "class StackedLSTMConfig",
    "bench_mine/model.py": "class StackedLSTM(LanguageModel)",
}


def block(start):
    """Return the first block of code that has `start` in it."""
    return next(text for text in re.findall(r"```\w+\n(.*?)```", README, re.DOTALL) if start in text)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the plugin and the suite of the README as it says, and install the plugin as pip does it."""
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
    run(written, BENCH, "run", "suite.yaml", "--profile", "quick", *added)
    (folder,) = (path.parent for path in (written / "reports").glob("do-lstms-stop-quick+*/report.md"))
    report = (folder / "report.md").read_text()
    assert re.search(r"\| Decoder +\| +tanh +\| +lstm +\| +mine +\|", report)
    assert re.search(r"\| mine +\| +\**[\d.]+", report)
    (results,) = (written / "runs").glob("*/cells.jsonl")
    assert "overlap" in results.read_text()


def test_the_test_of_the_readme_passes(written):
    test = written / "bench-mine" / "bench_mine" / "test_mine.py"
    assert "1 passed" in run(written, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test)


def test_links_lead_somewhere():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert path.startswith("https:") or (Path(__file__).parent.parent / path).exists(), path
