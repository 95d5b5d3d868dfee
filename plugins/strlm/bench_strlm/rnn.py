"""Self-terminating recurrent language models."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from bench_core import STOP, TaskInfo
from bench_core.kit.head import LOGITS
from bench_rnn.api import RecurrentLM
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_strlm.survival import SelfTerminating, SelfTerminatingLM


class LinearLogits(SelfTerminating):
    """The head of a model whose logits are linear in its states."""

    def __init__(self, hidden: int, tokens: int, epsilon: float, context: bool) -> None:
        super().__init__(epsilon, context)
        self.logits = nn.Linear(hidden, tokens)

    def tie(self, embedding: nn.Embedding) -> None:
        self.logits.weight = embedding.weight

    def logits_of(self, states: Tensor) -> Tensor:
        return self.logits(states)  # type: ignore[no-any-return]

    def stop_logits(self, states: Tensor) -> Tensor:
        return linear(states, self.logits.weight[STOP], self.logits.bias[STOP])

    def costs(self, states: Tensor, targets: Tensor) -> Tensor:
        weight, bias = self.logits.weight[STOP + 1 :], self.logits.bias[STOP + 1 :]
        most = max(1, LOGITS // len(weight))
        parts = zip(torch.split(states, most), torch.split(targets - STOP - 1, most), strict=True)
        return torch.cat([cross_entropy(linear(few, weight, bias), ids, reduction="none") for few, ids in parts])


class SelfTerminatingRNNLM(RecurrentLM, SelfTerminatingLM):
    """A self-terminating recurrent language model (Welleck et al., 2020, section 4.2)."""

    def __init__(self, config: SelfTerminatingRNNLMConfig, info: TaskInfo) -> None:
        head = LinearLogits(config.hidden, len(info.vocabulary), config.epsilon, config.st_context)
        super().__init__(config, info, head)
        self.epsilon = config.epsilon
