"""Contracts of losses."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_authors.testing.cases import Case, can, turned
from bench_authors.testing.contracts import ROUNDING, catches, close, seed_torch
from bench_authors.testing.mutants import models as mutants
from bench_authors.testing.mutants.weights import MISWEIGHING
from bench_core import Batch, Loss, Stepper, Training, Vmappable
from bench_training.api import Stack, TrainingConfig, optimizers, stacked


@catches(mutants.draws_in_turn)
def the_loss_does_not_depend_on_the_order_of_rows(case: Case) -> None:
    """So whatever it draws, it draws by the ids of examples."""
    close(case.loss(turned(case.batch)).value, case.loss().value, "loss in the opposite order")


@catches(mutants.sums_over_tokens)
def the_loss_is_a_mean(case: Case) -> None:
    """Of the same rows twice it is as of them once: a training does not depend on how many rows a batch has."""
    batch = weighted(case.batch, None)
    rows = torch.arange(len(batch), device=batch.ids.device)
    close(case.loss(batch.select(rows.repeat(2))).value, case.loss(batch).value, "loss of the same rows twice")


@catches(mutants.learns_padding)
def the_loss_does_not_depend_on_padding(case: Case) -> None:
    """Rows are padded as long as the longest of a batch, whichever that is."""
    padded = replace(case.batch, gold=pad(case.batch.gold, (0, 2)))
    close(case.loss(padded).value, case.loss().value, "loss with more padding")


@catches(mutants.weighs_padding, mutants.loses_its_gradient, mutants.loses_without_bounds)
def the_loss_is_finite_and_weighs_target_tokens(case: Case) -> None:
    """Its gradients too, and they reach the parameters; here, examples have no weights."""
    case = replace(case, batch=weighted(case.batch, None))
    with torch.enable_grad():
        model = deepcopy(case.model).train()
        loss = replace(case, model=model).loss()
        assert loss.value.requires_grad, "the loss has no gradient"
        loss.value.backward()  # type: ignore[no-untyped-call]
    assert loss.value.shape == loss.weight.shape == (), "value and weight are single numbers"
    assert loss.value.isfinite(), f"the loss is {loss.value.item()}"
    assert loss.weight.item() == case.batch.mask.sum().item(), (
        f"weight is {loss.weight.item()}, not the target tokens"
    )
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    assert any(gradient.count_nonzero() for gradient in gradients), "no parameter has a gradient"
    assert all(gradient.isfinite().all() for gradient in gradients), "a gradient is not finite"
    assert all(part.shape == () for part in loss.parts.values()), "what the log shows are single numbers"


@catches(*MISWEIGHING)
def weights_of_examples_are_ignored_or_weigh_their_tokens(case: Case) -> None:
    """A row that weighs 3 counts like three rows, one that weighs 0 like none; the same in `value` and `weight`.

    Where a loss ignores `extras["weight"]`, both are as they are without.
    """
    batch = weighted(case.batch, None)
    rows = torch.arange(len(batch), device=batch.ids.device)
    times = 1 + (rows - 1) % 3  # 3, 1, 2, 3, 1
    times = times.index_fill(0, rows[1:2], 0)  # 3, 0, 2, 3, 1
    plain, found = case.loss(batch), case.loss(weighted(batch, times))
    if _alike(found, plain):
        return
    repeated = case.loss(batch.select(rows.repeat_interleave(times)))
    wanted = f"of rows that weigh {times.tolist()}, and of the rows as often"
    close(found.value, repeated.value, f"loss {wanted}")
    close(found.weight.double(), repeated.weight.double(), f"weight of the loss {wanted}")
    halved = case.loss(weighted(batch, times / 4))
    close(halved.value, found.value, "loss of rows that weigh a quarter, and of the rows that weigh all")
    close(4 * halved.weight.double(), found.weight.double(), "four times the weight of such a loss, and its weight")


@catches(mutants.trains_by_settings_of_evaluation, when=lambda case: bool(case.config.evaluation))
def settings_of_evaluation_do_not_decide_what_is_trained(case: Case) -> None:
    """With other values of them, a model begins with the same weights and has the same loss."""
    for name in sorted(case.config.evaluation):
        value = getattr(case.config, name)
        other = not value if isinstance(value, bool) else value + 1
        one, two = (
            Case.of(config, info=case.info, batch=case.batch)
            for config in (case.config, case.config.model_copy(update={name: other}))
        )
        for key, weights in one.model.state_dict().items():
            close(two.model.state_dict()[key], weights, f"{key} with another `{name}`")
        with torch.random.fork_rng(devices=[]):
            losses = [_trained_loss(each) for each in (one, two)]
        close(losses[1], losses[0], f"loss with another `{name}`")


def _trained_loss(case: Case) -> Tensor:
    seed_torch(0)
    case.model.train()
    return case.loss().value


@catches(
    mutants.ignores_label_smoothing, mutants.smooths_labels_twice, when=lambda case: case.config.smooths_labels()
)
def labels_are_smoothed_by_as_much_as_asked(case: Case) -> None:
    """The loss is linear in it; where it is -log p of targets, so is what it becomes, with a share of all tokens."""
    plain, some, more = (case.loss(smoothing=share).value for share in (0.0, 0.1, 0.3))
    assert some != plain, "a loss with smoothed labels is the same as without"
    close(more - plain, 3 * (some - plain), "three times the label smoothing changes the loss three times as much")
    batch = weighted(case.batch, None)
    if not isinstance(case.model, Stepper) or case.model.actions_per_token > 1:
        return
    along = _along_targets(case.model, batch)  # [M, V]
    gold = batch.gold[batch.mask]
    exact = -along.gather(1, gold[:, None]).mean()
    if torch.allclose(case.loss(batch).value, exact, rtol=1e-6):
        wanted = 0.7 * exact - 0.3 * along.mean()
        close(case.loss(batch, smoothing=0.3).value, wanted, "loss with a label smoothing of 0.3")


def _along_targets(model: Stepper, batch: Batch) -> Tensor:
    """Return the log-probabilities of all tokens before each target token [M, V], row by row."""
    found = []
    for row in range(len(batch)):
        one = batch.select(batch.ids.new_tensor([row]))
        log_probs, state = model.start(one)
        for token in one.gold[0, : int(one.length)]:
            found.append(log_probs)
            if token:
                log_probs, state = model.step(state, token[None])
    return torch.cat(found)


@catches(mutants.loses_otherwise_in_a_stack, mutants.draws_alike_in_all_copies, when=can(Vmappable))
def copies_in_a_stack_lose_what_they_lose_alone(case: Case) -> None:
    """Each by its own weights, noise and rows, parts included; rows have other lengths, or are fewer."""
    other = deepcopy(case.model)
    for weights in other.parameters():
        weights.mul_(0.7)
    copies, noises = (case.model, other), (case.noise, case.noise.fork("other"))
    training = Training(0, 100, 0, 1, case.noise)
    batches = (case.batch, fewer(turned(case.batch)))
    found = Stack(copies).losses(stacked(batches), training, [noise.key for noise in noises])
    for number, (model, noise, batch) in enumerate(zip(copies, noises, batches, strict=True)):
        wanted = model.loss(batch, replace(training, noise=noise))
        close(found.value[number], wanted.value, f"loss of copy {number}")
        assert found.weight[number] == wanted.weight, f"copy {number} weighs {found.weight[number]}"
        assert {*found.parts} == {*wanted.parts}, "a stack shows other parts of the loss"
        for name, part in wanted.parts.items():
            close(found.parts[name][number], part, f"{name} of copy {number}")


@catches(mutants.climbs)
def eight_examples_can_be_learnt_by_heart(case: Case) -> None:
    """In a hundred steps the loss falls by a third."""
    rows = torch.arange(8, device=case.batch.ids.device) % min(4, len(case.batch))
    case = replace(case, model=deepcopy(case.model), batch=case.batch.select(rows))
    before = after = case.loss().value.item()
    steppers = optimizers(case.model, TrainingConfig(lr=0.02), case.batch.ids.device)
    for step in range(100):
        case.model.train()
        with torch.enable_grad():
            case.model.zero_grad()
            case.loss(step=step).value.backward()  # type: ignore[no-untyped-call]
            for optimizer in steppers:
                optimizer.step()
        case.model.eval()
        if step % 10 == 9 and (after := case.loss().value.item()) < 0.7 * before:
            return
    raise AssertionError(f"after 100 steps on the same eight rows the loss went from {before} to {after}")


def fewer(batch: Batch) -> Batch:
    """Return a batch without its last row, as wide as its rows are then."""
    rows = torch.arange(len(batch) - 1, device=batch.ids.device)
    batch = batch.select(rows)
    return replace(batch, gold=batch.gold[:, : int(batch.length.max())])


def weighted(batch: Batch, weights: Tensor | None) -> Batch:
    """Return a batch with these weights of examples [N] in its extras, or none."""
    extras = {name: tensor for name, tensor in batch.extras.items() if name != "weight"}
    return replace(batch, extras=extras if weights is None else {**extras, "weight": weights.double()})


def _alike(one: Loss, other: Loss) -> bool:
    """Return whether two losses are the same, but for rounding of the value."""
    return torch.allclose(one.value, other.value, rtol=ROUNDING, atol=0) and one.weight.item() == other.weight.item()
