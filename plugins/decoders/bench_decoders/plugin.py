"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from bench_core import DecoderConfig, Sampler, Stepper, hookimpl
from bench_decoders import hookspecs as hookspecs  # in which the core looks for hooks that this plugin defines
from bench_decoders.min_p import MinPConfig as MinPConfig
from bench_decoders.processors import ProcessorConfig as ProcessorConfig
from bench_decoders.processors import Processors as Processors


class AncestralConfig(DecoderConfig):
    """The model's own samples."""

    name, target = "ancestral", "bench_decoders.greedy_sampling:Ancestral"
    needs = Sampler


class StepwiseConfig(DecoderConfig):
    """What decoders share that choose the actions of each row one at a time."""

    needs = Stepper

    processors: Processors = []  #: what changes the distribution of a step, in this order, after the temperature


class GreedyConfig(StepwiseConfig):
    """The most probable action at every step."""

    name, target = "greedy", "bench_decoders.greedy_sampling:Greedy"


class SamplingConfig(StepwiseConfig):
    """What all decoders that draw step by step share."""

    consistent: ClassVar[bool] = False  #: whether stop stays open at every step

    temperature: PositiveFloat = 1.0  #: divides log-probabilities, before the set of open actions is chosen


class TemperatureConfig(SamplingConfig):
    """Sampling from a distribution made sharper (below 1) or flatter (above 1)."""

    name, target = "temperature", "bench_decoders.greedy_sampling:Sampling"

    temperature: PositiveFloat  #: divides log-probabilities


class TopKConfig(SamplingConfig):
    """Sampling among the k most probable actions (Fan et al., 2018, arXiv:1805.04833)."""

    name, target = "top-k", "bench_decoders.greedy_sampling:TopK"
    cites = ["fan2018"]

    k: PositiveInt  #: how many actions are open at a step


class NucleusConfig(SamplingConfig):
    """Sampling among the fewest actions that hold more than `mass` (Holtzman et al., 2020, arXiv:1904.09751)."""

    name, target = "nucleus", "bench_decoders.greedy_sampling:Nucleus"
    cites = ["holtzman2020"]

    mass: float = Field(ge=0, le=1)  #: the probability that the open actions of a step must hold


class ConsistentTopKConfig(TopKConfig):
    """Top-k sampling with stop always open (Welleck et al., 2020, arXiv:2002.02492, section 4.1)."""

    name = "consistent-top-k"
    consistent = True
    cites = ["welleck2020consistency", "fan2018"]


class ConsistentNucleusConfig(NucleusConfig):
    """Nucleus sampling with stop always open (Welleck et al., 2020, arXiv:2002.02492, section 4.1)."""

    name = "consistent-nucleus"
    consistent = True
    cites = ["welleck2020consistency", "holtzman2020"]


class RankingConfig(DecoderConfig):
    """How searches rank what they find: by log P / length^alpha."""

    needs = Stepper

    candidates: Literal["finished", "finished_and_alive", "all_prefixes"] = "finished"  #: what may be an output
    alpha: NonNegativeFloat = 0.0  #: exponent of the length, target tokens; 0 ranks by log P alone
    count_stop: bool = True  #: whether stop counts in log P and length; without it, an empty sequence is no candidate
    outputs: PositiveInt = 1  #: the most hypotheses of a row


class BeamConfig(RankingConfig):
    """Beam search.

    Welleck et al., 2020, Definition A.1: `finish: first` in their experiments, `finish: k` in Definition A.2. The
    RNN notes: `finish: exhausted, candidates: finished_and_alive, alpha: 0.75`. With `refill` and the first two of
    these, it is that of transformers with a length penalty of 0 and one token that ends a text.
    """

    name, target = "beam", "bench_decoders.beam:Beam"
    cites = ["lowerre1976"]

    width: PositiveInt = 5  #: chains that are kept at a step
    finish: Literal["first", "k", "exhausted"] = "k"  #: when one chain has stopped, `width` have, or all
    refill: bool = False  #: whether live chains take the places of those that stop, as in transformers' `generate`


class ExhaustiveConfig(RankingConfig):
    """The best of all sequences; refused where there are too many."""

    name, target = "exhaustive", "bench_decoders.exhaustive:Exhaustive"

    most: PositiveInt = 1_000_000  #: sequences of `max_tokens`, counted as (actions of the first step)^steps


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
