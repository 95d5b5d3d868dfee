"""Noise-contrastive estimation."""

from math import log

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bench_core import Batch, Rng, TaskInfo, Training
from bench_output_layers.layer import chunks, counts_of
from bench_output_layers.sampled import SampledHead


class NCE(SampledHead):
    """Distinguishes the gold token from k noise tokens, with scores used as log-probabilities.

    Gutmann and Hyvärinen, 2010; Mnih and Teh, 2012, arXiv:1206.6426. Noise is sampled from the unigram distribution
    for each position. In evaluation, probabilities are the softmax of the scores.
    """

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        self.draw_from(counts_of(info, "this output layer samples tokens"))
        nn.init.constant_(self.bias, -log(self.tokens))

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        steps = batch.gold.shape[1]
        uniform = training.rng.fork("negatives").uniform(batch.ids, 0, steps * self.samples)
        drawn = batch.at_real(self.draw(uniform).view(len(batch), steps, self.samples))
        parts = chunks(self.samples * units.shape[1], drawn, units, gold)
        return torch.cat([self.costs_against(*part) for part in parts])

    def costs_against(self, drawn: Tensor, units: Tensor, gold: Tensor) -> Tensor:
        """Return the cost of distinguishing `gold` [M] from the noise tokens `drawn` [M, k], given `units` [M, H]."""
        targets = self.scores_of(units, gold)
        others = torch.bmm(self.rows(drawn), units[:, :, None])[:, :, 0] + self.bias[drawn]
        noise = logsigmoid(self.log_expected_count(drawn, drawn.shape[1]) - others).sum(1)
        return -logsigmoid(targets - self.log_expected_count(gold, drawn.shape[1])) - noise
