"""The facts of training fail for wrong trainers: each mutant breaks one thing, and a fact catches it."""

from __future__ import annotations

import copy
import runpy
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from bench_small.trainings import CPU, Lines, Net, ended, interrupted, same, trainer

from bench_core import Rng, Size
from bench_core.model import Training
from bench_training import averaging, batch_stream, clipping, evaluation, resuming, update
from bench_training.averaging import WeightAverage
from bench_training.evaluation import Selection, mean_loss
from bench_training.precision import Precision
from bench_training.schedules import LearningRates
from bench_training.settings import Phase, Stop
from bench_training.trainer import Trainer
from bench_training.vmapped import JointTrainer

HERE = Path(__file__).parent
OPTIONS = runpy.run_path(str(HERE / "test_training_options.py"))
VMAPPED = runpy.run_path(str(HERE / "test_vmapped.py"))


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# Facts


def resumes(**settings):
    """A training that is killed ends as if undisturbed."""

    def make(kept=None, turn=0):
        one = trainer(Net(0.3, turn), checkpoints=kept, **settings)
        run = one.run
        one.run = lambda: (torch.manual_seed(7), run())[1]
        return one

    with TemporaryDirectory() as folder:
        same(interrupted(make, Path(folder), 5), ended(make()))


def accumulates():
    OPTIONS["test_a_batch_in_parts_has_the_gradient_of_the_whole"](3, {}, None)


def parts_remember():
    OPTIONS["test_parts_of_a_stream_carry_their_own_memory"](2, None)


def judges_the_weights_that_it_keeps():
    """What a training ends with is what was judged best."""
    values = []

    def judge(model):
        values.append(model.top.weight.square().sum().item())
        return values[-1]

    one = trainer(average="uniform", selection=Selection(judge, -1, "size"), evaluate_every=2)
    one.run()
    assert one.model.top.weight.square().sum().item() == pytest.approx(min(values), rel=1e-12)


def counts_equal_values_as_no_progress():
    """Training stops after so many evaluations of the same value."""
    flat = Selection(lambda model: 1.0, 1, "flat")
    one = trainer(stop=flat, selection=Selection(rising(), 1, "step"), evaluate_every=1)
    one.config = one.config.model_copy(update={"stop": Stop(metric="flat", patience=3)})
    assert len(one.run()) == 4
    one = trainer(selection=flat, patience=2, evaluate_every=1)
    assert len(one.run()) == 3


def rising():
    values = count()
    return lambda model: float(next(values))


def clips_what_was_unscaled():
    """A gradient in fp16 is clipped as the one of fp32 is, whose norm the log has."""
    found = {}
    for precision in ("fp32", "fp16"):
        one = trainer(Net().float(), precision=precision, clip=0.01, optimizer="sgd", lr=0.5, updates=4)
        begun = one.model.top.weight.detach().clone()
        history, weights = ended(one)
        found[precision] = (weights["top.weight"] - begun).norm().item(), history[0]["gradient_norm"]
    assert found["fp16"] == pytest.approx(found["fp32"], rel=0.05)


def evaluates_with_smoothing():
    """`select: {metric: loss}` is the loss that is minimised, labels smoothed alike."""
    model, losses = Net(), {}
    for smoothing in (0.0, 0.5):
        losses[smoothing] = mean_loss(model, Lines(None, None), "valid", Size(8), Rng(3), CPU, smoothing)
        with torch.no_grad():
            wanted = by_hand(model, smoothing)
        assert losses[smoothing] == pytest.approx(wanted, rel=1e-12)
    assert losses[0.0] != pytest.approx(losses[0.5], rel=1e-3)


def by_hand(model, smoothing):
    """Return the loss of all rows, per target token."""
    total, tokens = 0.0, 0
    for step, batch in enumerate(Lines(None, None).batches("valid", None, Size(8))):
        training = Training(0, 1, 0, 1, Rng(3).fork(step), label_smoothing=smoothing)
        total += model.eval().loss(batch, training).value.item() * batch.length.sum().item()
        tokens += batch.length.sum().item()
    return total / tokens


def seeds_read_their_own_orders():
    VMAPPED["test_each_copy_reads_its_own_batches_which_differ_in_rows_and_lengths"](None)


def shares_add_up_to_the_whole():
    """Processes that hold rows of several lengths leave the gradient of the whole batch in the weights."""
    whole, one = Net(), Net()
    (batch, *_) = Lines(None, None).batches("train", None, Size(7))
    settings = trainer(whole)._training({})
    trainer(whole)._gradient(batch, settings, [])
    found = add_up(one, [batch_stream.share_of(batch, rank, 3) for rank in range(3)], settings)
    for mine, wanted in zip(found.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, wanted.grad, rtol=1e-9, atol=1e-12)


class Group:
    """Stands for the processes of a training, of which all but the last have left their sums."""

    def __init__(self):
        self.gradients, self.value, self.weight = {}, 0.0, 0.0

    def add_gradients(self, model, value, weight):
        for name, each in model.named_parameters():
            self.gradients[name] = self.gradients.get(name, 0) + each.grad
            each.grad = self.gradients[name].clone()
        self.value, self.weight = self.value + value, self.weight + weight
        return self.value, self.weight


def add_up(model, shares, settings):
    group = Group()
    for share in shares:
        model.zero_grad()
        update.Gradient(model, model.loss, Precision("fp32", CPU), CPU, 1, group).of(share, settings, [])
    return model


def a_phase_has_its_own_momentum():
    OPTIONS["test_a_phase_with_an_optimizer_of_its_own_begins_without_momentum"]()


def updates_are_those_of_torch():
    OPTIONS["test_an_optimizer_is_that_of_torch"]("SGD", None)


def a_schedule_is_that_of_torch():
    OPTIONS["test_a_schedule_of_torch_has_the_rates_that_it_has_there"]("StepLR")


INFO = {
    "accumulation": accumulates,
    "memory of parts": parts_remember,
    "exponential average": lambda: OPTIONS["test_an_exponential_average_is_its_formula"](None),
    "uniform average": lambda: OPTIONS["test_a_uniform_average_is_the_mean_of_the_weights_after_each_update"](None),
    "average of checkpoints": lambda: OPTIONS["test_an_average_of_checkpoints_is_the_mean_of_the_last_evaluations"](None),
    "weights beside their average": (
        lambda: OPTIONS["test_training_goes_on_from_the_weights_and_not_from_their_average"](None)
    ),
    "clipping each": lambda: OPTIONS["test_clipping_each_scales_only_what_is_too_long"](),
    "clipping by value": lambda: OPTIONS["test_clipping_by_value_bounds_every_entry"](),
    "rates by group": lambda: OPTIONS["test_groups_have_their_own_rates_and_settings"](),
    "torch schedules": a_schedule_is_that_of_torch,
    "a schedule sequence": lambda: OPTIONS["test_a_sequence_goes_from_one_schedule_to_the_next"](),
    "resumed rates": lambda: OPTIONS["test_rates_can_be_computed_from_any_update_on"](),
    "resumption": lambda: resumes(optimizer={"name": "sgd", "momentum": 0.9}),
    "resumption of a schedule": lambda: resumes(schedule={"name": "StepLR", "step_size": 2, "gamma": 0.5}),
    "resumption of an average": lambda: resumes(average={"kind": "exponential", "decay": 0.7}),
    "momentum of phases": a_phase_has_its_own_momentum,
    "schedules of phases": (
        lambda: OPTIONS["test_a_phase_begins_its_own_schedule_and_the_next_goes_on_with_the_common_one"]()
    ),
    "updates": updates_are_those_of_torch,
    "judged weights": judges_the_weights_that_it_keeps,
    "equal values": counts_equal_values_as_no_progress,
    "unscaled clipping": clips_what_was_unscaled,
    "smoothing in evaluation": evaluates_with_smoothing,
    "orders of seeds": seeds_read_their_own_orders,
    "gradients of processes": shares_add_up_to_the_whole,
}  # fmt: skip


@pytest.mark.parametrize("fact", INFO)
def test_the_trainer_has_the_facts(fact):
    INFO[fact]()


# Mutants, each with the fact that it breaks

MUTANTS = []


def breaks(fact):
    def note(mutant):
        MUTANTS.append((fact, mutant))
        return mutant

    return note


@breaks("accumulation")
def divides_by_the_number_of_parts(patch):
    totals = update.Gradient._totals
    patch.setattr(
        update.Gradient, "_totals",
        lambda self, losses: (totals(self, losses)[0], torch.tensor(8.0 * len(losses))),
    )  # fmt: skip


@breaks("accumulation")
def forgets_the_last_part(patch):
    patch.setattr(update, "parts_of", lambda batch, number: batch_stream.parts_of(batch, number)[:-1])


@breaks("memory of parts")
def swaps_the_memory_of_parts(patch):
    of = update.Gradient._of_parts
    patch.setattr(
        update.Gradient, "_of_parts", lambda self, parts, training, memory: of(self, parts, training, memory[::-1])
    )


@breaks("memory of parts")
def gives_all_parts_the_first_memory(patch):
    of = update.Gradient._of_parts
    patch.setattr(
        update.Gradient, "_of_parts",
        lambda self, parts, training, memory: of(self, parts, training, [*memory[:1]] * len(memory)),
    )  # fmt: skip


def mutated_average(patch, change):
    add_update = WeightAverage.add_update
    patch.setattr(WeightAverage, "add_update", lambda self, model, step: add_update(self, model, change(step)))


@breaks("uniform average")
def begins_an_update_late(patch):
    mutated_average(patch, lambda step: step - 1)


@breaks("uniform average")
def averages_updates_before_the_start(patch):
    mutated_average(patch, lambda step: step + 100)


@breaks("exponential average")
def swaps_the_shares_of_an_average(patch):
    lerp = torch._foreach_lerp_
    patch.setattr(averaging.torch, "_foreach_lerp_", lambda old, new, share: lerp(old, new, 1 - share))


@breaks("average of checkpoints")
def keeps_one_evaluation_too_many(patch):
    add_evaluation = WeightAverage.add_evaluation

    def wrong(self, model):
        self.config = self.config.model_copy(update={"last": 3})
        add_evaluation(self, model)

    patch.setattr(WeightAverage, "add_evaluation", wrong)


@breaks("weights beside their average")
def goes_on_from_the_average(patch):
    def wrong(self, work):
        if self.average is not None and self.average.mean:
            averaging._copy(averaging._weights(self.model), self.average.mean)
        return work()

    patch.setattr(Trainer, "_with_average", wrong)


@breaks("judged weights")
def keeps_the_last_weights_and_not_those_judged(patch):
    patch.setattr(
        Trainer, "_weights", lambda self: {name: each.clone() for name, each in self.model.state_dict().items()}
    )


@breaks("judged weights")
def keeps_the_last_ones(patch):
    patch.setattr(Trainer, "_improves", lambda self, value, best: True)


@breaks("clipping each")
def clips_each_by_the_norm_of_all(patch):
    norms = torch._foreach_norm
    patch.setattr(
        clipping.torch,
        "_foreach_norm",
        lambda several, *more, **named: [torch.stack([*norms(several)]).norm()] * len(several),
    )


@breaks("clipping by value")
def clips_only_from_above(patch):
    patch.setattr(clipping.torch, "_foreach_clamp_min_", lambda several, least: None)


@breaks("rates by group")
def forgets_rates_of_groups(patch):
    patch.setattr(
        "bench_training.trainer.set_peak",
        lambda optimizer, lr: [group.update(peak_lr=lr) for group in optimizer.param_groups],
    )


@breaks("torch schedules")
def makes_a_step_of_the_schedule_early(patch):
    late = LearningRates.set
    patch.setattr(LearningRates, "set", lambda self, update: late(self, update + 1))


@breaks("a schedule sequence")
def skips_the_second_schedule(patch):
    force = LearningRates._in_force
    patch.setattr(
        LearningRates,
        "_in_force",
        lambda self, update: (max(0, force(self, update)[0] - 1), *force(self, update)[1:]),
    )


@breaks("resumed rates")
def counts_a_schedule_from_where_it_was_resumed(patch):
    def wrong(self, number, one):
        build(self, number, one)
        self.steps = 1

    build = LearningRates._build
    patch.setattr(LearningRates, "_build", wrong)


@breaks("resumption of a schedule")
def begins_the_schedule_anew_after_a_checkpoint(patch):
    restore = Trainer._restore

    def wrong(self, kept):
        restore(self, kept)
        late, missed = self.rates.set, self.progress.step
        self.rates.set = lambda update: late(update - missed)

    patch.setattr(Trainer, "_restore", wrong)


@breaks("resumption")
def forgets_the_state_of_optimizers(patch):
    patch.setattr(resuming, "load_state", lambda optimizer, kept: None)


@breaks("resumption")
def forgets_the_generators(patch):
    patch.setattr(resuming.torch, "set_rng_state", lambda state: None)


@breaks("resumption")
def reads_the_epoch_from_its_first_batch(patch):
    patch.setattr(Trainer, "_batches_of_epoch", lambda self: self._epoch(self.progress.epoch))


@breaks("resumption of an average")
def forgets_the_average(patch):
    patch.setattr(WeightAverage, "restore", lambda self, state: None)


@breaks("momentum of phases")
def shares_the_optimizer_of_all_phases(patch):
    use = Trainer._use
    patch.setattr(
        Trainer, "_use", lambda self, phase, updates: use(self, phase.model_copy(update={"optimizer": None}), updates)
    )


@breaks("schedules of phases")
def goes_on_with_the_common_schedule(patch):
    patch.setattr(Phase, "own_schedule", property(lambda self: False))


@breaks("updates")
def adds_gradients_of_the_update_before(patch):
    patch.setattr(torch.optim.Optimizer, "zero_grad", lambda self, set_to_none=True: None)


@breaks("equal values")
def takes_equal_values_for_progress(patch):
    patch.setattr(Trainer, "_improves", lambda self, value, best: best is None or value >= best)


@breaks("equal values")
def counts_equal_values_as_progress_of_stopping(patch):
    note = Trainer._note_stop

    def wrong(self, value):
        note(self, None if value is None else value)
        if value is not None and value == self.progress.stop_best:
            self.progress.stop_stale = 0

    patch.setattr(Trainer, "_note_stop", wrong)


@breaks("unscaled clipping")
def clips_the_scaled_gradient(patch):
    patch.setattr(Precision, "unscale", lambda self, optimizers: None)


@breaks("smoothing in evaluation")
def ignores_smoothing_in_evaluation(patch):
    patch.setattr(evaluation, "Training", lambda *given, label_smoothing: Training(*given))


@breaks("orders of seeds")
def reads_all_seeds_in_the_order_of_the_first(patch):
    epoch = JointTrainer._epoch

    def wrong(self, number):
        other = copy.copy(self)
        other.rngs = [self.rngs[0]] * len(self.rngs)
        return epoch(other, number)

    patch.setattr(JointTrainer, "_epoch", wrong)


@breaks("gradients of processes")
def averages_processes_and_not_tokens(patch):
    lost = update.Gradient._compute_loss
    patch.setattr(
        update.Gradient, "_compute_loss",
        lambda self, batch, training: update.replace(lost(self, batch, training), weight=torch.tensor(1.0)),
    )  # fmt: skip


@pytest.mark.parametrize(("fact", "mutant"), MUTANTS, ids=[mutant.__name__ for _, mutant in MUTANTS])
def test_a_wrong_trainer_is_caught(fact, mutant, monkeypatch):
    with monkeypatch.context() as patch:
        mutant(patch)
        with pytest.raises(AssertionError):
            INFO[fact]()


def test_every_fact_catches_a_mutant():
    assert {fact for fact, _ in MUTANTS} == {*INFO}
