"""Contracts of losses."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor
from torch.nn.functional import pad

from bench_authors.testing.cases import Case, can, reverse_rows
from bench_authors.testing.contracts import ROUNDING, assert_close, catches, seed_torch
from bench_authors.testing.mutants import models as mutants
from bench_authors.testing.mutants.weights import MISWEIGHING
from bench_core import Batch, Loss, Stepper, Training, Vmappable
from bench_training.api import Stack, TrainingConfig, optimizers, stacked


@catches(mutants.draws_in_turn)
def the_loss_does_not_depend_on_the_order_of_rows(case: Case) -> None:
    """Compare the loss with the loss of the rows in reverse order: randomness must depend on example ids."""
    assert_close(case.loss(reverse_rows(case.batch)).value, case.loss().value, "loss in reverse order")


@catches(mutants.sums_over_tokens)
def the_loss_is_a_mean(case: Case) -> None:
    """Compare the loss of a batch with the loss of its rows repeated: training must not depend on the batch size."""
    batch = with_weights(case.batch, None)
    rows = torch.arange(len(batch), device=batch.ids.device)
    assert_close(case.loss(batch.select(rows.repeat(2))).value, case.loss(batch).value, "loss of the same rows twice")


@catches(mutants.learns_padding)
def the_loss_does_not_depend_on_padding(case: Case) -> None:
    """Compare the loss with the loss after more padding, whose amount depends on the longest row of a batch."""
    padded = replace(case.batch, gold=pad(case.batch.gold, (0, 2)))
    assert_close(case.loss(padded).value, case.loss().value, "loss with more padding")


@catches(mutants.weighs_padding, mutants.loses_its_gradient, mutants.loses_without_bounds)
def the_loss_is_finite_and_weighs_target_tokens(case: Case) -> None:
    """Check value, weight and gradients of the loss without weights of examples; parameters must have gradients."""
    case = replace(case, batch=with_weights(case.batch, None))
    with torch.enable_grad():
        model = deepcopy(case.model).train()
        loss = replace(case, model=model).loss()
        assert loss.value.requires_grad, "the loss has no gradient"
        loss.value.backward()  # type: ignore[no-untyped-call]
    assert loss.value.shape == loss.weight.shape == (), "value and weight must be scalars"
    assert loss.value.isfinite(), f"the loss is not finite: {loss.value.item()}"
    assert loss.weight.item() == case.batch.mask.sum().item(), (
        f"weight is {loss.weight.item()}, not the number of target tokens"
    )
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    assert any(gradient.count_nonzero() for gradient in gradients), "no parameter has a gradient"
    assert all(gradient.isfinite().all() for gradient in gradients), "a gradient is not finite"
    assert all(part.shape == () for part in loss.parts.values()), "parts of the loss must be scalars"


@catches(*MISWEIGHING)
def weights_of_examples_are_ignored_or_weigh_their_tokens(case: Case) -> None:
    """Check that a row of weight 3 counts like three rows and a row of weight 0 like none, in `value` and `weight`.

    Alternatively, a loss may ignore `extras["weight"]` in both.
    """
    batch = with_weights(case.batch, None)
    rows = torch.arange(len(batch), device=batch.ids.device)
    times = 1 + (rows - 1) % 3  # 3, 1, 2, 3, 1
    times = times.index_fill(0, rows[1:2], 0)  # 3, 0, 2, 3, 1
    plain, heavy = case.loss(batch), case.loss(with_weights(batch, times))
    if _is_equal(heavy, plain):
        return
    repeated = case.loss(batch.select(rows.repeat_interleave(times)))
    pair = f"of rows with weights {times.tolist()} vs. of repeated rows"
    assert_close(heavy.value, repeated.value, f"loss {pair}")
    assert_close(heavy.weight.double(), repeated.weight.double(), f"weight of the loss {pair}")
    quarter = case.loss(with_weights(batch, times / 4))
    assert_close(quarter.value, heavy.value, "loss of rows with a quarter of the weights vs. with the weights")
    assert_close(
        4 * quarter.weight.double(), heavy.weight.double(), "four times the weight of this loss vs. its weight"
    )


@catches(mutants.trains_by_settings_of_evaluation, when=lambda case: bool(case.config.evaluation))
def settings_of_evaluation_do_not_decide_what_is_trained(case: Case) -> None:
    """Check that evaluation settings change neither initial weights nor the loss."""
    for name in sorted(case.config.evaluation):
        other = _another(getattr(case.config, name))
        first, second = (
            Case.of(config, info=case.info, batch=case.batch)
            for config in (case.config, case.config.model_copy(update={name: other}))
        )
        for key, weights in first.model.state_dict().items():
            assert_close(second.model.state_dict()[key], weights, f"{key} with another `{name}`")
        with torch.random.fork_rng(devices=[]):
            losses = [_training_loss(each) for each in (first, second)]
        assert_close(losses[1], losses[0], f"loss with another `{name}`")


def _another(value: Any) -> Any:
    """Return another value of a setting: of nested settings, with other values of all but their kind."""
    if isinstance(value, BaseModel):
        changed = {name: _another(inner) for name, inner in value if name != "kind"}
        return value.model_copy(update=changed)
    return not value if isinstance(value, bool) else (value or 0) + 1


def _training_loss(case: Case) -> Tensor:
    seed_torch(0)
    case.model.train()
    return case.loss().value


@catches(
    mutants.ignores_label_smoothing, mutants.smooths_labels_twice, when=lambda case: case.config.smooths_labels()
)
def labels_are_smoothed_by_as_much_as_asked(case: Case) -> None:
    """Check that the loss is linear in label smoothing, and equals the definition if it is -log p of targets."""
    plain, some, more = (case.loss(smoothing=share).value for share in (0.0, 0.1, 0.3))
    assert some != plain, "label smoothing does not change the loss"
    assert_close(more - plain, 3 * (some - plain), "change of the loss for three times the label smoothing")
    batch = with_weights(case.batch, None)
    if not isinstance(case.model, Stepper) or case.model.actions_per_token > 1:
        return
    along = _along_targets(case.model, batch)  # [M, V]
    gold = batch.gold[batch.mask]
    exact = -along.gather(1, gold[:, None]).mean()
    if torch.allclose(case.loss(batch).value, exact, rtol=1e-6):
        expected = 0.7 * exact - 0.3 * along.mean()
        assert_close(case.loss(batch, smoothing=0.3).value, expected, "loss with a label smoothing of 0.3")


def _along_targets(model: Stepper, batch: Batch) -> Tensor:
    """Return the log-probabilities of all tokens at each target token [M, V], row by row."""
    collected = []
    for row in range(len(batch)):
        single = batch.select(batch.ids.new_tensor([row]))
        log_probs, state = model.start(single)
        for token in single.gold[0, : int(single.length)]:
            collected.append(log_probs)
            if token:
                log_probs, state = model.step(state, token[None])
    return torch.cat(collected)


@catches(mutants.loses_otherwise_in_a_stack, mutants.draws_alike_in_all_copies, when=can(Vmappable))
def copies_in_a_stack_lose_what_they_lose_alone(case: Case) -> None:
    """Compare a stack with its copies, which differ in weights and rows: losses and their parts must agree."""
    other = deepcopy(case.model)
    for weights in other.parameters():
        weights.mul_(0.7)
    copies, rngs = (case.model, other), (case.rng, case.rng.fork("other"))
    training = Training(0, 100, 0, 1, case.rng)
    batches = (case.batch, drop_last_row(reverse_rows(case.batch)))
    stack = Stack(copies).losses(stacked(batches), training, [rng.key for rng in rngs])
    for number, (model, rng, batch) in enumerate(zip(copies, rngs, batches, strict=True)):
        expected = model.loss(batch, replace(training, rng=rng))
        assert_close(stack.value[number], expected.value, f"loss of copy {number}")
        assert stack.weight[number] == expected.weight, f"wrong weight of copy {number}: {stack.weight[number]}"
        assert {*stack.parts} == {*expected.parts}, "the loss of a stack has different parts"
        for name, part in expected.parts.items():
            assert_close(stack.parts[name][number], part, f"{name} of copy {number}")


@catches(mutants.climbs)
def eight_examples_can_be_learnt_by_heart(case: Case) -> None:
    """Train on eight rows: the loss must fall by 30 % within a hundred steps."""
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
    raise AssertionError(f"after 100 steps on the same eight rows, the loss changed from {before} to {after}")


def drop_last_row(batch: Batch) -> Batch:
    """Return a batch without its last row, and without padding that is no longer needed."""
    rows = torch.arange(len(batch) - 1, device=batch.ids.device)
    batch = batch.select(rows)
    return replace(batch, gold=batch.gold[:, : int(batch.length.max())])


def with_weights(batch: Batch, weights: Tensor | None) -> Batch:
    """Return a batch with weights of examples [N] in its extras, or without weights."""
    extras = {name: tensor for name, tensor in batch.extras.items() if name != "weight"}
    return replace(batch, extras=extras if weights is None else {**extras, "weight": weights.double()})


def _is_equal(first: Loss, second: Loss) -> bool:
    """Return whether two losses are equal up to rounding of the value."""
    return (
        torch.allclose(first.value, second.value, rtol=ROUNDING, atol=0)
        and first.weight.item() == second.weight.item()
    )
