"""The baseline for deep state space models: an autoregressive character GRU."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Loss, Rng, Scores, Scoring, TaskInfo, Training, Vmappable, invert
from bench_core.kit import LanguageModelState
from bench_rnn.api import RecurrentLM, Units
from bench_rnn.plugin import RNNLMConfig
from bench_ssm.averaging import TrajectoryScorer, check_separate
from bench_ssm.information import entropy
from bench_ssm.plugin import CharGRUConfig

LOG_INTERVAL = 10  # updates between logged entropies


class CharGRU(RecurrentLM, TrajectoryScorer, Vmappable):
    """p(w) = prod_t p(w_t | h_t), where a GRU computes h_t from the letters before t, and h_1 from a learned vector.

    Along a trajectory, the GRU reads letters that it sampled itself. EOS is excluded from sampling and the other
    probabilities are renormalized, since trajectories of a deep state space model never end. The mean over
    trajectories of prod_t P(w_t | h_t) is a distribution over words, but not the GRU's own: its h_t has not seen w.
    """

    config: CharGRUConfig
    continues = False  # words are complete sequences

    def __init__(self, config: CharGRUConfig, info: TaskInfo) -> None:
        check_separate(config.name, info.consecutive)
        super().__init__(RNNLMConfig(cell="gru", hidden=config.state, layers=1, embedding=config.embedding), info)
        self.config = config

    def loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        return self._logged(super().loss(batch, training, **more), batch, training, **more)

    def vmap_loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        more["layers"] = self._unroll
        return self._logged(super().vmap_loss(batch, training, **more), batch, training, **more)

    def _logged(self, loss: Loss, batch: Batch, training: Training, **more: Any) -> Loss:
        """Add the mean entropy of a letter given the letters before, in bits, to the loss of some updates."""
        if training.step % LOG_INTERVAL or not torch.is_grad_enabled():
            return loss
        with torch.no_grad():
            bits = self._entropies(self.predict(batch, training, **more)[0], batch)
        return replace(loss, parts={**loss.parts, "entropy": bits.sum() / batch.length.sum()})

    def _entropies(self, states: Tensor, batch: Batch) -> Tensor:
        """Return the entropy of each letter in bits [N, T], 0 for padding."""
        return entropy(self.head(states).log_softmax(2)) * batch.mask

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        """Return the states that predict `gold`; without teacher forcing, training states read sampled letters."""
        if isinstance(given, Training) and not self.config.teacher_forcing:
            batch = replace(batch, gold=self._sampled_letters(batch, given.rng.fork("letters")))
        return super().predict(batch, given, **more)

    @torch.no_grad()
    def _sampled_letters(self, batch: Batch, rng: Rng) -> Tensor:
        """Sample as many letters as `gold` has tokens [N, T], excluding EOS."""
        letters, units = [batch.prompt[:, -1]], None
        for step in range(batch.gold.shape[1]):
            hidden, units = self(letters[-1][:, None], units, layers=self._unroll)
            log_probs = self.head(hidden[:, 0])[:, STOP + 1 :].log_softmax(1)
            letters.append(STOP + 1 + invert(log_probs, rng.uniform(batch.ids, step)))
        return torch.stack(letters[1:], 1)

    def _unroll(self, inputs: Tensor, units: Units | None = None) -> tuple[Tensor, Units]:
        """Run the layers step by step, since torch's recurrent layers have no batching rule for `torch.func.vmap`."""
        return self.rnn.unroll(inputs, units, lambda units, step: units)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Score targets; exact scores report the mean entropy of a letter given the letters before, in bits."""
        if scoring.by == "trajectories":
            return self.average(batch, scoring.rng)
        scores, (states, _) = super().score(batch, scoring), self.predict(batch, scoring)
        return replace(scores, values={"entropy": self._entropies(states, batch).sum(1) / batch.length})

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
