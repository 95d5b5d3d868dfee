"""Self-terminating causal language models from transformers."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from bench_core import STOP, TaskInfo
from bench_huggingface.api import CausalLM
from bench_strlm.plugin import SelfTerminatingCausalLMConfig
from bench_strlm.survival import SelfTerminating, SelfTerminatingLM


class PrecomputedLogits(SelfTerminating):
    """A head for models whose states are already logits."""

    def logits_of(self, states: Tensor) -> Tensor:
        return states

    def stop_logits(self, states: Tensor) -> Tensor:
        return states[..., STOP]

    def costs(self, states: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(states[:, STOP + 1 :], targets - STOP - 1, reduction="none")


class SelfTerminatingCausalLM(CausalLM, SelfTerminatingLM):
    """A self-terminating causal language model from transformers (Welleck et al., 2020, section 5.3)."""

    def __init__(self, config: SelfTerminatingCausalLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info, PrecomputedLogits(config.epsilon, config.st_context))
        self.epsilon = config.epsilon
