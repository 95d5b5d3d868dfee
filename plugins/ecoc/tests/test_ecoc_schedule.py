"""How much of what is read comes from the model, from epoch to epoch."""

from math import exp, log

import pytest

from bench_core import Rng, Training
from bench_ecoc.inputs import progress, rising

QUARTILES = [0, 0.25, 0.5, 0.75, 1]


def training(epoch, epochs, step=None, steps=None, batches=10):
    """Return where a training stands that is planned in epochs, at the first update of one."""
    return Training(epoch * batches if step is None else step, steps or epochs * batches, epoch, epochs, rng=Rng(0))


def test_the_schedule_has_its_values_at_the_quartiles():
    found = [rising(share, 1) for share in QUARTILES]
    assert found == pytest.approx([0.0040, 0.0596, 0.5, 0.9404, 0.9960], abs=5e-5)


def test_a_temperature_rises_from_a_hundredth():
    assert rising(0, 2.5) == pytest.approx(0.01)
    assert rising(1, 2.5) == pytest.approx(2.5 * 249 / 250)


@pytest.mark.parametrize("epochs", [2, 5, 40])
@pytest.mark.parametrize("top", [0.25, 0.5, 2.5])
def test_the_schedule_is_equation_1(epochs, top):
    delta = epochs / (2 * log(249))
    expected = [top / (1 + exp(-(-epochs / 2 + epoch * epochs / (epochs - 1)) / delta)) for epoch in range(epochs)]
    found = [rising(progress(training(epoch, epochs)), top) for epoch in range(epochs)]
    assert found == pytest.approx(expected, rel=1e-12)
    assert found == sorted(found)


def test_forty_epochs_have_the_delta_of_the_paper():
    assert 40 / (2 * log(249)) == pytest.approx(3.62, abs=0.005)


def test_all_updates_of_an_epoch_have_one_value():
    shares = {progress(training(3, 8, step)) for step in range(30, 40)}
    assert shares == {3 / 7}


def test_a_single_epoch_is_told_by_its_updates():
    assert [progress(training(0, 1, step)) for step in (0, 9)] == [0, 1]


def test_a_training_planned_in_updates_does_not_take_its_first_epochs_for_the_last():
    """For such a one, `epochs` counts those that have begun."""
    shares = [progress(training(step // 10, step // 10 + 1, step, 100)) for step in range(100)]
    assert shares == sorted(shares)
    assert shares[20] == pytest.approx(20 / 99)


def test_one_update_begins_its_schedule():
    assert progress(training(0, 1, 0, 1)) == 0
