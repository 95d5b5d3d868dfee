"""The generation loop of greedy decoding and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from bench_core.data import STOP, Batch, Hypothesis

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core.random_numbers import Noise

Pick: TypeAlias = Callable[["Tensor", "Tensor", int], "Tensor"]  # log-probs [M, A], ids [M], step -> actions [M]


class Steps(Protocol):
    """What the loop needs of a `Stepper`."""

    actions_per_token: ClassVar[int]

    def start(self, batch: Batch) -> tuple[Tensor, Any]: ...
    def step(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]: ...
    def limit(self, batch: Batch) -> Tensor | None: ...
    def read(self, actions: list[int]) -> list[int]: ...


def generate(model: Steps, batch: Batch, pick: Pick, max_tokens: int) -> list[Hypothesis]:
    """Choose one action per step in every row until it stops; finished rows leave the batch."""
    import torch

    most = limits(model, batch, max_tokens)
    log_probs, state = model.start(batch)
    device = log_probs.device
    ids, most = batch.ids.to(device), most.to(device)
    rows = torch.arange(len(batch), device=device)  # [M] those still going
    totals = torch.zeros(len(batch), dtype=torch.float64, device=device)
    taken: list[tuple[Tensor, Tensor]] = []
    for step in range(int(most.max()) * model.actions_per_token):
        actions = pick(log_probs, ids[rows], step)
        totals[rows] += log_probs.gather(1, actions[:, None])[:, 0]
        taken.append((rows, actions))
        live = ((actions != STOP) & ((step + 1) // model.actions_per_token < most[rows])).nonzero()[:, 0]
        if not len(live):
            break
        if len(live) < len(rows):
            rows, actions, state = rows[live], actions[live], state.select(live)
        log_probs, state = model.step(state, actions)
    chains = _gathered(taken, len(batch))
    return [as_hypothesis(model, chain, total) for chain, total in zip(chains, totals.tolist(), strict=True)]


def _gathered(taken: list[tuple[Tensor, Tensor]], number: int) -> list[list[int]]:
    """Return the chain of each row; a row that has left never returns, so its steps are the first ones."""
    import torch

    table = taken[0][1].new_zeros(number, len(taken))
    lengths = table.new_zeros(number)
    for step, (rows, actions) in enumerate(taken):
        table[rows, step] = actions
        lengths[rows] = step + 1
    lists: list[list[int]] = torch.as_tensor(table).tolist()
    return [row[:length] for row, length in zip(lists, lengths.tolist(), strict=True)]


def limits(model: Steps, batch: Batch, max_tokens: int) -> Tensor:
    """Return the maximum number of target tokens of each row [N], stop included."""
    own = model.limit(batch)
    return batch.ids.new_full((len(batch),), max_tokens) if own is None else own.clamp(max=max_tokens)


def as_hypothesis(model: Steps, chain: list[int], log_prob: float) -> Hypothesis:
    """Return the hypothesis of a chain of actions, which ends in stop if it is finished."""
    finished = chain[-1] == STOP
    actions = chain[:-1] if finished else chain
    return Hypothesis(model.read(actions), finished, log_prob, actions)


def draw(noise: Noise) -> Pick:
    """Return a pick that samples by one random number per row and step."""
    return lambda log_probs, ids, step: invert(log_probs, noise.uniform(ids, step))


def invert(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Return the action [M] at which the cumulative probability reaches `uniform` [M], never one of probability 0."""
    import torch

    reached = log_probs.exp().cumsum(1, dtype=torch.float64)
    return torch.searchsorted(reached, uniform[:, None] * reached[:, -1:])[:, 0]


def topk_stable(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` highest values of each row [N, k] and their indices, descending; ties to the lower index.

    `topk` breaks ties arbitrarily: looking up one value more finds the rows with ties, which are sorted again.
    """
    k, size = min(k, values.shape[1]), values.shape[1]
    found, places = values.topk(min(k + 1, size), 1)
    tied = (found[:, 1:] == found[:, :-1]).any(1).nonzero()[:, 0]
    found, places = found[:, :k], places[:, :k]
    if len(tied):
        found[tied], places[tied] = _topk_of_ties(values[tied], k)
    return found, places


def _topk_of_ties(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    import torch

    size = values.shape[1]
    least = values.topk(k, 1).values[:, -1:]
    place = torch.arange(size, device=values.device).expand_as(values)
    key = torch.where(values > least, place - size, torch.where(values == least, place, size))
    places = (key.topk(k, 1, largest=False).values % size).sort(1).values
    chosen, order = values.gather(1, places).sort(stable=True, dim=1, descending=True)
    return chosen, places.gather(1, order)
