"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from bench_core import Kind, ModelConfig, ProbeConfig, Scorer, Source, Stepper, hookimpl
from bench_huggingface.plugin import CausalLMConfig
from bench_rnn.plugin import RNNLMConfig


class Terminating(BaseModel):
    """Settings of all self-terminating models (Welleck et al., 2020, arXiv:2002.02492, Definition 4.3)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    epsilon: float = Field(1e-3, gt=0, lt=1)  #: minimum share of p(continue) that is lost at every step
    st_context: bool = False  #: whether steps that read the prompt count, in addition to steps that generate tokens


class SelfTerminatingRNNLMConfig(Terminating, RNNLMConfig):
    """Self-terminating recurrent language model (Welleck et al., 2020, arXiv:2002.02492, section 4.2)."""

    name, target = "self-terminating-rnn-lm", "bench_strlm.rnn:SelfTerminatingRNNLM"
    probes = frozenset({"consistency"})
    cites = ["welleck2020consistency", *RNNLMConfig.cites]


class SelfTerminatingCausalLMConfig(Terminating, CausalLMConfig):
    """Self-terminating causal language model from transformers (Welleck et al., 2020, section 5.3)."""

    name, target = "self-terminating-hf-causal-lm", "bench_strlm.causal_lm:SelfTerminatingCausalLM"
    probes = frozenset({"consistency"})
    cites = ["welleck2020consistency", *CausalLMConfig.cites]


class ConstructionConfig(ModelConfig):
    """Fixed recurrent network for which incomplete decoding never ends (Welleck et al., 2020, Theorem 3.4)."""

    name, target = "theorem-3-4-rnn-lm", "bench_strlm.construction:Construction"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["welleck2020consistency"]

    radius: PositiveFloat = 2.0  #: spectral radius of the top block; its units decay to 0 unless the radius exceeds 1
    sight: PositiveFloat = 1.0  #: weight of the top units in logits; subtracted for EOS, whose slot starts at 0.9

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked[:1]

    def exempt(self) -> Mapping[str, str]:
        reason = "its weights are fixed by a proof, and its slots store the tokens read"
        return {"eight_examples_can_be_learnt_by_heart": reason}


class ConsistencyConfig(ProbeConfig):
    """Check whether decoding provably ends, and within how many steps (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "consistency", "bench_strlm.consistency:Consistency"
    limits = {"limit": "max_tokens"}
    with_decoder = True
    cites = ["welleck2020consistency"]

    limit: PositiveInt = 1500  #: L, the number of tokens within which the metric expects EOS


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the self-terminating models and the construction of Theorem 3.4."""
    return [SelfTerminatingRNNLMConfig, SelfTerminatingCausalLMConfig, ConstructionConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the consistency probe."""
    return [ConsistencyConfig]
