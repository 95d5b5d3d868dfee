"""The numbers and verdicts on pages are those of the committed reports, and nobody types them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import paper_tables
import pytest
from bench_small.invented import invented_run
from paper_tables import ROOT, Place, page_text, pages, report_in

from bench_reports.render.report import write_report
from plain_files import to_csv

SUITE = "table-10"
COSTS = [
    {"stage": "train", "what": "a", "cpu_seconds": "5400"},
    {"stage": "decode", "what": "a", "cpu_seconds": "36"},
]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_numbers_of_the_committed_reports(page):
    text = page.read_text("utf-8")
    assert text == page_text(text, Place(ROOT, page)), "run `make papers`"


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.parent.name == "papers"], ids=lambda page: page.stem
)
def test_the_page_of_a_paper_types_no_verdict_and_shows_those_of_all_reports(page):
    text = page.read_text("utf-8")
    typed = re.sub(r"^<!-- \w+: \S+ -->$.*?^<!-- end -->$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^\|.*\| *(?:holds|fails|unclear|not tested|vacuous)\b.*$", typed, re.MULTILINE) == []
    assert {f"<!-- {kind}: {page.stem} -->" for kind in ("claims", "reports")} <= {*text.splitlines()}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository with one suite of the first paper, and an invented report of its profile `small`."""
    root = tmp_path_factory.mktemp("repository")
    for name in (f"{SUITE}.yaml", "table-1.yaml", "references"):
        source, copy = ROOT / "suites" / "strlm" / name, root / "suites" / "strlm" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    (root / "suites" / "strlm" / "README.md").write_text(
        "| suite | claims | CPU hours of `small`, three seeds |\n|---|---|---:|\n"
        "| [`table-10.yaml`](table-10.yaml) | M7 | 7 |\n| [`table-1.yaml`](table-1.yaml) | | 0.4 |\n"
    )
    run = invented_run(root / "suites" / "strlm" / f"{SUITE}.yaml", "small", root / "run")
    run.info["profile"] = "small"
    run.folder.mkdir()
    (run.folder / "costs.csv").write_text(to_csv(COSTS, [*COSTS[0]]))
    write_report(run, root / "reports" / "strlm" / f"{SUITE}-small")
    return root


def written(root, *lines):
    """Return what a page of a repository has after it was written."""
    page = root / "docs" / "papers" / "strlm.md"
    return page_text("\n".join(lines), Place(root, page)).split("\n")


def block(root, mark):
    first, *found, last = written(root, f"<!-- {mark} -->", "an old line", "<!-- end -->")
    assert (first, last) == (f"<!-- {mark} -->", "<!-- end -->")
    return found


def results(root):
    return json.loads((root / "reports" / "strlm" / f"{SUITE}-small" / "results.json").read_text())


def test_a_table_has_the_numbers_of_the_report_beside_the_published(repository):
    head, _, *rows, empty, about = block(repository, f"table: strlm/{SUITE}-small/{SUITE}")
    records = {(one["row_label"], one["column"]): one for one in results(repository)["tables"][SUITE]}
    assert head.count("|") == 4
    assert len(rows) == len({row for row, _ in records})
    for row in rows:
        label, *cells = (cell.strip() for cell in row[1:-1].split("|"))
        for column, cell in zip(("train", "test"), cells, strict=True):
            ours, theirs = re.sub(r"</?sub>|\*", "", cell.replace(" <sub>", "|")).split("|")
            one = records[label, column]
            digits = len(ours.split()[0].partition(".")[2])
            assert float(ours.split()[0]) == round(one["mean"], digits)
            assert float(theirs.split()[0]) == one["published_mean"]
            assert ours.count("±") == (one["std"] is not None)
            assert theirs.count("±") == (one["published_std"] is not None)
    seeds = len({one["cell"]["seed"] for one in results(repository)["cells"]})
    commit = report_in(repository / "reports" / "strlm" / f"{SUITE}-small").manifest.commit
    assert empty == ""
    assert f"{seeds} seed" in about
    assert commit is None or commit.id[:7] in about
    assert "1.5 CPU hours" in about
    assert "not comparable (profile `small`)" in about


def test_verdicts_come_with_statements_and_what_no_report_has_is_named(repository):
    head, _, *rows, empty, rest = block(repository, "claims: strlm")
    assert head == "| claim | report | verdict | p | seeds | statement |"
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [one["id"] for one in results(repository)["claims"]]
    for row, one in zip(rows, results(repository)["claims"], strict=True):
        assert row.split(" | ")[2].startswith(one["verdict"])
        assert f"](../../reports/strlm/{SUITE}-small/report.md)" in row
        assert len(row.split(" | ")) == 6
    assert empty == ""
    assert rest.startswith("Not run yet: `table-1` (M1, ")


def test_reports_come_with_commit_seeds_and_hours_and_suites_without_one_with_their_cost(repository):
    _, _, one, ten = block(repository, "reports: strlm")
    assert "[`table-1.yaml`](../../suites/strlm/table-1.yaml) | not run yet |" in one
    assert one.endswith("| 0.4 (`small`) |")  # its own cost, not that of table-10
    assert f"[strlm/{SUITE}-small](../../reports/strlm/{SUITE}-small/report.md)" in ten
    assert ten.endswith("| 1.5 |")


def test_a_table_without_a_report_is_not_run_yet_and_says_what_it_takes(repository):
    assert block(repository, "table: strlm/table-1-small/table-1") == [
        "Not run yet (profile `small`: 0.4 CPU hours)."
    ]


@pytest.mark.parametrize(
    ("row", "small", "smoke"),
    [
        ("| `table-1.yaml` | 2.0, half of them for decoding |", "2.0", ""),
        ("| `table-1.yaml`, `smoke` | < 0.1 |", "", "< 0.1"),
        ("| `table-1.yaml`, `small` | 3 |\n| `table-1.yaml`, `smoke` | 0.1 |", "3", "0.1"),
        ("| `table-1.yaml` | not known |", "", ""),
        ("| `table-10.yaml` | 3 |", "", ""),
    ],
)
def test_the_cost_of_a_profile_is_that_in_the_readme_of_its_suites(tmp_path, row, small, smoke):
    (tmp_path / "suites" / "strlm").mkdir(parents=True)
    suite = tmp_path / "suites" / "strlm" / "table-1.yaml"
    shutil.copy(ROOT / "suites" / "strlm" / "table-1.yaml", suite)
    place = Place(tmp_path, tmp_path / "docs" / "a.md")
    assert place.cost(suite) == ""
    suite.with_name("README.md").write_text(
        f"| suite | what |\n|---|---|\n{row}\n\n| suite | CPU hours |\n|---|---|\n{row}\n"
    )
    assert (place.cost(suite, "small"), place.cost(suite, "smoke")) == (small, smoke)


def test_what_stands_around_blocks_stays_and_writing_twice_changes_nothing(repository):
    page = ["# a", "", "<!-- claims: strlm -->", "<!-- end -->", "| b | c |", ""]
    once = written(repository, *page)
    assert (once[:3], once[-3:]) == (page[:3], page[-3:])
    assert written(repository, *once) == once


@pytest.mark.parametrize(
    ("lines", "where", "why"),
    [
        (["", "<!-- claims: strlm -->"], 2, "has no <!-- end -->"),
        (["<!-- end -->"], 1, "is outside a block"),
        (["<!-- claims: strlm -->", "<!-- claims: strlm -->", "<!-- end -->"], 2, "is inside a block"),
        (["<!-- claims: nobody -->", "<!-- end -->"], 1, "suites/nobody has no suites"),
        (["<!-- table: strlm/table-1-smal/table-1 -->", "<!-- end -->"], 1, "neither reports/strlm/table-1-smal nor"),
        (["<!-- table: strlm/table-1-small/table-9 -->", "<!-- end -->"], 1, "has no table 'table-9', only"),
        (
            ["<!-- table: strlm/table-10-small/table-8 -->", "<!-- end -->"],
            1,
            "has no table 'table-8', only table-10",
        ),
        (["<!-- tables: strlm/table-10-small -->", "<!-- end -->"], 2, "is outside a block"),
    ],
)
def test_a_mark_that_cannot_be_written_is_told_with_its_line(repository, lines, where, why):
    with pytest.raises(paper_tables.PageError, match=rf"strlm\.md:{where}: .*{re.escape(why)}"):
        written(repository, *lines)


@pytest.mark.parametrize("name", ["results.json", "costs.csv"])
def test_a_report_that_was_changed_by_hand_is_refused(repository, tmp_path, name):
    shutil.copytree(repository, tmp_path / "copy")
    file = tmp_path / "copy" / "reports" / "strlm" / f"{SUITE}-small" / name
    file.write_text(file.read_text() + "\n")
    with pytest.raises(paper_tables.PageError, match="the file was changed"):
        written(tmp_path / "copy", "<!-- claims: strlm -->", "<!-- end -->")


def test_a_report_of_version_0_1_is_refused(repository, tmp_path):
    shutil.copytree(repository, tmp_path / "copy")
    (tmp_path / "copy" / "reports" / "strlm" / f"{SUITE}-small" / "manifest.json").unlink()
    with pytest.raises(paper_tables.PageError, match=r"has no manifest\.json"):
        written(tmp_path / "copy", "<!-- reports: strlm -->", "<!-- end -->")


def test_numbers_that_a_seed_lacks_say_so(repository):
    one = {
        "mean": 3.0, "std": None, "status": "failed", "best": True, "n": 1, "seeds": 3, "published_mean": None,
        "published_std": None, "verdict": "", "difference": None,
    }  # fmt: skip
    assert paper_tables._cell(one, 1) == "**3.0** (1 of 3 seeds)"
    assert paper_tables._cell({**one, "mean": None, "n": 0}, 1) == "failed"
    beside = {**one, "n": 3, "published_mean": 2.5, "published_std": 0.1, "verdict": "worse", "difference": 0.5}
    assert paper_tables._cell(beside, 1) == "**3.0** <sub>2.5 ± 0.1, +0.5 worse</sub>"
    assert paper_tables._cell({**one, "mean": "inf", "n": 3, "best": False}, 1) == "∞"


@pytest.mark.parametrize(
    ("p", "adjusted", "shown"),
    [
        (None, None, ""),
        (0.0312, None, "0.031"),
        (0.0, None, "< 1e-6"),
        (0.02, 0.02, "0.02"),
        (0.02, 0.06, "0.02 (adjusted 0.06)"),
    ],
)
def test_a_p_value_is_never_0_and_stands_beside_the_one_that_decides(repository, p, adjusted, shown):
    report = report_in(repository / "reports" / "strlm" / f"{SUITE}-small")
    one = {"id": "a", "verdict": "holds", "remarks": [], "text": "A", "values": [], "p": p, "adjusted": adjusted}
    assert paper_tables._claim(one, report, Place(repository, repository / "docs" / "a.md"))[3] == shown


def test_the_seeds_of_a_claim_are_those_of_its_trained_models(repository):
    report = report_in(repository / "reports" / "strlm" / f"{SUITE}-small")
    report = replace(report, results={"models": {"lstm": {"updates": 9}, "unigrams": {"updates": 0}}})
    values = [{"axes": {"model": "unigrams"}, "n": 1}, {"axes": {"model": "lstm"}, "n": 3}]
    assert paper_tables._seeds({"values": values}, report) == 3
    assert paper_tables._seeds({"values": values[:1]}, report) == 1
    assert paper_tables._seeds({"values": [*values, {"axes": {}, "n": 2}]}, report) == 2
