"""Mutants of scores that see what they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bench_authors.testing.contracts import instead_of, mutant
from bench_core import Batch, Scorer, Scores, Scoring

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class _Unshifted(Batch):
    @property
    def inputs(self) -> Tensor:
        return torch.cat([self.opening[:, 1:], self.gold], 1)


@mutant(instead_of("model", "score"))
def reads_what_it_predicts(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
    """The inputs are not shifted: to predict a token, the score reads that token. For models that read `inputs`."""
    return model.score(_Unshifted(**vars(batch)), scoring)
