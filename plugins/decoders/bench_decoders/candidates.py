"""The finished candidates of each row in a search, and the test whether a better one is still possible."""

from bisect import insort

import torch
from torch import Tensor

from bench_core import STOP, Hypothesis, Stepper, as_hypothesis
from bench_decoders.call_counter import counted
from bench_decoders.plugin import BeamConfig


class Candidates:
    """The best chains of N rows, ranked by log P / length^alpha, then by their actions, the lower first."""

    def __init__(self, config: BeamConfig, most: Tensor) -> None:
        self.config = config
        self.pools = [Pool(config) for _ in range(len(most))]
        scales = [limit**config.alpha for limit in most.tolist()]
        self.scales = torch.tensor(scales, dtype=torch.float64, device=most.device)  # [N] the largest divisors
        self.needed = torch.full_like(self.scales, -torch.inf)  # [N] see Pool

    def ranks(self, totals: Tensor, before: Tensor, stopped: Tensor, length: int) -> Tensor:
        """Return the ranks [M] of chains of log-probability `totals`, and `before` without their last action.

        Where stop does not count it is taken off both log P and length, and nothing but stop ranks at -inf.
        """
        whole = totals / float(length**self.config.alpha)
        if self.config.count_stop:
            return whole
        bare = before / float((length - 1) ** self.config.alpha) if length > 1 else before - torch.inf
        return torch.where(stopped, bare, whole)

    def add(self, rows: Tensor, ranks: Tensor, chains: Tensor, totals: Tensor) -> None:
        """File new chains [M, steps] of `rows` [M]."""
        if not len(rows):
            return
        homes = rows.tolist()
        for home, *found in zip(homes, ranks.tolist(), chains.tolist(), totals.tolist(), strict=True):
            self.pools[home].add(*found)
        self.needed[rows] = self.needed.new_tensor([self.pools[home].needed() for home in homes])

    def may_change(self, rows: Tensor, hopes: Tensor) -> Tensor:
        """Return which rows [R] go on; log P of the live chains, at most `hopes` [R], can only fall."""
        return hopes / self.scales[rows] >= self.needed[rows]

    def hypotheses(self, model: Stepper, calls: Tensor) -> list[list[Hypothesis]]:
        """Return the best of each row, with what the search has cost it, `calls` [N]."""
        return [
            [counted(as_hypothesis(model, chain, total), number) for chain, total in pool.best()]
            for pool, number in zip(self.pools, calls.tolist(), strict=True)
        ]


class Pool:
    """The `outputs` best candidates of one row."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config
        self.enough = {"first": 1, "k": config.width, "exhausted": torch.inf}[config.finish]
        self.stopped = 0
        self.found: list[tuple[int, float, list[int], float]] = []  # class, minus rank, chain, log-probability

    def add(self, rank: float, chain: list[int], log_prob: float) -> None:
        """File a chain, first by its class: 0 what is wanted, 1 a live one for want of it, 2 nothing but stop."""
        stopped, empty = chain[-1] == STOP, rank == -torch.inf
        unwanted = self.config.candidates == "finished" and not stopped
        self.stopped += stopped and not empty
        insort(self.found, (2 if empty else int(unwanted), -rank, chain, log_prob))
        del self.found[self.config.outputs :]

    def needed(self) -> float:
        """Return the rank that a live chain must be able to reach for the row to stay open."""
        if self.stopped >= self.enough:
            return torch.inf
        if len(self.found) < self.config.outputs:
            return -torch.inf
        worst, minus_rank, *_ = self.found[-1]
        return -torch.inf if worst else -minus_rank

    def best(self) -> list[tuple[list[int], float]]:
        """Return chains and their log-probabilities, best first, all of one class."""
        return [(chain, total) for kind, _, chain, total in self.found if kind == self.found[0][0]]
