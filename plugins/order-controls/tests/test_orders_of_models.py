"""Right orders of models: a pointer that is fixed to a right or a wrong order, and posterior mass by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from bench_authors.testing import Case, float64, tiny_batch
from bench_core import Prediction, Purpose, Rng, Scoring, Size, Source
from bench_decoders.plugin import GreedyConfig
from bench_indigo import right_orders
from bench_indigo.insertion import Indigo
from bench_indigo.plugin import IndigoConfig
from bench_order_controls.needs import Need, is_right
from bench_order_controls.plugin import LatinFoldsConfig, RightOrderConfig, StarGraphsConfig
from bench_order_controls.right_order import RightOrder

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
FEW = {"examples": 20, "held_out": 8, "most": 4}


class FixedPointer(Indigo):
    """Writes four words, each at the far left or right of what is there."""

    at_the_left = False

    def _open(self, state):
        number = state.trail.columns.shape[1] - 2
        choices = torch.full((len(state.hidden), self.tokens), -torch.inf)
        choices[:, 1 if number < FEW["most"] else 0] = 0.0
        return choices, state

    def _slots(self, state, words):
        choices = torch.full((len(words), state.trail.columns.shape[1]), -torch.inf)
        choices[:, 1 if self.at_the_left else -1] = 0.0
        return choices


def right_order_of_a_fixed_pointer(config, at_the_left, folder):
    task = config.load()(config, folder)
    info = config.complete(task.prepare(folder))
    model = FixedPointer(IndigoConfig(**SMALL, order="l2r"), info).eval()
    model.at_the_left = at_the_left
    (batch,) = task.batches("test", Purpose.DECODE, Size(8))
    decoder = GreedyConfig(max_tokens=9)
    outputs = decoder.load()(decoder).decode(model, batch, Rng(1))
    prompts, references = task.sources("test"), task.references("test")
    predictions = [
        Prediction(number, prompts[number], [*references[number]], hypotheses, ["?"])
        for number, hypotheses in zip(batch.ids.tolist(), outputs, strict=True)
    ]
    metric = RightOrder(RightOrderConfig()).prepare(info, references)
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize(
    ("config", "is_right_at_the_left"),
    [
        (LatinFoldsConfig(**FEW, direction="suffix"), True),
        (LatinFoldsConfig(**FEW, direction="prefix"), False),
        (StarGraphsConfig(**FEW, arms=2), True),
    ],
    ids=["suffix", "prefix", "star"],
)
def test_a_pointer_fixed_to_a_right_order_has_all_orders_right_and_one_fixed_to_a_wrong_order_none(
    config, is_right_at_the_left, tmp_path
):
    for at_the_left in (True, False):
        (folder := tmp_path / str(at_the_left)).mkdir()
        wanted = 100 if at_the_left == is_right_at_the_left else 0
        assert right_order_of_a_fixed_pointer(config, at_the_left, folder) == wanted


def the_value_is_the_share_of_all_orders_by_enumeration():
    """Assert it for targets of different lengths, some of whose orders are right."""
    needs = [[Need(2, 0b10), Need(3, 0b100)], [Need(0, 0b110)], []]
    pairs = [[number for need in each for number in need] for each in needs]
    table = torch.tensor([[*row, *[-1] * (4 - len(row))] for row in pairs])
    targets = [(1, 2, 3, 4), (2, 2, 1), (4,)]
    batch = replace(tiny_batch(targets, source=Source.TOKENS), extras={"needs": table})
    case = Case.of(IndigoConfig(**SMALL, order="searched", beam=24), batch=batch, source=Source.TOKENS, scale=1)
    for by in ("order", "searched"):
        values = case.model.score(batch, Scoring(by, Rng(1))).values["right-orders"]
        for row, (target, each) in enumerate(zip(targets, needs, strict=True)):
            orders = [*permutations(range(len(target)))]
            width = batch.gold.shape[1]
            paths = torch.tensor([[*order, *range(len(target), width)] for order in orders])
            alone = batch.select(torch.tensor([row]))
            weights = case.model.weigh(alone, paths[None], None, case.model.encode(alone))[0].softmax(0)
            share = sum(weight for weight, order in zip(weights, orders, strict=True) if is_right(each, order))
            torch.testing.assert_close(values[row], share)
    assert 0.01 < values[0] < 0.99
    assert values[2] == 1


def test_the_value_is_the_share_of_all_orders_by_enumeration():
    with float64(), torch.no_grad():
        the_value_is_the_share_of_all_orders_by_enumeration()


MUTANTS = {
    "the reverse is right": lambda intact: lambda needs, orders: intact(needs, _reversed(orders)),
    "the first need alone counts": lambda intact: lambda needs, orders: intact(needs[:, :2], orders),
    "every order is right": lambda intact: lambda needs, orders: torch.ones(orders.shape[:2], dtype=torch.bool),
}


def _reversed(orders):
    """Return orders backwards, up to EOS and padding."""
    return orders.flip(2)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_that_law_catches_its_mutants(monkeypatch, mutant):
    monkeypatch.setattr(right_orders, "right", MUTANTS[mutant](right_orders.right))
    with float64(), torch.no_grad(), pytest.raises(AssertionError):
        the_value_is_the_share_of_all_orders_by_enumeration()


def test_other_tasks_have_no_such_value():
    batch = tiny_batch([(1, 2)], source=Source.TOKENS)
    case = Case.of(IndigoConfig(**SMALL, order="l2r"), batch=batch, source=Source.TOKENS)
    assert "right-orders" not in case.model.score(batch, Scoring("order", Rng(1))).values
