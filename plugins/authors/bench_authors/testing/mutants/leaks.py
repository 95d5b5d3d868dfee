"""Mutants of scores that see what they predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bench_authors.testing.contracts import patched
from bench_core import Batch, Scorer, Scores, Scoring

if TYPE_CHECKING:
    from bench_authors.testing.cases import Case


@dataclass(frozen=True)
class _Unshifted(Batch):
    @property
    def inputs(self) -> Tensor:
        return torch.cat([self.opening[:, 1:], self.gold], 1)


def reads_what_it_predicts(case: Case) -> Case:
    """The inputs are not shifted: to predict a token, the score reads that token. For models that read `inputs`."""

    def score(model: Scorer, batch: Batch, scoring: Scoring) -> Scores:
        return model.score(_Unshifted(**vars(batch)), scoring)

    return replace(case, model=patched(case.model, score=score))
