"""The baseline for deep state space models: an autoregressive character GRU."""

from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Loss, Rng, Scores, Scoring, TaskInfo, Training, Vmappable, invert
from bench_rnn.api import RecurrentLM, Units
from bench_rnn.plugin import RNNLMConfig
from bench_ssm.averaging import TrajectoryScorer, check_separate
from bench_ssm.plugin import CharGRUConfig


class CharGRU(RecurrentLM, TrajectoryScorer, Vmappable):
    """p(w) = prod_t p(w_t | h_t), where a GRU computes h_t from the letters before t, and h_1 from a learned vector.

    Along a trajectory, the GRU reads letters that it sampled itself. EOS is excluded from sampling and the other
    probabilities are renormalized, since trajectories of a deep state space model never end. The mean over
    trajectories of prod_t P(w_t | h_t) is a distribution over words, but not the GRU's own: its h_t has not seen w.
    """

    continues = False  # words are complete sequences

    def __init__(self, config: CharGRUConfig, info: TaskInfo) -> None:
        check_separate(config.name, info.consecutive)
        super().__init__(RNNLMConfig(cell="gru", hidden=config.state, layers=1, embedding=config.embedding), info)
        self.config = config

    def vmap_loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        return super().vmap_loss(batch, training, layers=self._unroll, **more)

    def _unroll(self, inputs: Tensor, units: Units | None = None) -> tuple[Tensor, Units]:
        """Run the layers step by step, since torch's recurrent layers have no batching rule for `torch.func.vmap`."""
        return self.rnn.unroll(inputs, units, lambda units, step: units)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        return self.average(batch, scoring.rng) if scoring.by == "trajectories" else super().score(batch, scoring)

    def table_weights(self) -> Tensor:
        return torch.cat([weights.flatten() for weights in self.parameters()])

    def table(self, number: int, rng: Rng) -> Tensor:
        ids = torch.arange(number, device=next(self.parameters()).device)
        eos = torch.full_like(ids, STOP)[:, None]
        log_probs, state = self.start(Batch(ids, eos, eos, torch.ones_like(ids)))
        steps = [log_probs.T]
        for step in range(1, self.config.steps):
            letters = STOP + 1 + invert(log_probs[:, STOP + 1 :].log_softmax(1), rng.uniform(ids, step))
            log_probs, state = self.step(state, letters)
            steps.append(log_probs.T)
        return torch.stack(steps)
