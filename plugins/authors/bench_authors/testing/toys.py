"""A plugin of toy parts for tests, which no distribution installs.

Register it with `registry.extra(toys)`. Like every plugin module, it does not import torch; the classes are in
`toy_models.py` and `toy_parts.py`.
"""

from collections.abc import Mapping, Set
from math import inf
from typing import ClassVar

from pydantic import Field, PositiveInt

from bench_core import (
    DecoderConfig,
    Kind,
    MetricConfig,
    Model,
    ModelConfig,
    Sampler,
    Scorer,
    Source,
    Stepper,
    TaskConfig,
    Vmappable,
    hookimpl,
)


class ToyRecurrentConfig(ModelConfig):
    """A left-to-right recurrent network that carries its memory across windows of a stream."""

    name, target = "toy-recurrent", "bench_authors.testing.toy_models:ToyRecurrent"
    capabilities: ClassVar[Set[type[Model]]] = {Stepper, Scorer}
    likelihoods: ClassVar[Mapping[str, Kind]] = {"exact": Kind.EXACT}

    hidden: PositiveInt = 6

    def smooths_labels(self) -> bool:
        return True


class SelfTerminatingConfig(ToyRecurrentConfig):
    """A left-to-right model whose EOS probability, computed from a state of the output layer, increases."""

    name, target = "toy-self-terminating", "bench_authors.testing.toy_models:ToySelfTerminating"

    epsilon: float = Field(0.05, gt=0, lt=1)


class CodesConfig(ToyRecurrentConfig):
    """A left-to-right model that computes token probabilities from the bits of codewords."""

    name, target = "toy-codes", "bench_authors.testing.toy_models:ToyCodes"
    likelihoods = {"exact": Kind.EXACT, "bits": Kind.BOUND}

    bits: PositiveInt = 7

    def smooths_labels(self) -> bool:
        return False


class ToyEncoderDecoderConfig(ToyRecurrentConfig):
    """A left-to-right model that attends to the tokens of a padded source."""

    name, target = "toy-encoder-decoder", "bench_authors.testing.toy_models:ToyEncoderDecoder"
    sources = {Source.TOKENS}


class InsertionConfig(ModelConfig):
    """An insertion model that alternates between words and their slots, in any order."""

    name, target = "toy-insertion", "bench_authors.testing.toy_models:Insertion"
    capabilities = {Stepper, Scorer}
    likelihoods = {"order": Kind.BOUND}

    hidden: PositiveInt = 6


class LatentConfig(ModelConfig):
    """A model of latent trajectories without feedback from words."""

    name, target = "toy-latent", "bench_authors.testing.toy_models:ToyLatent"
    capabilities = {Sampler, Scorer, Vmappable}
    likelihoods = {"elbo": Kind.BOUND, "trajectories": Kind.ESTIMATE}
    evaluation = {"trajectories"}

    hidden: PositiveInt = 4
    trajectories: PositiveInt = 500


class RescorerConfig(ToyRecurrentConfig):
    """A model that scores targets but cannot decode; `bench_models` does not return it."""

    name, target = "toy-rescorer", "bench_authors.testing.toy_models:Rescorer"
    capabilities = {Scorer}


class ToyGreedyConfig(DecoderConfig):
    """The most probable action at every step."""

    name, target = "toy-greedy", "bench_authors.testing.toy_parts:ToyGreedy"
    needs = Stepper


class ToyAncestralConfig(DecoderConfig):
    """Ancestral samples of the model."""

    name, target = "toy-ancestral", "bench_authors.testing.toy_parts:ToyAncestral"
    needs = Sampler


class ToyExhaustiveConfig(DecoderConfig):
    """The most probable of all hypotheses, for tiny vocabularies."""

    name, target = "toy-exhaustive", "bench_authors.testing.toy_parts:ToyExhaustive"
    needs = Stepper

    outputs: PositiveInt = 4


class LettersConfig(TaskConfig):
    """Spell words, without a corpus."""

    name, target = "toy-letters", "bench_authors.testing.toy_parts:Letters"

    words: tuple[str, ...] = ("abba", "cab", "dad", "a", "bad", "cabbd", "add", "bb", "dabc", "acdc", "cc")


class ReversalConfig(LettersConfig):
    """Spell words from their reversed letters."""

    name, target = "toy-reversal", "bench_authors.testing.toy_parts:Reversal"
    source = Source.TOKENS


class StreamConfig(LettersConfig):
    """Read all words as one stream, in windows."""

    name, target = "toy-stream", "bench_authors.testing.toy_parts:ToyStream"

    window: PositiveInt = 5


class ToyExactMatchConfig(MetricConfig):
    """Share of texts that equal a reference."""

    name, target = "toy-exact-match", "bench_authors.testing.toy_parts:ToyExactMatch"

    def bounds(self) -> tuple[float, float]:
        return 0, 100


class ToyPerplexityConfig(MetricConfig):
    """Perplexity per target token."""

    name, target = "toy-perplexity", "bench_authors.testing.toy_parts:ToyPerplexity"
    needs = Scorer

    by: str = ""

    def bounds(self) -> tuple[float, float]:
        return 1, inf


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return a model of each family."""
    return [
        ToyRecurrentConfig,
        SelfTerminatingConfig,
        CodesConfig,
        ToyEncoderDecoderConfig,
        InsertionConfig,
        LatentConfig,
    ]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return decoders that exercise all contracts."""
    return [ToyGreedyConfig, ToyAncestralConfig, ToyExhaustiveConfig]


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return tasks without a source, with a source, and with windows of a stream."""
    return [LettersConfig, ReversalConfig, StreamConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return a metric of outputs and a metric of likelihoods."""
    return [ToyExactMatchConfig, ToyPerplexityConfig]
