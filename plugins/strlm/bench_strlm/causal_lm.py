"""Self-terminating causal language models of transformers."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from bench_core import STOP, TaskInfo
from bench_huggingface.api import CausalLM
from bench_strlm.plugin import SelfTerminatingCausalLMConfig
from bench_strlm.survival import SelfTerminating, SelfTerminatingLM


class OfLogits(SelfTerminating):
    """The states are the logits."""

    def logits_of(self, states: Tensor) -> Tensor:
        return states

    def stop_of(self, states: Tensor) -> Tensor:
        return states[..., STOP]

    def costs(self, units: Tensor, words: Tensor) -> Tensor:
        return cross_entropy(units[:, STOP + 1 :], words - STOP - 1, reduction="none")


class SelfTerminatingCausalLM(CausalLM, SelfTerminatingLM):
    """A causal language model of transformers that must stop (Welleck et al., 2020, section 5.3)."""

    def __init__(self, config: SelfTerminatingCausalLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info, OfLogits(config.epsilon, config.st_context))
        self.epsilon = config.epsilon
