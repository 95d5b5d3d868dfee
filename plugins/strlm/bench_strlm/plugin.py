"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from bench_core import Kind, ModelConfig, ProbeConfig, Scorer, Source, Stepper, hookimpl
from bench_huggingface.plugin import CausalLMConfig
from bench_rnn.plugin import RNNLMConfig


class Terminating(BaseModel):
    """What every self-terminating model can be told (Welleck et al., 2020, arXiv:2002.02492, Definition 4.3)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    epsilon: float = Field(1e-3, gt=0, lt=1)  #: the least that p(continue) loses at every step, as a share
    st_context: bool = False  #: whether the product begins at the first token read; else at the first one generated


class SelfTerminatingRNNLMConfig(Terminating, RNNLMConfig):
    """Self-terminating recurrent language model (Welleck et al., 2020, arXiv:2002.02492, section 4.2)."""

    name, target = "self-terminating-rnn-lm", "bench_strlm.rnn:SelfTerminatingRNNLM"
    probes = frozenset({"consistency"})
    cites = ["welleck2020consistency", *RNNLMConfig.cites]


class SelfTerminatingCausalLMConfig(Terminating, CausalLMConfig):
    """Self-terminating causal language model of transformers (Welleck et al., 2020, section 5.3)."""

    name, target = "self-terminating-hf-causal-lm", "bench_strlm.causal_lm:SelfTerminatingCausalLM"
    probes = frozenset({"consistency"})
    cites = ["welleck2020consistency", *CausalLMConfig.cites]


class ConstructionConfig(ModelConfig):
    """Recurrent network of known weights that incomplete decoding never ends (Welleck et al., 2020, Theorem 3.4)."""

    name, target = "theorem-3-4-rnn-lm", "bench_strlm.construction:Construction"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["welleck2020consistency"]

    radius: PositiveFloat = 2.0  #: spectral radius of the top block; above 1, or its units die out
    sight: PositiveFloat = 1.0  #: weight of the top units in logits, against the slot of stop, which starts at 0.9

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked[:1]

    def exempt(self) -> Mapping[str, str]:
        reason = "its weights are those of a proof, and its slots remember what it has read"
        return {"eight_examples_can_be_learnt_by_heart": reason}


class ConsistencyConfig(ProbeConfig):
    """Whether decoding must end, and after how many steps (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "consistency", "bench_strlm.consistency:Consistency"
    limits = {"limit": "max_tokens"}
    with_decoder = True
    cites = ["welleck2020consistency"]

    limit: PositiveInt = 1500  #: L, the tokens within which the metric waits for stop


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the self-terminating models, and the one of Theorem 3.4."""
    return [SelfTerminatingRNNLMConfig, SelfTerminatingCausalLMConfig, ConstructionConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probe of consistency."""
    return [ConsistencyConfig]
