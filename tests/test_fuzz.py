"""However a shipped suite is mangled, and whatever is asked of it, the answer is short and has no traceback.

A sample of `tests/drills/fuzz_suites.py`, which goes on for as long as one likes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from bench_small.asking import Desk
from bench_small.mangling import cases


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("seed", range(100, 108))
def test_mangled_suites_are_taken_or_refused_in_a_few_lines(tmp_path, seed):
    desk, codes = Desk(tmp_path), Counter()
    for number, case in enumerate(cases(25, seed)):
        answer = desk.ask(case)
        assert not answer.wrong, f"--seed {seed} --only {number}: {answer}"
        codes[answer.code] += 1
    assert codes[0]
    assert codes[2] > codes[0], "suites are hardly mangled"


def test_the_same_seed_mangles_alike():
    assert [*cases(20, 1)] == [*cases(20, 1)]
    assert [*cases(20, 1)] != [*cases(20, 2)]
