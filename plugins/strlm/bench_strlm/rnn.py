"""Self-terminating recurrent language models."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from bench_core import STOP, Batch, TaskInfo
from bench_core.kit import Head
from bench_core.kit.head import LOGITS
from bench_rnn.api import RecurrentLM
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_strlm.survival import SelfTerminatingLM, Survival, of_gold, self_terminating, survive, words_of


class SelfTerminating(Head[Survival]):
    """Stop becomes ever more probable: p_n(stop) = 1 - prod_{m <= n} (1 - eps) sigmoid(a_m)."""

    continues = False  # what has stopped does not go on

    def __init__(self, hidden: int, tokens: int, epsilon: float, context: bool) -> None:
        super().__init__()
        self.logits = nn.Linear(hidden, tokens)
        self.epsilon, self.context = epsilon, context

    def tie(self, embedding: nn.Embedding) -> None:
        self.logits.weight = embedding.weight

    def start(self, prefix: Tensor) -> Survival:
        log_alpha = prefix.new_zeros(len(prefix), dtype=torch.float64)
        if self.context and prefix.shape[1]:
            log_alpha = survive(self._stop(prefix), log_alpha, self.epsilon)[:, -1]
        return Survival(log_alpha)

    def log_probs(self, hidden: Tensor, past: Survival) -> tuple[Tensor, Survival]:
        log_probs, log_alpha = self_terminating(self.logits(hidden), past.log_alpha, self.epsilon)
        return log_probs, Survival(log_alpha)

    def score(self, hidden: Tensor, batch: Batch, past: Survival, by: str) -> tuple[Tensor, Survival]:
        log_alpha = survive(self._stop(hidden), past.log_alpha, self.epsilon)  # [N, T]
        words = words_of(batch)
        costs = self._costs(hidden.flatten(0, 1)[words], batch.gold.flatten()[words])
        return of_gold(log_alpha, batch, costs), Survival(log_alpha[:, -1])

    def _stop(self, hidden: Tensor) -> Tensor:
        """Return the logit of stop at every step [N, K]."""
        return linear(hidden, self.logits.weight[STOP], self.logits.bias[STOP])

    def _costs(self, units: Tensor, tokens: Tensor) -> Tensor:
        """Return -log softmax of `tokens` [M] among all but stop, which is the first."""
        weight, bias = self.logits.weight[STOP + 1 :], self.logits.bias[STOP + 1 :]
        most = max(1, LOGITS // len(weight))
        parts = zip(torch.split(units, most), torch.split(tokens - STOP - 1, most), strict=True)
        return torch.cat([cross_entropy(linear(few, weight, bias), ids, reduction="none") for few, ids in parts])


class SelfTerminatingRNNLM(RecurrentLM, SelfTerminatingLM):
    """A recurrent language model that must stop (Welleck et al., 2020, section 4.2)."""

    def __init__(self, config: SelfTerminatingRNNLMConfig, info: TaskInfo) -> None:
        head = SelfTerminating(config.hidden, len(info.vocabulary), config.epsilon, config.st_context)
        super().__init__(config, info, head)
        self.epsilon = config.epsilon
