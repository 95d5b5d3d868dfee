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


def block(start):
    """Return the first block of code that has `start` in it."""
    return next(text for text in re.findall(r"```\w+\n(.*?)```", README, re.DOTALL) if start in text)


@pytest.fixture
def written(tmp_path):
    """Write the plugin and the suite of the README as it says."""
    package = tmp_path / "bench-bigram" / "bench_bigram"
    package.mkdir(parents=True)
    (package / "plugin.py").write_text(block("class BigramConfig"))
    (package / "model.py").write_text(block("class Bigram(nn.Module"))
    (package / "test_bigram.py").write_text(block("check_model"))
    (tmp_path / "suite.yaml").write_text(block("suite: do-lstms-stop"))
    info = tmp_path / "bench-bigram" / "bench_bigram-0.1.0.dist-info"  # what `pip install` would leave
    info.mkdir()
    entry = re.search(r"bigram = \"(.*)\"", block("[project.entry-points.bench]"))[1]
    (core,) = re.findall(r'"(bench-core\S*)"', block("[project.entry-points.bench]"))
    about = f"Metadata-Version: 2.1\nName: bench-bigram\nVersion: 0.1.0\nRequires-Dist: {core}\n"
    (info / "METADATA").write_text(about)
    (info / "entry_points.txt").write_text(f"[bench]\nbigram = {entry}\n")
    return tmp_path


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder / "bench-bigram"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_model_of_the_readme_trains_decodes_and_appears_in_a_table(written):
    assert sum(text.count("\n") for text in (block("class BigramConfig"), block("class Bigram(nn.Module"))) <= 50
    run(written, BENCH, "run", "suite.yaml", "--profile", "quick", "--set", "models.bigram={name: bigram}")
    (report,) = (path.read_text() for path in (written / "reports").glob("do-lstms-stop-quick+*/report.md"))
    assert re.search(r"\| decoder +\| +tanh +\| +lstm +\| +bigram +\|", report)
    assert re.search(r"\| bigram +\| +[\d.]+ +\|", report)


def test_the_test_of_the_readme_passes(written):
    assert "1 passed" in run(written, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "bench-bigram")


def test_links_lead_somewhere():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert path.startswith("https:") or (Path(__file__).parent.parent / path).exists(), path
