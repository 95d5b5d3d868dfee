"""The training loop: what it promises, checked from outside."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from bench_core import Batch, Loss, Rng, Task
from bench_core.computing.evaluating import evaluating
from bench_core.errors import SuiteError, TrainingError
from bench_core.model import Model, State
from bench_training.evaluation import Selection
from bench_training.log import Average
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer


class Numbers(Task):
    """Ten examples whose ids are their data; `streams` of them if asked."""

    streams = False

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, rng=None):
        order = torch.arange(10)
        if rng is not None and not self.streams:
            order = rng.uniform(order).argsort()
        for number, ids in enumerate(order.split(size.number)):
            gold = torch.zeros(len(ids), 1, dtype=torch.long)
            yield Batch(ids, gold, gold, gold[:, 0] + 1, continues=self.streams and number > 0)


class Memory(State):
    pass


class Line(nn.Module, Model):
    """Fits y = w to the number 3; notes what it is given."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.inner = nn.Linear(2, 2)
        self.seen = []

    def loss(self, batch, training):
        self.seen.append((batch.ids.tolist(), training, self.training))
        return Loss((self.w - 3).square().sum() + 0 * self.inner.weight.sum(), batch.mask.sum(), memory=Memory())


def trained(judge=lambda model: (model.w - 3).abs().item(), better=-1, task=None, **settings):
    torch.manual_seed(0)
    model = Line()
    config = TrainingConfig(**{"batch_size": 4, "epochs": 5, "lr": 0.1, **settings})
    task = task or Numbers(None, None)
    trainer = Trainer(model, task, config, Rng(1), torch.device("cpu"), Selection(judge, better, "error"))
    history = trainer.run()
    return model, history, trainer


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_training_reaches_the_minimum(optimizer):
    model, history, _ = trained(optimizer=optimizer, epochs=100)
    assert abs(model.w.item() - 3) < 0.05
    assert len(history) == 100
    assert history[-1]["loss"] < history[0]["loss"]


def test_an_epoch_sees_every_example_once_in_an_order_of_its_own():
    model, _, _ = trained()
    epochs = [[], [], [], [], []]
    for ids, training, _ in model.seen:
        epochs[training.epoch] += ids
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 5
    assert [training.step for _, training, _ in model.seen] == list(range(15))
    assert {training.steps for _, training, _ in model.seen} == {15}


def test_noise_differs_by_step_and_not_by_model():
    first, _, _ = trained()
    second, _, _ = trained(lr=0.2)
    assert len({training.rng for _, training, _ in first.seen}) == 15
    assert [training.rng for _, training, _ in first.seen] == [training.rng for _, training, _ in second.seen]


def test_the_best_weights_are_kept():
    worth = iter([5.0, 1.0, 3.0, 4.0, 2.0])
    kept = []

    def judge(model):
        kept.append(model.w.item())
        return next(worth)

    model, history, _ = trained(judge)
    assert model.w.item() == kept[1]
    assert [entry["best"] for entry in history] == [True, True, False, False, False]


def test_higher_can_be_better():
    worth = iter([1.0, 5.0, 3.0, 4.0, 2.0])
    _, history, _ = trained(lambda model: next(worth), better=1)
    assert [entry["best"] for entry in history] == [True, True, False, False, False]


def test_patience_ends_a_training():
    _, history, _ = trained(lambda model: 1.0, patience=2, epochs=50)
    assert len(history) == 3


def test_plateau_halves_the_rate_without_progress():
    _, history, _ = trained(lambda model: 1.0, schedule="plateau", lr=0.8, epochs=4)
    assert [entry["lr"] for entry in history] == pytest.approx([0.8, 0.8, 0.4, 0.2])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.5, 1, 1, 1, 1, 1]),
        ("inverse-sqrt", [0.5, 1, math.sqrt(2 / 3), math.sqrt(2 / 4), math.sqrt(2 / 5), math.sqrt(2 / 6)]),
        ("linear", [0.5, 1, 0.75, 0.5, 0.25, 0]),
        ("cosine", [0.5, 1, *(0.5 * (1 + math.cos(math.pi * k / 4)) for k in (1, 2, 3, 4))]),
    ],
)
def test_schedules_follow_their_formula(schedule, expected):
    _, history, _ = trained(schedule=schedule, warmup=2, lr=1.0, updates=6, epochs=None, evaluate_every=1)
    assert [entry["lr"] for entry in history] == pytest.approx(expected, abs=1e-12)


def test_updates_and_epochs_whichever_is_first():
    assert trained(updates=4, epochs=5)[2].progress.step == 4
    assert trained(updates=400, epochs=2)[2].progress.step == 6
    assert trained(updates=7, epochs=None)[2].progress.step == 7


def test_evaluations_come_as_often_as_asked_and_at_the_end():
    _, history, _ = trained(updates=8, evaluate_every=3)
    assert [entry["step"] for entry in history] == [3, 6, 8]


def test_gradients_are_clipped_to_their_norm():
    free, _, _ = trained(optimizer="sgd", lr=0.01, updates=1, epochs=None)
    clipped, _, _ = trained(optimizer="sgd", lr=0.01, updates=1, epochs=None, clip=0.5)
    assert free.w.item() == pytest.approx(0.06)
    assert clipped.w.item() == pytest.approx(0.005)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_with_its_step(value):
    class Broken(Line):
        def loss(self, batch, training):
            loss = super().loss(batch, training)
            return Loss(loss.value * value, loss.weight) if training.step == 3 else loss

    trainer = Trainer(
        Broken(), Numbers(None, None), TrainingConfig(batch_size=4), Rng(0), torch.device("cpu"),
        Selection(lambda model: 0.0, -1, "x"),
    )  # fmt: skip
    with pytest.raises(TrainingError, match="step 4"):
        trainer.run()


def test_memory_is_carried_where_a_batch_continues():
    task = Numbers(None, None)
    task.streams = True
    model, _, _ = trained(task=task, epochs=2)
    assert [training.memory is not None for _, training, _ in model.seen] == [False, True, True] * 2


def test_phases_follow_each_other_with_their_settings():
    phases = [{"epochs": 1, "order": "first"}, {"updates": 2, "lr": 0.5, "order": "second"}]
    model, history, _ = trained(phases=phases)
    assert [training.phase["order"] for _, training, _ in model.seen] == ["first"] * 3 + ["second"] * 2
    assert [entry["lr"] for entry in history] == [0.1, 0.5]


def test_progress_is_the_completed_share_of_each_phase():
    phases = [{"epochs": 1, "order": "first"}, {"updates": 2, "lr": 0.5, "order": "second"}]
    model, _, _ = trained(phases=phases)
    assert [training.progress for _, training, _ in model.seen] == [0, 1 / 3, 2 / 3, 0, 1 / 2]
    model, _, _ = trained(updates=4)
    assert [training.progress for _, training, _ in model.seen] == [0, 1 / 4, 1 / 2, 3 / 4]


def test_a_phase_that_patience_ends_leaves_the_next_one_its_length():
    worth = iter([1.0, 2.0, 0.5, 0.4])
    phases = [{"epochs": 9, "order": "first"}, {"updates": 4, "order": "second"}]
    model, _, _ = trained(lambda model: next(worth), patience=1, phases=phases)
    assert [training.phase["order"] for _, training, _ in model.seen] == ["first"] * 6 + ["second"] * 4


def test_a_phase_can_reset_a_module_and_the_optimizer_s_memory_of_it():
    phases = [{"updates": 3}, {"updates": 1, "reset": ["inner"], "lr": 1e-12}]
    model, _, trainer = trained(phases=phases)
    torch.manual_seed(0)
    assert not torch.equal(model.inner.weight, Line().inner.weight)
    assert trainer.optimizers[0].state[model.inner.weight]["step"] == 1
    assert trainer.optimizers[0].state[model.w]["step"] == 4
    with pytest.raises(SuiteError, match=r"phases: cannot reset 'outer'\. The model's modules are: inner"):
        trained(phases=[{"updates": 1, "reset": ["outer"]}])


def test_training_and_evaluation_modes_are_set():
    modes = []
    model, _, _ = trained(lambda model: modes.append((model.training, torch.is_grad_enabled())) or 0.0)
    assert set(modes) == {(False, False)}
    assert all(mode for _, _, mode in model.seen)


def test_an_evaluation_leaves_torch_s_generator_alone():
    model = Line()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with evaluating(model):
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)


def test_averages_weigh_by_tokens():
    average = Average()
    average.add(Loss(torch.tensor(1.0), torch.tensor(3)))
    average.add(Loss(torch.tensor(5.0), torch.tensor(1)))
    assert average.values() == {"loss": 2.0}


def test_a_part_that_some_batches_do_not_tell_is_averaged_over_those_that_do():
    average = Average()
    average.add(Loss(torch.tensor(1.0), torch.tensor(3), {"some": torch.tensor(7.0)}))
    average.add(Loss(torch.tensor(5.0), torch.tensor(1)))
    average.add(Loss(torch.tensor(2.0), torch.tensor(4), {"some": torch.tensor(14.0)}))
    assert average.values() == {"loss": 2.0, "some": 11.0}


def test_an_empty_split_is_an_error():
    class Empty(Numbers):
        def batches(self, *args):
            return iter(())

    with pytest.raises(TrainingError, match="no batches"):
        trained(task=Empty(None, None))


@pytest.mark.parametrize(("bound", "clipped"), [(1, [0.6, 0.8]), (5, [3, 4]), (10, [3, 4]), (None, [3, 4])])
def test_the_worked_numbers_of_clipping(bound, clipped):
    """g = (3, 4) times min(1, bound / 5), over all parameters together."""
    model, _, trainer = trained(epochs=1, clip=bound)
    model.w.grad, model.inner.bias.grad, model.inner.weight.grad = torch.tensor([3.0]), torch.tensor([4.0, 0.0]), None
    assert trainer._clip().item() == 5, "the norm before"
    assert [model.w.grad.item(), *model.inner.bias.grad.tolist()] == pytest.approx([*clipped, 0], abs=1e-7)


def test_a_gradient_of_zero_is_left_as_it_is():
    model, _, trainer = trained(epochs=1, clip=1.0)
    model.w.grad, model.inner.bias.grad, model.inner.weight.grad = torch.zeros(1), torch.zeros(2), None
    assert trainer._clip().item() == 0
    assert model.w.grad.item() == 0


class Looked(nn.Module, Model):
    """Pulls rows 0 to 3 of an embedding towards 1, each as often as a batch names it; row 4 is never named."""

    def __init__(self, sparse):
        super().__init__()
        self.embed, self.scale = nn.Embedding(5, 3, sparse=sparse), nn.Parameter(torch.ones(3))

    def loss(self, batch, training):
        rows = torch.cat([batch.ids % 4, torch.arange(4)])  # some twice and more, each at least once
        return Loss(((self.embed(rows) * self.scale - 1) ** 2).sum(), batch.mask.sum())


def looked_up(sparse, **settings):
    torch.manual_seed(0)
    model = Looked(sparse)
    config = TrainingConfig(**{"batch_size": 4, "epochs": 4, "lr": 0.05, **settings})
    selection = Selection(lambda model: 0.0, -1, "error")
    trainer = Trainer(model, Numbers(None, None), config, Rng(1), torch.device("cpu"), selection)
    history = trainer.run()
    return trainer, history


@pytest.mark.parametrize(
    "settings", [{}, {"clip": 0.5}, {"optimizer": "sgd"}, {"optimizer": "sgd", "clip": 0.1}], ids=str
)
def test_sparse_gradients_train_as_whole_ones_where_every_row_is_named(settings):
    (sparse, seen), (whole, expected) = looked_up(True, **settings), looked_up(False, **settings)
    assert len(sparse.optimizers) == 2
    assert len(whole.optimizers) == 1
    torch.testing.assert_close(sparse.model.state_dict(), whole.model.state_dict(), rtol=1e-4, atol=1e-5)
    assert [one["gradient_norm"] for one in seen] == pytest.approx([one["gradient_norm"] for one in expected], 1e-4)


def test_sparse_gradients_leave_other_rows_and_their_momentum_alone():
    class First(Looked):
        def loss(self, batch, training):
            rows = torch.zeros(2, dtype=torch.long) + (training.step == 0)
            return Loss(((self.embed(rows) * self.scale - 1) ** 2).sum(), batch.mask.sum())

    model = First(True)
    selection = Selection(lambda model: model.embed.weight[1, 0].item(), 0, "row")
    rows = []
    config = TrainingConfig(batch_size=10, epochs=3, lr=0.1, evaluate_every=1)
    judge = lambda model: rows.append(model.embed.weight.clone()) or 0.0  # noqa: E731
    Trainer(model, Numbers(None, None), config, Rng(1), torch.device("cpu"), replace(selection, judge=judge)).run()
    assert torch.equal(rows[0][1], rows[2][1]), "with momentum, row 1 would go on after the step that named it"
    assert not torch.equal(rows[0][0], rows[2][0])
    assert torch.equal(rows[0][2:], rows[2][2:])


@pytest.mark.parametrize("settings", [{"weight_decay": 0.1}, {"name": "sgd", "momentum": 0.9}], ids=str)
def test_what_changes_every_row_is_refused_for_sparse_gradients(settings):
    name = next(key for key in settings if key != "name")
    with pytest.raises(
        SuiteError, match=rf"`{name}` changes every row .* Set `{name}: 0`, or the model's `sparse: false`"
    ):
        optimizers(Looked(True), TrainingConfig(optimizer=settings), torch.device("cpu"))
