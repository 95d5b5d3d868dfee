"""Whatever one part does to code, data or process of others: no clean cell is wrong or failed, in any order of stages.

Each run is made by a fork of a process with everything loaded. With `workers=0` a deed reaches the process of the command
itself, so that clean cells may fail there, but none may be wrong. With worker processes none may fail, either.
"""

from __future__ import annotations

from collections import Counter

import pytest
from bench_deeds.deeds import CASES, HARMFUL, HARMLESS
from bench_deeds.trial import Place, alarms, own_problems, problems

#: One of each sort, to be tried first.
FIRST = (
    "torch.Tensor.log_softmax", "Shape.combine.__code__", "clean.WEIGHTS changed in place", "json.dumps",
    "a function of torch replaced at import", "a thread that replaces code later", "a timer of Python that replaces code later",
    "a TorchFunctionMode left entered",
    "sys.modules['math'] another",
)  # fmt: skip
ORDERS = ("last", 1, 2)
IN_ORDERS = (
    "torch.nn.Module.__call__", "Table.loss", "statistics.fmean.__code__", "warnings are errors",
)  # fmt: skip
WITH_WORKERS = (
    pytest.param(1, ("torch.Tensor.log_softmax", "json.dumps", "os._exit(0)"), id="one"),
    pytest.param(3, ("a thread that replaces code later", "Shape.combine"), id="three"),
)
AT_A_TIME = 5  # deeds in one run with worker processes

#: Deeds that change results of others and are not noticed, with the reason.
UNSEEN = {
    "the cache of a shared function poisoned": "that a cache holds another value than its function returns is not seen",
}


def expected(*cases):
    """Return the marks of a test of cases of which one is known to be unseen."""
    return [pytest.mark.xfail(reason=f"{case.name}: {UNSEEN[case.name]}") for case in cases if case.name in UNSEEN]


HERE = sorted(
    (case for case in HARMFUL if not case.processes),
    key=lambda case: FIRST.index(case.name) if case.name in FIRST else len(FIRST),
)
SOME = [
    pytest.param(
        case,
        marks=[
            *([] if place < len(FIRST) else [pytest.mark.nightly]),
            *expected(case),
        ],
    )
    for place, case in enumerate(HERE)
]


def groups(cases):
    """Return cases in groups of the same part; those that last, and those that are unseen, are alone."""
    found, alone = [], [case for case in cases if case.lasting or case.name in UNSEEN]
    for part in ("task", "model", "decoder", "metric", "probe"):
        own = [case for case in cases if case.part == part and case not in alone]
        found += [tuple(own[start : start + AT_A_TIME]) for start in range(0, len(own), AT_A_TIME)]
    return found + [(case,) for case in alone]


def name(value):
    if isinstance(value, int):
        return str(value)
    return getattr(value, "name", None) or ", ".join(getattr(one, "name", str(one)) for one in value)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    found = Place(tmp_path_factory.mktemp("deeds"))
    yield found
    found.close()


def expect_no_harm(place, *cases, workers=0, order="first"):
    found, again = place.tried(*cases, workers=workers, order=order)
    failing = workers > 0 and not any(case.lasting for case in cases)
    wrong = [*problems(place.clean, found, again, failing)]
    for number, case in enumerate(cases):
        wrong += [f"{case.name}: {problem}" for problem in own_problems(case, found, number)]
    assert wrong == [], found.said


def expect_no_alarm(place, *cases, workers=0):
    found, again = place.tried(*cases, workers=workers)
    wrong = [*problems(place.clean, found, again)]
    for number, case in enumerate(cases):
        wrong += [f"{case.name}: {alarm}" for alarm in alarms(case, found, number)]
    assert wrong == [], found.said


def test_there_are_deeds_of_all_parts_at_all_moments():
    assert len(HARMFUL) >= 80
    assert len(HARMLESS) >= 20
    assert {*Counter(case.part for case in HARMFUL)} == {"task", "model", "decoder", "metric", "probe"}
    assert {case.moment for case in HARMFUL} == {"import", "building", "setup", "loop", "step", "end"}
    assert len(UNSEEN) < len(HARMFUL) / 10
    assert {*FIRST, *IN_ORDERS, *(name for one in WITH_WORKERS for name in one.values[1])} <= {*CASES}


@pytest.mark.slow
@pytest.mark.parametrize("case", SOME, ids=name)
def test_no_clean_cell_is_wrong_after_a_deed(place, case):
    expect_no_harm(place, case)


@pytest.mark.nightly
@pytest.mark.parametrize("cases", groups(HARMLESS), ids=name)
def test_harmless_deeds_raise_no_alarm(place, cases):
    expect_no_alarm(place, *cases)


@pytest.mark.nightly
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", [CASES[one] for one in IN_ORDERS], ids=name)
def test_no_clean_cell_is_wrong_in_any_order(place, case, order):
    expect_no_harm(place, case, order=order)


@pytest.mark.nightly
@pytest.mark.parametrize("order", [3, 4, 5])
@pytest.mark.parametrize("case", HERE[::4], ids=name)
def test_no_clean_cell_is_wrong_in_any_other_order(place, case, order):
    expect_no_harm(place, case, order=order)


@pytest.mark.nightly
@pytest.mark.parametrize(("workers", "names"), WITH_WORKERS)
def test_no_clean_cell_is_wrong_or_failed_with_worker_processes(place, workers, names):
    expect_no_harm(place, *(CASES[one] for one in names), workers=workers)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("workers", "cases"),
    [pytest.param(1 + 2 * (place % 2), cases, marks=expected(*cases)) for place, cases in enumerate(groups(HARMFUL))],
    ids=name,
)
def test_no_clean_cell_is_wrong_or_failed_with_any_number_of_worker_processes(place, workers, cases):
    expect_no_harm(place, *cases, workers=workers)


@pytest.mark.nightly
@pytest.mark.parametrize("cases", groups(HARMLESS), ids=name)
def test_harmless_deeds_raise_no_alarm_in_fresh_worker_processes(place, cases):
    expect_no_alarm(place, *cases, workers=1)


@pytest.mark.nightly
def test_most_deeds_change_a_run_that_begins_after_them(place):
    assert sum(map(place.spoilt, HERE)) >= 80
