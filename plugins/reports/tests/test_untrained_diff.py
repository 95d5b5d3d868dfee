"""`bench diff` speaks of trainings only where there are any."""

from __future__ import annotations

import re

import pytest
from bench_small.runs import run_of, sampled

from bench_reports.diff.differences import difference, text

TRAINED, NOT, FIXED = {"updates": 9}, {"updates": 0}, {"one_system": True}


@pytest.mark.parametrize(
    ("models", "is_trained"),
    [
        ({"rnn": NOT, "lstm": NOT}, False),
        ({"rnn": NOT, "lstm": TRAINED}, True),
        ({"rnn": TRAINED, "lstm": NOT}, True),
        ({"rnn": FIXED, "lstm": NOT}, False),
        ({}, True),
    ],
)
@pytest.mark.parametrize("seeds", [1, 2])
def test_nothing_is_said_of_trainings_of_models_that_are_not_trained(tmp_path, models, is_trained, seeds):
    values = [[1.0, 2.0, 3.0] * 9, [1.0, 2.5, 3.0] * 9][:seeds]
    cells = sampled(tmp_path, {"rnn": values, "lstm": [[4 + one for one in row] for row in values]})
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, models=models)
    sides = [[one for one in cells if one.cell["model"] == model] for model in ("rnn", "lstm")]
    said = text(difference(run, (sides[0], sides[1])), 100)
    assert "Interval and p: two-sided" in said.replace("\n", " ")
    assert ("training" in said) == (is_trained and seeds == 1)
    (head,) = [line for line in said.splitlines() if line.startswith("metric")]
    assert re.split("  +", head) == ["metric", "A", "B", "A - B", "95 % interval", "p"], "no empty columns"
