"""Every option of a training does what it says, and a training that is killed ends as if undisturbed."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import count, islice

import pytest
import torch
from bench_small.trainings import CPU, Lines, Net, ended, interrupted, same, trainer
from torch import nn

from bench_core import Batch, Loss, Rng, Size
from bench_core.errors import SuiteError, TrainingError
from bench_core.model import State, Training
from bench_training.averaging import WeightAverage
from bench_training.evaluation import Selection
from bench_training.named_classes import names
from bench_training.optimizers import optimizers
from bench_training.precision import Precision
from bench_training.schedules import LearningRates
from bench_training.settings import TrainingConfig

#: Settings without which a class cannot be built.
NEEDED = {
    "steplr": {"step_size": 3, "gamma": 0.5},
    "multisteplr": {"milestones": [2, 5], "gamma": 0.3},
    "exponentiallr": {"gamma": 0.8},
    "cosineannealinglr": {"T_max": 5},
    "cosineannealingwarmrestarts": {"T_0": 3},
    "cycliclr": {"base_lr": 0.001, "max_lr": 0.1, "step_size_up": 2, "cycle_momentum": True},
    "onecyclelr": {"max_lr": 0.1, "total_steps": 14},
}
OWN_SCHEDULES = ["constant", "plateau", "linear", "cosine"]


@dataclass(frozen=True)
class Sums(State):
    units: torch.Tensor


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# Resumed = uninterrupted

OPTIONS = {
    **{f"optimizer {name}": {"optimizer": name} for name in names("optimizer") if name != "Muon"},
    "optimizer Muon": {"optimizer": "muon", "groups": [{"match": ["*.bias", "embed*"], "optimizer": "adamw"}]},
    **{f"optimizer {name}, settings": {"optimizer": settings} for name, settings in {
        "sgd": {"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        "adam": {"name": "adam", "amsgrad": True, "betas": [0.8, 0.95], "eps": 1e-6},
        "rmsprop": {"name": "rmsprop", "centered": True, "momentum": 0.5},
    }.items()},
    **{
        f"schedule {name}": {"schedule": {"name": name, **NEEDED.get(name.lower(), {})}}
        for name in [*OWN_SCHEDULES, *names("schedule")]
    },
    "schedule of epochs": {"schedule": {"name": "ExponentialLR", "gamma": 0.5, "every": "epoch"}},
    "inverse-sqrt": {"schedule": "inverse-sqrt", "warmup": 3},
    "cycles of momentum": {
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "schedule": {"name": "CyclicLR", "base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3},
    },
    "a sequence": {
        "warmup": 2,
        "schedule": [{"name": "linear", "updates": 4, "end": 0.2}, {"name": "StepLR", "updates": 3, "step_size": 1},
                     "cosine"],
    },
    "groups": {"groups": [{"match": "embed*", "lr": 0.1}, {"match": "*.bias", "weight_decay": 0.3}]},
    "accumulated": {"accumulate": 3},
    "clipped by value": {"clip": {"value": 0.01}},
    "clipped each": {"clip": {"each": 0.01}},
    "exponential average": {"average": {"kind": "exponential", "decay": 0.7, "start": 2}},
    "uniform average": {"average": {"kind": "uniform", "start": 1}},
    "average of checkpoints": {"average": {"kind": "checkpoints", "last": 2}},
    "smoothed": {"label_smoothing": 0.2},
    "phases": {"phases": [
        {"updates": 5}, {"updates": 4, "optimizer": {"name": "sgd", "momentum": 0.9}, "lr": 0.1, "warmup": 2},
        {"updates": 5, "schedule": "linear"}, {"updates": 3, "optimizer": "rmsprop"},
    ]},
    "phases and a schedule of torch": {
        "schedule": {"name": "ExponentialLR", "gamma": 0.9},
        "phases": [{"updates": 5}, {"updates": 4, "schedule": "cosine"}, {"updates": 5, "lr": 0.1}],
    },
    "phases and averages": {"average": "uniform", "phases": [{"updates": 5}, {"updates": 4, "reset": ["top"]}]},
}  # fmt: skip


@pytest.mark.quick(4, 14)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_training_that_is_killed_ends_as_if_undisturbed(name, tmp_path):
    make = lambda kept=None, seed=0: trainer(Net(0.3, seed), checkpoints=kept, **OPTIONS[name])  # noqa: E731
    torch.manual_seed(7)
    first = make()
    torch.manual_seed(7)
    wanted = ended(first)

    def begin(kept, turn):
        one = make(kept, 0 if turn == 0 else 50 + turn)
        run = one.run
        one.run = lambda: (torch.manual_seed(7), run())[1]
        return one

    same(interrupted(begin, tmp_path, 5), wanted)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32"])
def test_so_does_one_in_other_precisions(precision, tmp_path):
    def make(kept, turn):
        one = trainer(Net(0.3, turn), checkpoints=kept, precision=precision)
        run = one.run
        one.run = lambda: (torch.manual_seed(7), run())[1]
        return one

    same(interrupted(make, tmp_path, 5), ended(make(None, 0)))


@pytest.mark.slow
def test_every_option_changes_what_a_training_ends_with():
    """Else its resumption would show nothing."""

    def last():
        turns = count()
        return Selection(lambda model: -next(turns), -1, "turn")

    plain = ended(trainer(selection=last()))[1]
    usual = {"optimizer Adam", "schedule constant", "schedule plateau", "accumulated"}
    for name, settings in OPTIONS.items():
        changed = ended(trainer(selection=last(), **settings))[1]
        assert name in usual or any(not torch.equal(changed[one], plain[one]) for one in plain), name


# Optimizers and groups


@pytest.mark.parametrize("name", names("optimizer"))
def test_an_optimizer_is_that_of_torch(name, double):
    """The same updates, by a loop that knows torch alone."""
    settings = {"groups": [{"match": ["embed.weight", "*.bias"], "optimizer": "sgd"}]} if name == "Muon" else {}
    ours = trainer(optimizer=name, updates=6, evaluate_every=6, **settings)
    plain, theirs = Net(), []
    matrices = [
        each for one, each in plain.named_parameters() if name != "Muon" or one in ("inner.weight", "top.weight")
    ]
    others = [each for each in plain.parameters() if not any(each is one for one in matrices)]
    theirs = [getattr(torch.optim, name)(matrices, lr=0.02), *([torch.optim.SGD(others, lr=0.02)] if others else [])]
    rng, task = Rng(1), Lines(None, None)
    batches = (
        batch for epoch in range(3) for batch in task.batches("train", None, Size(8), rng.fork("order").fork(epoch))
    )
    for step, batch in enumerate(islice(batches, 6)):
        plain.zero_grad()
        plain.loss(batch, Training(step, 6, 0, 1, rng.fork("loss").fork(step))).value.backward()
        for optimizer in theirs:
            optimizer.step()
    ours.run()
    torch.testing.assert_close(dict(ours.model.named_parameters()), dict(plain.named_parameters()), rtol=1e-9, atol=0)


def test_groups_have_their_own_rates_and_settings():
    one = trainer(
        optimizer={"name": "adam", "weight_decay": 0.1},
        groups=[{"match": ["embed*", "top.bias"], "lr": 0.5}, {"match": "*.bias", "weight_decay": 0.0}],
        schedule="linear",
    )
    one.run()
    (optimizer,) = one.optimizers
    names = {id(weights): name for name, weights in one.model.named_parameters()}
    found = {
        tuple(sorted(names[id(each)] for each in group["params"])): (group["peak_lr"], group["weight_decay"])
        for group in optimizer.param_groups
    }
    assert found == {
        ("inner.weight", "top.weight"): (0.02, 0.1),
        ("embed.weight", "top.bias"): (0.5, 0.1),
        ("inner.bias",): (0.02, 0.0),
    }
    assert {group["lr"] for group in optimizer.param_groups} == {0.0}, "all follow the schedule"


def test_a_rate_of_zero_leaves_weights_as_they_are():
    _, found = ended(trainer(groups=[{"match": "embed.*", "lr": 0}]))
    begun = Net().state_dict()
    assert torch.equal(found["embed.weight"], begun["embed.weight"])
    assert not torch.equal(found["top.weight"], begun["top.weight"])


def test_a_group_that_matches_nothing_is_refused():
    with pytest.raises(
        SuiteError, match=r"groups: no weights match 'embedding\.\*'. The model has embed.weight, inner"
    ):
        trainer(groups=[{"match": ["top.*", "embedding.*"]}])


def test_settings_that_torch_refuses_are_named():
    with pytest.raises(SuiteError, match="optimizer 'adam' cannot be built with these settings: Invalid beta"):
        trainer(optimizer={"name": "adam", "betas": [1.5, 0.9]})
    with pytest.raises(SuiteError, match="schedule 'OneCycleLR' cannot be built with these settings: "):
        trainer(schedule={"name": "OneCycleLR", "max_lr": 0.1, "total_steps": -1}).run()


# Schedules


def rates(updates=12, epoch=3, peak=1.0, **settings):
    """Return the learning rate of each update."""
    weights = nn.Parameter(torch.ones(1))
    config = TrainingConfig(lr=peak, **settings)
    model = nn.ParameterList([weights])
    given = optimizers(model, config, CPU)
    found = LearningRates(given, config.schedule, config.warmup, updates, epoch)
    found.begin()
    several = []
    for update in range(1, updates + 1):
        found.set(update)
        several.append(given[0].param_groups[0]["lr"])
    return several


@pytest.mark.parametrize("name", names("schedule"))
def test_a_schedule_of_torch_has_the_rates_that_it_has_there(name):
    settings = NEEDED.get(name.lower(), {})
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9)
    theirs = getattr(torch.optim.lr_scheduler, name)(optimizer, **settings)
    wanted = []
    for _ in range(12):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    found = rates(peak=0.5, optimizer={"name": "sgd", "momentum": 0.9}, schedule={"name": name, **settings})
    assert found == pytest.approx(wanted, rel=1e-12)
    assert len({*found}) > 1 or name == "ConstantLR"


def test_a_sequence_goes_from_one_schedule_to_the_next():
    found = rates(
        warmup=2,
        schedule=[{"name": "linear", "updates": 4, "end": 0.2}, {"name": "StepLR", "updates": 3, "step_size": 2},
                  {"name": "constant", "factor": 0.05, "epochs": 1}, {"name": "cosine", "end": 0.5}],
    )  # fmt: skip
    line = [1 - 0.8 * k / 3 for k in (1, 2, 3)]
    assert found == pytest.approx([0.5, 1.0, *line, 1.0, 1.0, 0.1, 0.05, 0.05, 0.05, 0.5])


def test_shares_of_a_schedule_are_of_the_whole_training_with_its_warm_up():
    schedule = [{"name": "constant", "share": 0.5}, "linear"]
    line = [1 - k / 6 for k in range(1, 7)]
    assert rates(warmup=2, schedule=schedule) == pytest.approx([0.5, *[1.0] * 5, *line])
    assert rates(schedule=schedule) == pytest.approx([*[1.0] * 6, *line])
    thirds = [{"name": "constant", "share": 1 / 3}, {"name": "constant", "factor": 0.5, "share": 1 / 3}, "linear"]
    assert rates(schedule=thirds) == pytest.approx([*[1.0] * 4, *[0.5] * 4, 0.75, 0.5, 0.25, 0.0])
    assert rates(schedule=[*thirds[:2], {"name": "linear", "share": 1 / 3}]) == rates(schedule=thirds)
    whole_as_warmup = [{"name": "constant", "share": 0.1}, "linear"]
    assert rates(warmup=4, schedule=whole_as_warmup)[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("share", [0, 1.01, -0.2, 80])
def test_a_share_of_a_schedule_is_at_most_the_whole_training(share):
    with pytest.raises(ValueError, match="share"):
        TrainingConfig(schedule=[{"name": "constant", "share": share}, "linear"])


def test_shares_of_a_sequence_sum_to_at_most_the_whole_training():
    several = [{"name": "constant", "share": 0.7}, {"name": "linear", "share": 0.4}]
    with pytest.raises(ValueError, match=r"sum to 1.1.*at most 1\. Reduce"):
        TrainingConfig(schedule=several)
    TrainingConfig(schedule=[{"name": "constant", "share": 0.6}, *several[1:]])


def test_steps_by_epochs():
    assert rates(schedule={"name": "ExponentialLR", "gamma": 0.5, "every": "epoch"}, epoch=5) == pytest.approx(
        [1.0] * 5 + [0.5] * 5 + [0.25] * 2
    )


def test_rates_can_be_computed_from_any_update_on():
    """That is what a resumed training does."""
    settings = {"schedule": [{"name": "linear", "updates": 4}, {"name": "CosineAnnealingLR", "T_max": 4}]}
    config = TrainingConfig(lr=1.0, **settings)
    wanted = rates(**settings)
    for begin in range(1, 13):
        given = optimizers(nn.ParameterList([nn.Parameter(torch.ones(1))]), config, CPU)
        found = LearningRates(given, config.schedule, 0, 12, 3)
        found.set(begin)
        assert given[0].param_groups[0]["lr"] == wanted[begin - 1]


def test_a_phase_begins_its_own_schedule_and_the_next_goes_on_with_the_common_one():
    history = trainer(
        schedule="linear", lr=1.0, optimizer="sgd", evaluate_every=1,
        phases=[{"updates": 4}, {"updates": 4, "schedule": "cosine", "lr": 0.5}, {"updates": 2}],
    ).run()  # fmt: skip
    found = [entry["lr"] for entry in history]
    cosine = [0.25 * (1 + math.cos(math.pi * k / 4)) for k in (1, 2, 3, 4)]
    assert found == pytest.approx([0.9, 0.8, 0.7, 0.6, *cosine, 0.1, 0.0], abs=1e-12)


def test_a_phase_with_an_optimizer_of_its_own_begins_without_momentum():
    one = trainer(
        optimizer="adam",
        phases=[{"updates": 4}, {"updates": 3, "optimizer": "adam"}, {"updates": 2}],
        evaluate_every=1,
    )
    one.run()
    weights = one.model.inner.weight
    assert one.optimizers is one.common_optimizers
    assert one.optimizers[0].state[weights]["step"] == 6, "those of the first and the last phase"


# Accumulation


@pytest.mark.quick(5, 5)
@pytest.mark.parametrize("parts", [2, 3, 8, 50])
@pytest.mark.parametrize("more", [{}, {"clip": 0.1}, {"clip": {"each": 0.02}}, {"optimizer": "sgd"}], ids=str)
def test_a_batch_in_parts_has_the_gradient_of_the_whole(parts, more, double):
    whole, found = trainer(**more), trainer(accumulate=parts, **more)
    (history, wanted), (other, weights) = ended(whole), ended(found)
    for name in dict(whole.model.named_parameters()):
        torch.testing.assert_close(weights[name], wanted[name], rtol=1e-9, atol=1e-12)
    for entry, one in zip(history, other, strict=True):
        assert entry["loss"] == pytest.approx(one["loss"], rel=1e-12)
        assert entry["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-9)
    assert weights["seen"] >= wanted["seen"] * min(parts, 8)


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_of_a_stream_carry_their_own_memory(parts, double):
    class Stream(Lines):
        def batches(self, split, purpose, size, rng=None):
            for number, batch in enumerate(super().batches(split, purpose, size)):
                gold = (batch.gold + batch.ids[:, None] // 4) % 5  # no two parts are alike
                yield Batch(batch.ids, batch.prompt, gold, batch.length, continues=number > 0)

    class Recurrent(Net):
        def loss(self, batch, training):
            past = training.memory.units if training.memory is not None else torch.zeros(len(batch), 6)
            units = self.inner(self.embed(batch.gold).mean(1) + past).tanh()
            costs = nn.functional.cross_entropy(self.top(units), batch.gold[:, 0], reduction="none")
            tokens = batch.length.sum()
            return Loss((costs * batch.length).sum() / tokens, tokens, memory=Sums(units))

    wanted = ended(trainer(Recurrent(), Stream(None, None)))[1]
    found = ended(trainer(Recurrent(), Stream(None, None), accumulate=parts))[1]
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


# Clipping


def clipped(clip):
    one = trainer(clip=clip, updates=1)
    gradients = [torch.full_like(each, 3.0) for each in one.model.parameters()]
    gradients[0][0, 0] = -400.0
    for each, gradient in zip(one.model.parameters(), gradients, strict=True):
        each.grad = gradient.clone()
    norm = one._clip()
    assert norm.item() == pytest.approx(math.sqrt(sum(each.square().sum().item() for each in gradients)))
    return gradients, [each.grad for each in one.model.parameters()]


def test_clipping_by_value_bounds_every_entry():
    before, after = clipped({"value": 2.0})
    for one, other in zip(before, after, strict=True):
        assert torch.equal(other, one.clamp(-2, 2))


def test_clipping_each_scales_only_what_is_too_long():
    before, after = clipped({"each": 10.0})
    for one, other in zip(before, after, strict=True):
        assert torch.allclose(other, one * min(1.0, 10.0 / one.norm().item()))
    assert any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


# Averages


def test_an_exponential_average_is_its_formula(double):
    average, weights = WeightAverage(TrainingConfig(average={"decay": 0.75, "start": 2}).average), []
    model, wanted = Net(), None
    for step in range(1, 9):
        with torch.no_grad():
            model.top.weight.add_(torch.randn(5, 6))
        weights.append(model.top.weight.clone())
        average.add_update(model, step)
    wanted = weights[2]
    for each in weights[3:]:
        wanted = 0.75 * wanted + 0.25 * each
    torch.testing.assert_close(average.mean["top.weight"], wanted)


def test_a_uniform_average_is_the_mean_of_the_weights_after_each_update(double):
    after = []
    one = trainer(average={"kind": "uniform", "start": 4}, evaluate_every=12)
    step = one._step
    one._step = lambda: (step(), after.append(copy.deepcopy(dict(one.model.named_parameters()))))[0]
    _, found = ended(one)
    mean = {name: torch.stack([each[name] for each in after[4:]]).mean(0) for name in after[0]}
    for name, wanted in mean.items():
        torch.testing.assert_close(found[name], wanted.detach(), rtol=1e-12, atol=1e-14)


def test_an_average_of_checkpoints_is_the_mean_of_the_last_evaluations(double):
    at, judged = [], []
    one = trainer(average={"kind": "checkpoints", "last": 2}, evaluate_every=3)
    add_evaluation = one.average.add_evaluation
    one.average.add_evaluation = lambda model: (at.append(model.top.weight.detach().clone()), add_evaluation(model))[
        1
    ]
    one.selection = Selection(lambda model: judged.append(model.top.weight.clone()) or -len(judged), -1, "size")
    _, found = ended(one)
    wanted = [at[0], *((at[k - 1] + at[k]) / 2 for k in (1, 2, 3))]
    for each, mean in zip(judged, wanted, strict=True):
        torch.testing.assert_close(each, mean)
    torch.testing.assert_close(found["top.weight"], wanted[-1])


def test_training_goes_on_from_the_weights_and_not_from_their_average(double):
    updates = []
    for average in (None, "exponential"):
        one = trainer(**({"average": average} if average else {}), evaluate_every=3)
        step = one._step
        after = []
        one._step = lambda step=step, one=one, after=after: (step(), after.append(one.model.top.weight.clone()))[0]
        one.run()
        updates.append(after)
    assert all(torch.equal(*pair) for pair in zip(*updates, strict=True))


# Precision


def test_a_scaled_gradient_that_is_infinite_leaves_the_update_out(monkeypatch):
    one = trainer(precision="fp16", updates=6, evaluate_every=1, optimizer="sgd", lr=1e-3)
    after, scales, step = [], [], one._step

    def traced():
        if len(after) == 2:
            one.model.top.weight.grad[0, 0] = torch.inf
            one.arithmetic.scaler._per_optimizer_states.clear()
            one.arithmetic.scaler.unscale_(one.optimizers[0])
        step()
        after.append(one.model.top.weight.detach().clone())
        scales.append(one.arithmetic.scaler.get_scale())

    one._step = traced
    one.run()
    assert torch.equal(after[2], after[1]), "no update"
    assert not torch.equal(after[3], after[2])
    assert scales[2] == scales[1] / 2


def test_the_scale_does_not_show_in_weights():
    """Steps are those of the gradient itself, but for the rounding of fp16."""
    begun = Net().state_dict()
    found = {precision: ended(trainer(precision=precision, optimizer="sgd"))[1] for precision in ("fp32", "fp16")}
    moved = {one: (weights["top.weight"] - begun["top.weight"]).norm().item() for one, weights in found.items()}
    assert moved["fp16"] == pytest.approx(moved["fp32"], rel=0.02)


def test_gradients_that_are_never_finite_end_a_training_in_fp16():
    class Broken(Net):
        def loss(self, batch, training):
            loss = super().loss(batch, training)
            return Loss(loss.value + (self.top.weight * 0).sum().sqrt(), loss.weight)  # its gradient is NaN

    with pytest.raises(TrainingError, match="gradients are not finite in fp16, even with a loss scale of"):
        trainer(Broken(), precision="fp16", updates=60).run()


@pytest.mark.parametrize(
    ("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)]
)
def test_forward_passes_are_in_the_precision(name, dtype):
    with Precision(name, CPU).forward():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_tf32_is_for_the_training_alone(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    seen = []

    def allowed():
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    class Looking(Net):
        def loss(self, batch, training):
            seen.append(allowed())
            return super().loss(batch, training)

    trainer(Looking(), precision="tf32").run()
    assert {*seen} == {("high", True)}
    assert allowed() == ("highest", False)


# Stopping and selection


def test_training_stops_by_a_metric_that_need_not_be_the_selection():
    worth, other = iter([5.0, 4.0, 3.0, 2.0, 1.0]), iter([1.0, 1.05, 2.0, 2.05, 2.0])
    one = trainer(
        selection=Selection(lambda model: next(worth), -1, "loss"), stop=Selection(lambda model: next(other), 1, "bleu"),
        updates=40, evaluate_every=2,
    )  # fmt: skip
    one.config = TrainingConfig(
        **{**one.config.model_dump(), "stop": {"metric": "bleu", "patience": 2, "change": 0.5}}
    )
    history = one.run()
    assert [entry["bleu"] for entry in history] == [1.0, 1.05, 2.0, 2.05, 2.0], "1.05 and 2.05 are no progress"
    assert [entry["best"] for entry in history] == [True] * 5


def test_label_smoothing_reaches_the_loss_and_its_evaluation():
    seen = []

    class Looking(Net):
        def loss(self, batch, training):
            seen.append(training.label_smoothing)
            return super().loss(batch, training)

    trainer(Looking(), label_smoothing=0.3).run()
    assert {*seen} == {0.3}
