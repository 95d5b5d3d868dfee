"""The suites that are shipped print as papers do: their tables fit an article, with labels in place of names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench_small.invented import invented_run
from bench_small.printing import article_of, needs_latex, overfull
from click.testing import CliRunner

from bench_core.commands.main import bench
from bench_core.suites import yaml_source as located
from bench_reports.content.tables import grids
from bench_reports.language.of_suite import language
from bench_reports.render.latex import table_files
from bench_reports.render.latex_tables import INCH, SIZES, Tabular
from bench_reports.render.report_document import report_document

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
NAMES = [str(path.relative_to(SUITES).with_suffix("")) for path in FILES]
LEAST = 0.8  # of \scriptsize, to which a table may be shrunk


def documents(path, folder):
    """Yield the reports of a suite in each profile, without figures and claims."""
    for profile in (None, *located.read(path).data.get("profiles", ())):
        run = invented_run(path, profile, folder)
        yield profile, run, report_document(run, grids(run), [], [], costs=False)


@pytest.mark.slow
@needs_latex
def test_tables_of_every_suite_and_profile_fit_an_article(tmp_path):
    for path, suite in zip(FILES, NAMES, strict=True):
        for profile, _, document in documents(path, tmp_path):
            for name, text in table_files(document).items():
                (tmp_path / f"{suite.replace('/', '-')}-{profile}-{name}.tex").write_text(text)
    files = sorted(one.name for one in tmp_path.glob("*.tex"))
    assert len(files) > 2 * len(FILES)
    for options in ("10pt", "10pt,twocolumn"):
        assert [one for one in overfull(tmp_path, article_of(files), options) if one > 1] == []


@pytest.mark.slow(8)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_no_table_is_shrunk_until_it_cannot_be_read(path, tmp_path):
    for profile, run, document in documents(path, tmp_path):
        ours = {table.id for table in language(run).tables}
        tables = [one for section in document.sections for one in section.blocks if getattr(one, "file", None)]
        assert ours <= {one.file.name for one in tables}
        for one in tables:
            width = Tabular.fitting(one, one.file.inches).width(SIZES[-1])
            assert one.file.inches * INCH >= LEAST * width, (profile, one.file.name)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_labels_say_something_else_than_names_and_no_two_models_share_one(path):
    data = located.read(path).data
    labels = data["labels"]
    assert [name for name, label in labels.items() if name == label] == []
    others = {name for name, one in data.get("metrics", {}).items() if one["name"] != name and name.islower()}
    assert others <= {*labels}
    for kind in ("models", "decoders"):
        shown = [labels.get(name, name) for name in data.get(kind, ())]
        assert len(shown) == len({*shown}), kind
        assert not [one for one in shown if re.fullmatch(r"[a-z][a-z0-9.]*(-[a-z0-9.]+)+", one)], (
            "a name of a program"
        )


def embedded(path, nothing):
    """Return whether a suite has a smoke profile that needs no data but what is embedded."""
    if "smoke" not in located.read(path).data.get("profiles", ()):
        return False
    arguments = ["check", str(path), "--profile", "smoke", "--data", str(nothing)]
    return CliRunner().invoke(bench, arguments, standalone_mode=True).exit_code == 0


@pytest.mark.nightly
@needs_latex
def test_reports_of_all_smoke_profiles_fit_an_article_and_a_terminal(tmp_path):
    """Run what needs no data; a suite with cells that are meant to fail ends with exit code 1."""
    nothing, reports = tmp_path / "nothing", tmp_path / "reports"
    nothing.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "BENCH_DATA"}
    folders = ["--data", str(nothing), "--store", str(tmp_path / "store"), "--runs", str(tmp_path / "runs")]
    chosen = [path for path in FILES if embedded(path, nothing)]
    assert len(chosen) > len(FILES) / 2
    for path in chosen:
        command = [sys.executable, "-m", "bench_core", "run", str(path), "--profile", "smoke", "--quiet"]
        done = subprocess.run(
            [*command, *folders, "--out", str(reports)],
            env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=3600, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), (path.name, done.stderr[-2000:])
    written = sorted(reports.rglob("report.txt"))
    assert len(written) == len(chosen)
    assert [line for one in written for line in one.read_text().split("\n") if len(line) > 100] == []
    files = [one.relative_to(tmp_path) for one in sorted(reports.rglob("tables/*.tex"))]
    for options in ("10pt", "10pt,twocolumn"):
        assert [one for one in overfull(tmp_path, article_of(files), options) if one > 1] == []
