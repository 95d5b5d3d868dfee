"""What a report says of estimates: their errors, and nothing of differences that these could have made."""

import csv
import json
from itertools import combinations
from math import sqrt

import pytest

from bench_core import run
from bench_reports.render.report import write_report
from bench_reports.statistics.estimate import difference
from bench_reports.statistics.measurements import measured

TINY = {"name": "deep-ssm", "state": 3, "reader": 4, "posterior": 4, "information_draws": 4}
MODELS = {
    "few": TINY | {"trajectories": 40, "training": {"updates": 5}},
    "few-more": TINY | {"trajectories": 40, "training": {"updates": 6}},
    "many": TINY | {"trajectories": 4000, "training": {"updates": 5}},
    "letters": {"name": "char-gru", "state": 3, "trajectories": 40, "training": {"updates": 5}},
    "oracle": {"name": "word-oracle", "training": {"updates": 0}},
}
METRICS = {
    "H": {"name": "word-cross-entropy"},
    "H-elbo": {"name": "word-cross-entropy", "by": "elbo"},
    "H-tenth": {"name": "word-cross-entropy", "by": "trajectories", "value": "log_prob_by_a_tenth"},
    "perplexity": {"name": "perplexity"},
    "I": {"name": "mutual-information"},
}
EXACT = ("letters", "oracle")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    suite = {
        "suite": "ssm/errors",
        "title": "Errors of estimates",
        "tasks": {"words": {"name": "word-generation", "corpus": {"name": "english", "sentences": 300}, "min_count": 2, "samples": 20}},
        "models": MODELS,
        "decoders": {"sample": {"name": "ancestral", "max_tokens": 13}},
        "metrics": METRICS,
        "skip": [{"model": [*EXACT], "metric": ["H-elbo", "H-tenth", "I"]}],
        "training": {"optimizer": "adam", "lr": 1e-2, "batch_size": 8},
        "splits": ["test"],
        "limits": {"max_tokens": 13},
        "hardware": {"threads": 1, "device": "cpu"},
        "tables": [{"id": "all", "rows": ["model"], "values": [*METRICS]}],
    }  # fmt: skip
    (folder / "suite.yaml").write_text(json.dumps(suite))
    done = run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    assert all(cell.status == "done" for cell in done.cells)
    write_report(done, folder / "report")
    with (folder / "report" / "tables" / "all.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "done"]
    return done, {(row["row"], row["value"]): row for row in rows}, (folder / "report" / "report.md").read_text()


def test_the_report_tells_the_error_of_every_estimate_and_that_there_are_some(found):
    _, rows, report = found
    for model in ("few", "few-more", "many"):
        for metric in METRICS:
            assert float(rows[model, metric]["error"]) > 0, (model, metric)
    assert "Standard errors of the sampling estimates" in report


def test_more_trajectories_make_the_error_smaller(found):
    _, rows, _ = found
    few, many = (float(rows[model, "H"]["error"]) for model in ("few", "many"))
    assert many < few / 3
    assert float(rows["few", "H-tenth"]["error"]) > few


def test_what_is_exact_over_all_words_has_neither_an_error_nor_an_interval(found):
    _, rows, _ = found
    for model in EXACT:
        assert {rows[model, "H"][name] for name in ("error", "low", "high")} == {""}


def test_the_interval_of_an_estimate_over_all_words_is_that_of_its_error(found):
    _, rows, _ = found
    row = {name: float(rows["few", "H"][name]) for name in ("mean", "low", "high", "error")}
    assert row["high"] - row["mean"] == pytest.approx(1.959964 * row["error"], rel=1e-4)
    assert row["mean"] - row["low"] == pytest.approx(1.959964 * row["error"], rel=1e-4)


def test_a_difference_below_the_errors_is_never_significant(found):
    done, rows, _ = found
    cells = {cell.cell["model"]: cell for cell in done.cells}
    below = 0
    for one, other in combinations(("few", "few-more", "many"), 2):
        for metric in ("H", "H-elbo", "H-tenth", "perplexity"):
            gap = difference(*(measured(done, [cells[name]], metric) for name in (one, other)))
            if abs(gap.value) <= sqrt(gap.error.variance):
                below += 1
                assert gap.p() > 0.3
                assert "True" not in (rows[one, metric]["best"], rows[other, metric]["best"])
    assert below > 0
