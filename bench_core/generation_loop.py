"""The generation loop for greedy decoding and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from bench_core.data import STOP, Batch, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core.random_numbers import Rng

Pick: TypeAlias = Callable[["Tensor", "Tensor", int], "Tensor"]  # log-probs [M, A], ids [M], step -> actions [M]


class StepperLike(Protocol):
    """The methods of a `Stepper` that the loop uses."""

    actions_per_token: ClassVar[int]

    def start(self, batch: Batch) -> tuple[Tensor, Any]: ...
    def step(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]: ...
    def limit(self, batch: Batch) -> Tensor | None: ...
    def read(self, actions: list[int]) -> list[int]: ...


def generate(model: StepperLike, batch: Batch, pick: Pick, max_tokens: int) -> list[Hypothesis]:
    """Generate one hypothesis per row, choosing actions by `pick`; finished rows leave the batch."""
    import torch

    most = limits(model, batch, max_tokens)
    log_probs, state = model.start(batch)
    device = log_probs.device
    ids, most = batch.ids.to(device), most.to(device)
    rows = torch.arange(len(batch), device=device)  # [M] unfinished rows
    totals = torch.zeros(len(batch), dtype=torch.float64, device=device)
    steps_taken: list[tuple[Tensor, Tensor]] = []
    for step in range(int(most.max()) * model.actions_per_token):
        actions = pick(log_probs, ids[rows], step)
        totals[rows] += log_probs.gather(1, actions[:, None])[:, 0]
        steps_taken.append((rows, actions))
        live = ((actions != STOP) & ((step + 1) // model.actions_per_token < most[rows])).nonzero()[:, 0]
        if not len(live):
            break
        if len(live) < len(rows):
            rows, actions, state = rows[live], actions[live], state.select(live)
        log_probs, state = model.step(state, actions)
    chains = _action_sequences(steps_taken, len(batch))
    return [as_hypothesis(model, chain, total) for chain, total in zip(chains, totals.tolist(), strict=True)]


def _action_sequences(steps_taken: list[tuple[Tensor, Tensor]], number: int) -> list[list[int]]:
    """Return the action sequence of each row; a row that has left the batch never returns."""
    import torch

    table = steps_taken[0][1].new_zeros(number, len(steps_taken))
    lengths = table.new_zeros(number)
    for step, (rows, actions) in enumerate(steps_taken):
        table[rows, step] = actions
        lengths[rows] = step + 1
    lists: list[list[int]] = torch.as_tensor(table).tolist()
    return [row[:length] for row, length in zip(lists, lengths.tolist(), strict=True)]


def limits(model: StepperLike, batch: Batch, max_tokens: int) -> Tensor:
    """Return the maximum number of target tokens of each row [N], including EOS."""
    model_limits = model.limit(batch)
    if model_limits is None:
        return batch.ids.new_full((len(batch),), max_tokens)
    return model_limits.clamp(max=max_tokens)


def as_hypothesis(model: StepperLike, chain: list[int], log_prob: float) -> Hypothesis:
    """Convert an action sequence, which ends in EOS if it is finished, to a hypothesis."""
    finished = chain[-1] == STOP
    actions = chain[:-1] if finished else chain
    return Hypothesis(model.read(actions), finished, log_prob, actions)


def draw(rng: Rng) -> Pick:
    """Return a pick function that samples with one random number per row and step."""
    return lambda log_probs, ids, step: invert(log_probs, rng.uniform(ids, step))


def invert(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Sample actions [M] by inverse transform of `uniform` [M]; never chooses an action of probability 0."""
    import torch

    reached = log_probs.exp().cumsum(1, dtype=torch.float64)
    return torch.searchsorted(reached, uniform[:, None] * reached[:, -1:])[:, 0]


def topk_stable(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` highest values of each row [N, k] and their indices, descending; lower indices win ties.

    `topk` breaks ties arbitrarily, so one extra value is computed to detect rows with ties, which are sorted again.
    """
    k, size = min(k, values.shape[1]), values.shape[1]
    highest, places = values.topk(min(k + 1, size), 1)
    tied = (highest[:, 1:] == highest[:, :-1]).any(1).nonzero()[:, 0]
    highest, places = highest[:, :k], places[:, :k]
    if len(tied):
        highest[tied], places[tied] = _topk_of_ties(values[tied], k)
    return highest, places


def _topk_of_ties(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    import torch

    size = values.shape[1]
    least = values.topk(k, 1).values[:, -1:]
    place = torch.arange(size, device=values.device).expand_as(values)
    key = torch.where(values > least, place - size, torch.where(values == least, place, size))
    places = (key.topk(k, 1, largest=False).values % size).sort(1).values
    chosen, order = values.gather(1, places).sort(stable=True, dim=1, descending=True)
    return chosen, places.gather(1, order)
