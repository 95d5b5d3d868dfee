"""Min-p: a probability threshold relative to the most probable action."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from pydantic import Field

from bench_decoders.processors import ProcessorConfig

if TYPE_CHECKING:
    from torch import Tensor


class MinPConfig(ProcessorConfig):
    """Exclude actions with less than `share` of the maximum probability (Nguyen et al., 2024, arXiv:2407.01082)."""

    cites = ["nguyen2024"]

    share: float = Field(0.1, gt=0, le=1)  #: minimum probability, relative to the most probable action

    def process(self, log_probs: Tensor, actions: Tensor) -> Tensor:
        threshold = log_probs.amax(1, keepdim=True) + log(self.share)
        return log_probs.masked_fill(log_probs < threshold, -float("inf"))
