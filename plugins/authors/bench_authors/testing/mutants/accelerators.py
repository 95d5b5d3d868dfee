"""Mutants of models and decoders that compute on the CPU, or make the CPU wait for an accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bench_authors.testing.contracts import instead_of, mutant, mutants_by, patched, posing
from bench_core import (
    Batch,
    Config,
    Hypothesis,
    Loss,
    Model,
    Rng,
    Sampler,
    Scorer,
    Scores,
    Scoring,
    TaskInfo,
    Training,
)

if TYPE_CHECKING:
    from bench_authors.testing.cases import Case


def with_loss(case: Case, extra: Callable[[Any, Batch, Loss], object]) -> Case:
    """Add an extra computation to the loss; if it returns a tensor, 0 times its sum is added to the loss."""

    def loss(model: Model, batch: Batch, training: Training) -> Loss:
        return with_extra(model, batch, model.loss(batch, training))

    def vmap_loss(model: Any, batch: Batch, training: Training) -> Loss:
        return with_extra(model, batch, model.vmap_loss(batch, training))

    def with_extra(model: Any, batch: Batch, result: Loss) -> Loss:
        more = extra(model, batch, result)
        return replace(result, value=result.value + 0 * more.sum()) if isinstance(more, Tensor) else result

    methods = {"loss": loss} | ({"vmap_loss": vmap_loss} if hasattr(case.model, "vmap_loss") else {})
    return replace(case, model=patched(case.model, **methods))


#: Losses with operations on the CPU, or operations that accelerators do not support.
COMPUTING_ON_THE_CPU = mutants_by(
    with_loss,
    # `torch.arange` without a device
    makes_places_on_the_cpu=lambda model, batch, loss: torch.arange(len(batch)) * batch.length,
    # a lookup table created on the CPU in `forward`
    makes_a_table_on_the_cpu=lambda model, batch, loss: torch.zeros(9)[batch.gold[:, 0]],
    # `.numpy()` without `.cpu()`
    reads_by_numpy=lambda model, batch, loss: batch.length.numpy().max(),
    # a generator without a device
    draws_with_a_generator_of_the_cpu=lambda model, batch, loss: torch.rand(
        2, device=batch.ids.device, generator=torch.Generator().manual_seed(0)
    ),
    # `total = torch.zeros(())`, with a loss added in place
    adds_up_in_a_number_on_the_cpu=lambda model, batch, loss: torch.zeros(()).add_(loss.value.detach()),
    # a matrix product of integers, for which GPUs have no kernel
    multiplies_whole_numbers=lambda model, batch, loss: batch.gold @ batch.gold.T,
)

#: Losses that wait for an accelerator.
WAITING = mutants_by(
    with_loss,
    # `.item()`
    looks_at_its_loss=lambda model, batch, loss: loss.value.item(),
    # a mask as an index, whose size is counted on the device
    counts_by_a_mask=lambda model, batch, loss: batch.gold[batch.mask],
    # `int(length.max())` of lengths on the device
    finds_the_longest_row=lambda model, batch, loss: int(batch.length.max()),
    # `torch.tensor` of Python numbers on the device
    copies_a_constant=lambda model, batch, loss: torch.tensor([1.0, 2.0], device=batch.ids.device),
)


def keeps_a_tensor_that_does_not_move(case: Case) -> Case:
    """A tensor is an attribute instead of a buffer."""
    scale = torch.ones(5)
    return with_loss(case, lambda model, batch, loss: scale[: len(batch)] * batch.length.double())


def with_setup(case: Case, change: Callable[[Any], None]) -> Case:
    """Change the model at the end of `setup`."""
    kind = case.config.load()

    def build(config: Config, info: TaskInfo) -> Model:
        model: Any = kind(config, info)
        before = model.setup

        def setup(info: TaskInfo, rng: Rng) -> None:
            before(info, rng)
            change(model)

        model.setup = setup
        return model  # type: ignore[no-any-return]

    return replace(case, config=posing(case.config, load=classmethod(lambda cls: build)))


def sets_up_on_the_cpu(case: Case) -> Case:
    """`setup` creates a buffer on the CPU."""
    return with_setup(case, lambda model: model.register_buffer("table", torch.ones(2)))


@mutant(with_setup)
def fills_with_numbers_of_the_cpu(model: Any) -> None:
    """`setup` adds CPU tensors to weights."""
    weights = next(iter(model.parameters()))
    weights.data += torch.zeros(1, *weights.shape)[0] + torch.zeros(2)[:1]


@mutant(instead_of("model", "score"))
def scores_places_on_the_cpu(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score adds a CPU tensor."""
    scores = model.score(batch, scoring)
    return replace(scores, log_probs=scores.log_probs + torch.zeros(len(batch)))


@mutant(instead_of("model", "sample"))
def samples_with_numbers_of_the_cpu(model: Sampler, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
    """The sampler selects rows by indices on the CPU."""
    return model.sample(batch.select(torch.arange(len(batch))), max_tokens, rng)


@mutant(instead_of("decoder", "decode"))
def decodes_with_places_on_the_cpu(decoder: Any, model: Model, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
    """The decoder selects rows by indices on the CPU."""
    outputs: list[list[Hypothesis]] = decoder.decode(model, batch.select(torch.arange(len(batch))), rng)
    return outputs
