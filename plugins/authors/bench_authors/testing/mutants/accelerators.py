"""Mutants of models and decoders that compute on the CPU alone, or make it wait for an accelerator."""

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
    Noise,
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
    """Let the loss compute something else too; a tensor that comes of it is added, times 0."""

    def loss(model: Model, batch: Batch, training: Training) -> Loss:
        return changed(model, batch, model.loss(batch, training))

    def vmap_loss(model: Any, batch: Batch, training: Training) -> Loss:
        return changed(model, batch, model.vmap_loss(batch, training))

    def changed(model: Any, batch: Batch, found: Loss) -> Loss:
        more = extra(model, batch, found)
        return replace(found, value=found.value + 0 * more.sum()) if isinstance(more, Tensor) else found

    methods = {"loss": loss} | ({"vmap_loss": vmap_loss} if hasattr(case.model, "vmap_loss") else {})
    return replace(case, model=patched(case.model, **methods))


#: Losses that compute something on the CPU, or what an accelerator cannot.
COMPUTING_ON_THE_CPU = mutants_by(
    with_loss,
    # `torch.arange` without a device
    makes_places_on_the_cpu=lambda model, batch, loss: torch.arange(len(batch)) * batch.length,
    # what looks tokens up was made in `forward`, on the CPU
    makes_a_table_on_the_cpu=lambda model, batch, loss: torch.zeros(9)[batch.gold[:, 0]],
    # `.numpy()` without `.cpu()`
    reads_by_numpy=lambda model, batch, loss: batch.length.numpy().max(),
    # a generator that was made without a device
    draws_with_a_generator_of_the_cpu=lambda model, batch, loss: torch.rand(
        2, device=batch.ids.device, generator=torch.Generator().manual_seed(0)
    ),
    # `total = torch.zeros(())`, to which a loss is added in place
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
    # `int(length.max())`, of lengths on the device
    finds_the_longest_row=lambda model, batch, loss: int(batch.length.max()),
    # `torch.tensor` of numbers of Python, on the device
    copies_a_constant=lambda model, batch, loss: torch.tensor([1.0, 2.0], device=batch.ids.device),
)


def keeps_a_tensor_that_does_not_move(case: Case) -> Case:
    """A tensor is an attribute, and no buffer."""
    scale = torch.ones(5)
    return with_loss(case, lambda model, batch, loss: scale[: len(batch)] * batch.length.double())


def with_setup(case: Case, change: Callable[[Any], None]) -> Case:
    """Let `setup` end with a change of the model."""
    kind = case.config.load()

    def build(config: Config, info: TaskInfo) -> Model:
        model: Any = kind(config, info)
        before = model.setup

        def setup(info: TaskInfo, noise: Noise) -> None:
            before(info, noise)
            change(model)

        model.setup = setup
        return model  # type: ignore[no-any-return]

    return replace(case, config=posing(case.config, load=classmethod(lambda cls: build)))


def sets_up_on_the_cpu(case: Case) -> Case:
    """`setup` makes a buffer anew, on the CPU."""
    return with_setup(case, lambda model: model.register_buffer("table", torch.ones(2)))


@mutant(with_setup)
def fills_with_numbers_of_the_cpu(model: Any) -> None:
    """`setup` adds to weights what it computed on the CPU."""
    weights = next(iter(model.parameters()))
    weights.data += torch.zeros(1, *weights.shape)[0] + torch.zeros(2)[:1]


@mutant(instead_of("model", "score"))
def scores_places_on_the_cpu(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The score adds up by a table on the CPU."""
    found = model.score(batch, scoring)
    return replace(found, log_probs=found.log_probs + torch.zeros(len(batch)))


@mutant(instead_of("model", "sample"))
def samples_with_numbers_of_the_cpu(model: Sampler, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
    """A sample looks at rows by places on the CPU."""
    return model.sample(batch.select(torch.arange(len(batch))), max_tokens, noise)


@mutant(instead_of("decoder", "decode"))
def decodes_with_places_on_the_cpu(decoder: Any, model: Model, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
    """The decoder selects rows by places on the CPU."""
    found: list[list[Hypothesis]] = decoder.decode(model, batch.select(torch.arange(len(batch))), noise)
    return found
