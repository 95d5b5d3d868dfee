"""Outcomes on disk."""

from __future__ import annotations

from bench_core import Hypothesis, Outcome
from bench_core.storage.outcomes import read_outcomes, write_outcomes


def test_texts_may_hold_whatever_ends_a_line_elsewhere(tmp_path):
    strange = "a\u2028b\u2029c\x85d\x0be\x0cf\r\ng\x1c"
    outcomes = [
        Outcome(0, prompt=strange, references=[strange], hypotheses=[Hypothesis([1, 2], True)], texts=[strange]),
        Outcome(1, texts=["plain"], hypotheses=[Hypothesis([], False, actions=[3])]),
    ]
    write_outcomes(tmp_path / "o.gz", outcomes)
    assert read_outcomes(tmp_path / "o.gz") == outcomes
    write_outcomes(tmp_path / "none.gz", [])
    assert read_outcomes(tmp_path / "none.gz") == []
