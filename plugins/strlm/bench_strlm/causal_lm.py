"""Self-terminating causal language models of transformers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bench_core import STOP, Batch, TaskInfo
from bench_core.kit import Head
from bench_huggingface.api import CausalLM
from bench_strlm.plugin import SelfTerminatingCausalLMConfig
from bench_strlm.survival import SelfTerminatingLM, Survival, of_gold, self_terminating, survive, words_of


class SelfTerminating(Head[Survival]):
    """Stop becomes ever more probable: p_n(stop) = 1 - prod_{m <= n} (1 - eps) sigmoid(a_m)."""

    continues = False  # what has stopped does not go on

    def __init__(self, epsilon: float, context: bool) -> None:
        super().__init__()
        self.epsilon, self.reads_prefix = epsilon, context

    def start(self, prefix: Tensor) -> Survival:
        log_alpha = prefix.new_zeros(len(prefix), dtype=torch.float64)
        if prefix.shape[1]:
            log_alpha = survive(prefix[..., STOP], log_alpha, self.epsilon)[:, -1]
        return Survival(log_alpha)

    def log_probs(self, logits: Tensor, past: Survival) -> tuple[Tensor, Survival]:
        log_probs, log_alpha = self_terminating(logits, past.log_alpha, self.epsilon)
        return log_probs, Survival(log_alpha)

    def score(self, logits: Tensor, batch: Batch, past: Survival, by: str) -> tuple[Tensor, Survival]:
        log_alpha = survive(logits[..., STOP], past.log_alpha, self.epsilon)  # [N, T]
        words = words_of(batch)
        logits, gold = logits.flatten(0, 1)[words], batch.gold.flatten()[words]
        costs = cross_entropy(logits[:, STOP + 1 :], gold - STOP - 1, reduction="none")
        return of_gold(log_alpha, batch, costs), Survival(log_alpha[:, -1])


class SelfTerminatingCausalLM(CausalLM, SelfTerminatingLM):
    """A causal language model of transformers that must stop (Welleck et al., 2020, section 5.3)."""

    def __init__(self, config: SelfTerminatingCausalLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info, SelfTerminating(config.epsilon, config.st_context))
        self.epsilon = config.epsilon
