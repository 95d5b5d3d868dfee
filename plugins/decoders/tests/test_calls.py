"""What decoders say that they have asked of the model is what they did ask."""

from __future__ import annotations

import pytest
import torch

from bench_core import Rng
from bench_decoders.plugin import BeamConfig, ExhaustiveConfig, GreedyConfig, TopKConfig

SEARCHES = [
    GreedyConfig(max_tokens=6),
    TopKConfig(max_tokens=6, k=2),
    BeamConfig(max_tokens=6, width=3),
    BeamConfig(max_tokens=6, width=3, finish="exhausted", candidates="finished_and_alive", alpha=0.75, outputs=2),
    BeamConfig(max_tokens=6, width=2, candidates="all_prefixes", finish="first"),
]


def decode(config, model, rows):
    return config.load()(config).decode(model, rows, Rng(4))


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.name)
@pytest.mark.parametrize("kind", ["recurrent", "insertion"])
def test_calls_add_up_to_the_rows_that_the_model_was_asked_for(request, batch, config, kind):
    model = request.getfixturevalue(kind)(vocabulary=4, seed=3)
    found = decode(config, model, batch(20, [1, 2, 3, 6, 6] * 4))
    assert sum(row[0].values["calls"] for row in found) == 20 + model.stepped
    assert all(one.values == row[0].values for row in found for one in row)
    assert len({row[0].values["calls"] for row in found}) > 1, "the case must bite"


def test_calls_of_an_example_do_not_depend_on_its_batch(recurrent, batch):
    config = SEARCHES[3]
    rows = batch(9, [1, 2, 3, 4, 5, 6, 6, 6, 6])
    together = [row[0].values["calls"] for row in decode(config, recurrent(seed=2), rows)]
    alone = [decode(config, recurrent(seed=2), rows.select(torch.tensor([i])))[0][0] for i in range(9)]
    assert [one.values["calls"] for one in alone] == together


def test_cost_grows_with_steps_with_width_and_with_the_power_of_the_vocabulary(table, batch):
    """V tokens besides stop, T' steps: T' calls, 1 + k (T' - 1), and all prefixes (RNN notes, R8)."""

    def endless(prefix):
        return (0.01, 0.33, 0.33, 0.33)

    def calls(config):
        return decode(config, table(endless), batch(1))[0][0].values["calls"]

    search = {"finish": "exhausted", "candidates": "finished_and_alive"}
    for steps in (2, 4):
        assert calls(GreedyConfig(max_tokens=steps)) == steps
        assert calls(BeamConfig(max_tokens=steps, width=2, **search)) == 1 + 2 * (steps - 1)
        prefixes = sum(3**length for length in range(steps))
        assert calls(ExhaustiveConfig(max_tokens=steps, candidates="finished_and_alive")) == prefixes
