"""`bench check` finds single faults in working suites and their files before a run stumbles over them."""

from __future__ import annotations

from random import Random

import pytest
from bench_faults.fault import FAULTS
from bench_faults.trial import TRIALS, broken, fails
from bench_faults.working import WORKING

#: Faults that nothing without torch can find, by what `bench check` says it did not check.
UNCHECKED = {
    "a checkpoint of another family": "whether the weights in",
    "an end of texts that no file names": "which token is EOS for the model in",
}


def find(name, suite, seed):
    """Assert that a fault is reported by name, unless the suite runs with it or it is said not to be checked."""
    with broken(name, suite, seed) as checked:
        if not checked.is_found:
            assert checked.code == 0, (checked.words, checked.text)
            unchecked = checked.text.partition("not checked:")[2]
            assert UNCHECKED.get(name, "-") in unchecked or not fails(checked.place), (checked.words, checked.text)
        return checked.is_found


@pytest.mark.parametrize("suite", WORKING)
def test_a_working_suite_has_no_problem(suite):
    with broken(None, suite, 0) as checked:
        assert checked.code == 0, checked.text
        assert "no problem found" in checked.text
        assert "warning" not in checked.text, checked.text


@pytest.mark.quick(20, 25)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_before_a_run_fails_of_it(name):
    find(name, Random(name).choice(FAULTS[name].suites), 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "suite"), TRIALS)
def test_a_fault_is_found_in_every_suite_and_place(name, suite):
    for seed in range(1, 4):
        find(name, suite, seed)


@pytest.mark.nightly
def test_of_random_faults_that_stop_a_run_all_are_found():
    draws = Random(38)
    found = [find(*draws.choice(TRIALS), draws.random()) for _ in range(60)]
    assert sum(found) >= 40
