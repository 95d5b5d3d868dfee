"""The candidate outputs of each row in a search, and a test of whether better outputs are still possible."""

from bisect import insort

import torch
from torch import Tensor

from bench_core import STOP, Hypothesis, Stepper, as_hypothesis
from bench_decoders.call_counter import with_calls
from bench_decoders.plugin import BeamConfig


class Candidates:
    """The best hypotheses of N rows by the score log P / length^alpha; ties go to lower actions."""

    def __init__(self, config: BeamConfig, max_tokens: Tensor) -> None:
        self.config = config
        self.pools = [Pool(config) for _ in range(len(max_tokens))]
        divisors = [limit**config.alpha for limit in max_tokens.tolist()]
        self.divisors = torch.tensor(divisors, dtype=torch.float64, device=max_tokens.device)  # [N] at maximum length
        self.thresholds = torch.full_like(self.divisors, -torch.inf)  # [N] see `Pool.threshold`

    def scores(self, totals: Tensor, before: Tensor, stopped: Tensor, length: int) -> Tensor:
        """Return the scores [M] of hypotheses, given log P `totals`, and log P `before` their last action.

        Unless `count_stop` is set, log P and length exclude EOS, and EOS alone scores -inf.
        """
        whole = totals / float(length**self.config.alpha)
        if self.config.count_stop:
            return whole
        bare = before / float((length - 1) ** self.config.alpha) if length > 1 else before - torch.inf
        return torch.where(stopped, bare, whole)

    def add(self, rows: Tensor, scores: Tensor, sequences: Tensor, totals: Tensor) -> None:
        """Add candidates of `rows` [M] with actions `sequences` [M, steps] and log P `totals` [M]."""
        if not len(rows):
            return
        indices = rows.tolist()
        for index, *candidate in zip(indices, scores.tolist(), sequences.tolist(), totals.tolist(), strict=True):
            self.pools[index].add(*candidate)
        self.thresholds[rows] = self.thresholds.new_tensor([self.pools[index].threshold() for index in indices])

    def may_improve(self, rows: Tensor, best: Tensor) -> Tensor:
        """Return which rows [R] stay open: log P of their live hypotheses is at most `best` [R] and can only fall."""
        return best / self.divisors[rows] >= self.thresholds[rows]

    def hypotheses(self, model: Stepper, calls: Tensor) -> list[list[Hypothesis]]:
        """Return the best candidates of each row, with the row's `calls` [N]."""
        return [
            [with_calls(as_hypothesis(model, sequence, total), number) for sequence, total in pool.best()]
            for pool, number in zip(self.pools, calls.tolist(), strict=True)
        ]


class Pool:
    """The `outputs` best candidates of one row."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config
        self.required = {"first": 1, "k": config.width, "exhausted": torch.inf}[config.finish]
        self.stopped = 0
        self.ranked: list[tuple[int, float, list[int], float]] = []  # class, negative score, actions, log P

    def add(self, score: float, sequence: list[int], log_prob: float) -> None:
        """Insert a candidate by its class: 0 if it is eligible, 1 if live (a fallback), 2 if it is EOS alone."""
        stopped, empty = sequence[-1] == STOP, score == -torch.inf
        fallback = self.config.candidates == "finished" and not stopped
        self.stopped += stopped and not empty
        insort(self.ranked, (2 if empty else int(fallback), -score, sequence, log_prob))
        del self.ranked[self.config.outputs :]

    def threshold(self) -> float:
        """Return the score that a live hypothesis must be able to reach to keep the row open."""
        if self.stopped >= self.required:
            return torch.inf
        if len(self.ranked) < self.config.outputs:
            return -torch.inf
        worst, negative_score, *_ = self.ranked[-1]
        return -torch.inf if worst else -negative_score

    def best(self) -> list[tuple[list[int], float]]:
        """Return the candidates of the best nonempty class with their log P, best first."""
        return [(actions, total) for kind, _, actions, total in self.ranked if kind == self.ranked[0][0]]
