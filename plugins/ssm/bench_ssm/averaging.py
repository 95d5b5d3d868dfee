"""Scores averaged over trajectories that all targets share."""

from abc import abstractmethod
from itertools import pairwise

import torch
from torch import Tensor

from bench_core import QUARTERS, Batch, Noise, Scorer, Scores, SuiteError, on_host
from bench_ssm.plugin import CharGRUConfig, DeepSSMConfig
from bench_ssm.trajectories import log_means


class Averaging(Scorer):
    """P^(w) = 1/N sum_n prod_t P(w_t | h_t^n) (Schmidt and Hofmann, 2018, eq. 12)."""

    config: DeepSSMConfig | CharGRUConfig
    kept: tuple[int, Tensor, Tensor] | None = None  # noise, weights, and the table that they gave

    @abstractmethod
    def drawn_from(self) -> Tensor:
        """Return all weights that the probabilities of tokens along a trajectory depend on, in a row."""

    @abstractmethod
    def table(self, number: int, noise: Noise) -> Tensor:
        """Return ln P(w | h_t^n) [T, V, N] at all steps of so many trajectories."""

    @torch.no_grad()
    def averaged(self, batch: Batch, noise: Noise) -> Scores:
        """Return estimates of ln P(w), and by a tenth and by each quarter of the trajectories."""
        self.longest(batch)
        number = self.config.trajectories
        edges = [number * quarter // 4 for quarter in range(5)]
        parts = [(0, number), (0, max(1, number // 10)), *pairwise(edges)]
        log_probs, fewer, *quarters = log_means(
            self._kept_table(noise.fork("trajectories")), batch.gold, batch.length, parts
        )
        by_quarter = {name: found.round(decimals=6) for name, found in zip(QUARTERS, quarters, strict=True)}
        return Scores(log_probs, {"log_prob_by_a_tenth": fewer, **by_quarter})

    def longest(self, batch: Batch) -> int:
        """Return the length of the longest target; raise SuiteError if there is no such step."""
        most = int(on_host(batch.length).max())
        if most > self.config.steps:
            raise SuiteError(
                f"a target has {most} tokens, stop included, and {self.config.name} makes {self.config.steps} steps "
                f"at most. Set `steps: {most}`, or let the task leave out what is longer."
            )
        return most

    def _kept_table(self, noise: Noise) -> Tensor:
        """Return the table, computed once for the same noise and weights."""
        weights = self.drawn_from()
        if self.kept is not None:
            key, known, table = self.kept
            same = key == noise.key and known.device == weights.device and known.dtype == weights.dtype
            if same and torch.equal(known, weights):
                return table
        table = self.table(self.config.trajectories, noise)
        self.kept = noise.key, weights, table
        return table


def check_apart(name: str, consecutive: bool) -> None:
    """Raise SuiteError if the targets of a task are windows of a stream."""
    if consecutive:
        raise SuiteError(
            f"{name} is a model of short sequences that begin and end, and this task gives windows of a stream. "
            "Choose another task or model, or list the pair under `skip:`."
        )
