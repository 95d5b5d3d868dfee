"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from bench_core import DecoderConfig, ProbeConfig, Sampler, Stepper, hookimpl
from bench_decoders import hookspecs as hookspecs  # searched by the core for hook specifications
from bench_decoders.min_p import MinPConfig as MinPConfig
from bench_decoders.processors import ProcessorConfig as ProcessorConfig
from bench_decoders.processors import Processors as Processors


class AncestralConfig(DecoderConfig):
    """The model's own samples."""

    name, target = "ancestral", "bench_decoders.greedy_sampling:Ancestral"
    needs = Sampler


class StepwiseConfig(DecoderConfig):
    """Common settings of decoders that choose one action per row at each step."""

    needs = Stepper

    processors: Processors = []  #: applied in this order to the distribution of each step, after the temperature


class GreedyConfig(StepwiseConfig):
    """The most probable action at every step."""

    name, target = "greedy", "bench_decoders.greedy_sampling:Greedy"


class SamplingConfig(StepwiseConfig):
    """Common settings of decoders that sample step by step."""

    consistent: ClassVar[bool] = False  #: whether EOS is a candidate at every step

    temperature: PositiveFloat = 1.0  #: divides log-probabilities before candidate actions are selected


class TemperatureConfig(SamplingConfig):
    """Sampling from a sharpened (temperature below 1) or flattened (above 1) distribution."""

    name, target = "temperature", "bench_decoders.greedy_sampling:Sampling"

    temperature: PositiveFloat  #: divides log-probabilities


class TopKConfig(SamplingConfig):
    """Sampling from the k most probable actions (Fan et al., 2018, arXiv:1805.04833)."""

    name, target = "top-k", "bench_decoders.greedy_sampling:TopK"
    cites = ["fan2018"]

    k: PositiveInt  #: number of candidate actions per step


class NucleusConfig(SamplingConfig):
    """Sampling from the smallest set of actions with more than `mass` (Holtzman et al., 2020, arXiv:1904.09751)."""

    name, target = "nucleus", "bench_decoders.greedy_sampling:Nucleus"
    cites = ["holtzman2020"]

    mass: float = Field(ge=0, le=1)  #: the total probability of a step's candidate actions exceeds this value


class ConsistentTopKConfig(TopKConfig):
    """Top-k sampling with EOS always a candidate (Welleck et al., 2020, arXiv:2002.02492, section 4.1)."""

    name = "consistent-top-k"
    consistent = True
    cites = ["welleck2020consistency", "fan2018"]


class ConsistentNucleusConfig(NucleusConfig):
    """Nucleus sampling with EOS always a candidate (Welleck et al., 2020, arXiv:2002.02492, section 4.1)."""

    name = "consistent-nucleus"
    consistent = True
    cites = ["welleck2020consistency", "holtzman2020"]


class RankingConfig(DecoderConfig):
    """Common settings of searches, which rank hypotheses by log P / length^alpha."""

    needs = Stepper

    candidates: Literal["finished", "finished_and_alive", "all_prefixes"] = "finished"  #: hypotheses to output
    alpha: NonNegativeFloat = 0.0  #: exponent of the length in target tokens; 0 ranks by log P alone
    count_stop: bool = True  #: whether log P and length include EOS; if not, empty outputs are a last resort
    outputs: PositiveInt = 1  #: maximum number of hypotheses per row


class BeamConfig(RankingConfig):
    """Beam search.

    Welleck et al. (2020, Definition A.1) use `finish: first` in experiments and `finish: k` in Definition A.2. The
    RNN notes use `finish: exhausted, candidates: finished_and_alive, alpha: 0.75`. With `finish: exhausted`,
    `candidates: finished_and_alive` and `refill: true`, it is equivalent to transformers' beam search with length
    penalty 0 and a single EOS token.
    """

    name, target = "beam", "bench_decoders.beam:Beam"
    cites = ["lowerre1976"]

    width: PositiveInt = 5  #: hypotheses kept per step
    finish: Literal["first", "k", "exhausted"] = "k"  #: end when one, `width` or all hypotheses are finished
    refill: bool = False  #: whether live hypotheses replace ended ones, as in transformers' `generate`


class ExhaustiveConfig(RankingConfig):
    """The best of all sequences; an error if there are too many."""

    name, target = "exhaustive", "bench_decoders.exhaustive:Exhaustive"

    most: PositiveInt = 1_000_000  #: maximum number of sequences, (actions of the first step)^steps


class SearchErrorsConfig(ProbeConfig):
    """Compare the log-probability of outputs with that of references: search errors and model errors."""

    name, target = "search-errors", "bench_decoders.search_errors:SearchErrors"
    with_decoder = True
    cites = ["stahlberg2019"]

    by: str | None = None  #: likelihood of the references; default: the first of the model
    examples: PositiveInt = 200  #: maximum number of examples, which are decoded again


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probe of search errors."""
    return [SearchErrorsConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return one Config for each decoder."""
    return [
        AncestralConfig,
        GreedyConfig,
        BeamConfig,
        TopKConfig,
        NucleusConfig,
        ConsistentTopKConfig,
        ConsistentNucleusConfig,
        TemperatureConfig,
        ExhaustiveConfig,
    ]


@hookimpl
def bench_processors() -> list[type[ProcessorConfig]]:
    """Return one Config for each processor."""
    return [MinPConfig]
