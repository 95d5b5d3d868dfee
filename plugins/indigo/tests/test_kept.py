"""Orders that are kept for some epochs."""

from __future__ import annotations

from itertools import count

import pytest
import torch

from bench_authors.testing import Case, tiny_batch, tiny_info
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Noise, Source, Task, Training
from bench_core.storage.store import Store
from bench_indigo import insertion
from bench_indigo.order_cache import KeptOrders
from bench_indigo.plugin import IndigoConfig
from bench_training.checkpoint import Checkpoints
from bench_training.evaluation import Selection
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12, "beam": 2}
TARGETS = [(1, 2, 3, 1, 4), (2,), (), (4, 4, 1, 2), (3, 1, 2), (1, 3, 2, 4, 1, 2)]
BATCH = tiny_batch(TARGETS, source=Source.TOKENS)


def case_of(**settings):
    case = Case.of(IndigoConfig(**{**SMALL, **settings}), batch=BATCH, source=Source.TOKENS)
    case.model.train()
    return case


def learnt(case, epoch, batch=BATCH):
    with torch.no_grad():
        return case.model.loss(batch, Training(0, 9, epoch, 9, Noise(epoch)))


def kept(case):
    return {id: orders.tolist() for id, (_, orders) in case.model.kept.found.items()}


def shaken(case):
    """Give a case other weights."""
    with torch.no_grad():
        for weights in case.model.parameters():
            weights.normal_()


SLOW = ("samples_occur_as_often_as_their_score_says", "eight_examples_can_be_learnt_by_heart")


@pytest.mark.slow
def test_the_model_keeps_the_quick_contracts():
    contracts = [contract for contract in MODEL_CONTRACTS if str(contract) not in SLOW]
    assert len(check(contracts, Case.of(IndigoConfig(**SMALL, order_epochs=3), source=Source.TOKENS))) >= 15


def test_orders_serve_as_many_epochs_as_they_are_kept_for():
    case = case_of(order_epochs=2)
    found = []
    for epoch in range(4):
        learnt(case, epoch)
        found.append(kept(case))
        shaken(case)
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[0] != found[2]
    assert [sorted(order) for order in found[0][int(BATCH.ids[0])]] == [[*range(5)]] * 2


def test_only_what_is_missing_is_searched(monkeypatch):
    sizes = []
    intact = insertion.search

    def watched(model, batch, *more):
        sizes.append(len(batch))
        return intact(model, batch, *more)

    monkeypatch.setattr(insertion, "search", watched)
    case = case_of(order_epochs=2)
    learnt(case, 0, BATCH.select(torch.tensor([0, 3])))
    learnt(case, 0, BATCH.select(torch.tensor([3, 1, 5, 0])))
    learnt(case, 1, BATCH.select(torch.tensor([3, 0])))
    learnt(case, 2, BATCH.select(torch.tensor([3, 1])))
    assert sizes == [2, 2, 2]


def test_kept_orders_are_learnt_from_as_if_they_had_been_found_now():
    one, other = case_of(order_epochs=2, dropout=0), case_of(dropout=0)
    for _ in range(2):
        assert torch.equal(learnt(one, 0).value, learnt(other, 0).value)
    some = torch.tensor([3, 5, 1])
    assert torch.equal(learnt(one, 1, BATCH.select(some)).value, learnt(other, 1, BATCH.select(some)).value)


def test_a_model_that_is_judged_uses_and_keeps_no_orders():
    case = case_of(order_epochs=9)
    learnt(case, 0)
    before = kept(case)
    case.model.eval()
    shaken(case)
    judged, plain = learnt(case, 1).value, case_of().model
    plain.load_state_dict({name: t for name, t in case.model.state_dict().items() if not name.startswith("kept")})
    assert torch.equal(judged, plain.eval().loss(BATCH, Training(0, 9, 1, 9, Noise(1))).value)
    assert kept(case) == before
    assert not len(case.model.state_dict()["kept._extra_state"])


def test_what_is_told_of_kept_orders_is_all_there_is():
    case, other = case_of(order_epochs=2), KeptOrders(2)
    learnt(case, 4)
    state = case.model.kept.get_extra_state()
    other.set_extra_state(state)
    assert {id: (until, orders.tolist()) for id, (until, orders) in other.found.items()} == {
        id: (until, orders.tolist()) for id, (until, orders) in case.model.kept.found.items()
    }
    assert torch.equal(other.get_extra_state(), state)
    other.set_extra_state(other.nothing)
    assert not other.found


def test_another_target_of_the_same_id_is_searched_anew():
    case = case_of(order_epochs=2)
    learnt(case, 0)
    shorter = tiny_batch([target[1:] for target in TARGETS], source=Source.TOKENS)
    learnt(case, 1, shorter)
    assert [len(orders[0]) for orders in kept(case).values()] == [max(0, len(target) - 1) for target in TARGETS]


def test_nothing_is_kept_for_one_epoch_alone():
    assert case_of().model.kept is None


class Rows(Task):
    """The same six rows in every epoch, shuffled, two at a time."""

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, noise=None):
        for rows in noise.uniform(torch.arange(len(BATCH))).argsort().split(2):
            yield BATCH.select(rows)


class Killed(Exception):
    pass


class Often(Checkpoints):
    """Written every second step."""

    asked = 0

    def due(self):
        self.asked += 1
        return self.asked % 2 == 0


def trained(folder=None, fatal=None):
    """Train for four epochs; be killed as the second judgement is asked for, if that is `fatal`."""
    torch.manual_seed(0)
    config = IndigoConfig(**SMALL, order_epochs=2)
    model = config.load()(config, tiny_info(Source.TOKENS))
    turns = count(1)

    def judge(model):
        if next(turns) == fatal:
            raise Killed
        return float(model.embed.weight[0, 0])

    plan = TrainingConfig(epochs=4, lr=0.05, evaluate_every=5)
    checkpoints = folder and Often(Store(folder), "f" * 64, "indigo", None, None)
    selection = Selection(judge, -1, "size")
    trainer = Trainer(
        model, Rows(None, None), plan, Noise(1), torch.device("cpu"), selection, checkpoints=checkpoints
    )  # fmt: skip
    return trainer.run(), model.state_dict()


def a_training_that_is_broken_off_ends_alike(folder):
    history, weights = trained()
    with pytest.raises(Killed):
        trained(folder, fatal=2)
    resumed, found = trained(folder)
    assert resumed == history
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())


def test_a_training_that_is_broken_off_ends_alike(tmp_path):
    a_training_that_is_broken_off_ends_alike(tmp_path)


def test_without_the_kept_orders_it_would_not(tmp_path, monkeypatch):
    monkeypatch.setattr(KeptOrders, "get_extra_state", lambda self: self.nothing)
    with pytest.raises(AssertionError):
        a_training_that_is_broken_off_ends_alike(tmp_path)
