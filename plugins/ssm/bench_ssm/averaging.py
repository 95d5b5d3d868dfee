"""Scores that are means over trajectories shared by all targets."""

from abc import abstractmethod
from itertools import pairwise

import torch
from torch import Tensor

from bench_core import QUARTERS, Batch, Rng, Scorer, Scores, SuiteError, on_host
from bench_ssm.plugin import CharGRUConfig, DeepSSMConfig
from bench_ssm.trajectories import log_means


class TrajectoryScorer(Scorer):
    """P^(w) = 1/N sum_n prod_t P(w_t | h_t^n) (Schmidt and Hofmann, 2018, eq. 12)."""

    config: DeepSSMConfig | CharGRUConfig
    cached: tuple[int, Tensor, Tensor] | None = None  # key of the rng, the weights, and the resulting table

    @abstractmethod
    def table_weights(self) -> Tensor:
        """Return all weights that `table` depends on, flattened to one dimension."""

    @abstractmethod
    def table(self, number: int, rng: Rng) -> Tensor:
        """Sample `number` trajectories and return ln P(w | h_t^n) [T, V, N] at all their steps."""

    @torch.no_grad()
    def average(self, batch: Batch, rng: Rng) -> Scores:
        """Estimate ln P(w) from all trajectories, from the first tenth of them, and from each quarter."""
        self.max_length(batch)
        number = self.config.trajectories
        edges = [number * quarter // 4 for quarter in range(5)]
        parts = [(0, number), (0, max(1, number // 10)), *pairwise(edges)]
        log_probs, fewer, *quarters = log_means(
            self._cached_table(rng.fork("trajectories")), batch.gold, batch.length, parts
        )
        by_quarter = {name: each.round(decimals=6) for name, each in zip(QUARTERS, quarters, strict=True)}
        return Scores(log_probs, {"log_prob_by_a_tenth": fewer, **by_quarter})

    def max_length(self, batch: Batch) -> int:
        """Return the length of the longest target; raise SuiteError if it exceeds `steps`."""
        length = int(on_host(batch.length).max())
        if length > self.config.steps:
            raise SuiteError(
                f"a target has {length} tokens including EOS, but {self.config.name} takes at most "
                f"{self.config.steps} steps. Set `steps: {length}`, or exclude longer targets in the task."
            )
        return length

    def _cached_table(self, rng: Rng) -> Tensor:
        """Return the table, recomputed only if the rng or the weights have changed."""
        weights = self.table_weights()
        if self.cached is not None:
            key, used, table = self.cached
            same = key == rng.key and used.device == weights.device and used.dtype == weights.dtype
            if same and torch.equal(used, weights):
                return table
        table = self.table(self.config.trajectories, rng)
        self.cached = rng.key, weights, table
        return table


def check_separate(name: str, consecutive: bool) -> None:
    """Raise SuiteError if the targets of a task are windows of a stream."""
    if consecutive:
        raise SuiteError(
            f"{name} models separate short sequences, but the examples of this task are windows of a stream. "
            "Choose another task or model, or list the pair under `skip:`."
        )
