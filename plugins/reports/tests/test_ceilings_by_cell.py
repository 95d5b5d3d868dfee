"""A report says what references score as the tokens of each model write them."""

from __future__ import annotations

import pytest

from bench_core.runs.results import CellResult, Score
from bench_reports.content.conditions import ceilings


def cell(model, ceiling, task="t", seed=0):
    axes = {"task": task, "model": model, "decoder": "greedy", "split": "test", "hardware": "cpu", "seed": seed}
    return CellResult(axes, "done", numbers={"exact": Score(value=1.0, digits=2, ceiling=ceiling)})


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([cell("a", None), cell("b", None)], ""),
        ([cell("a", 97.5), cell("b", 97.5)], "tokenized references score 97.50"),
        ([cell("a", 97.5), cell("b", None)], "tokenized references score 97.50 (a)"),
        ([cell("a", 97.5, seed=one) for one in range(3)], "tokenized references score 97.50"),
        (
            [cell("a", 97.5), cell("b", 97.5), cell("c", 62.857), cell("c", None, "u")],
            "tokenized references score 97.50 (t a, t b), 62.86 (t c)",
        ),
    ],
)
def test_ceilings_that_differ_are_told_by_cell(cells, text):
    assert ceilings(cells, "exact") == text
