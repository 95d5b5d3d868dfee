"""The consistency probe: what theory says about termination, its premises checked on trained weights."""

from collections.abc import Iterable
from dataclasses import replace

from torch import nn

from bench_core import Batch, DecoderConfig, Finding, Model, Premise, Probe, Statement, Stepper
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    SamplingConfig,
    StepwiseConfig,
    TemperatureConfig,
    TopKConfig,
)
from bench_rnn.api import RecurrentLM
from bench_strlm import bounds
from bench_strlm.construction import Construction
from bench_strlm.magnitudes import log_least_stop, magnitudes, rounding
from bench_strlm.plugin import ConsistencyConfig
from bench_strlm.premises import Room, Watched, bounded, finite
from bench_strlm.survival import SelfTerminatingLM

PAPER = "Welleck et al. (2020)"
SAMPLERS = (TemperatureConfig, TopKConfig, NucleusConfig, ConsistentTopKConfig, ConsistentNucleusConfig)
INCOMPLETE = (GreedyConfig, BeamConfig, TopKConfig, NucleusConfig)  # they may leave stop out
METRIC = "non-termination"
UNKNOWN = Statement("", "no theorem is about this decoder")
PROCESSED = Statement("", "no theorem is about a decoder with processors")
ENDLESS = Statement("", f"nothing is proven: there are models of this kind that never end (Theorem 3.4, {PAPER})")


class Consistency(Probe):
    """Which theorem of the paper covers a model and a decoder, and how soon decoding must end."""

    config: ConsistencyConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        assert decoder is not None  # as the Config says
        return Finding(statements=(self.statement(model, decoder, batches),))

    def statement(self, model: Model, decoder: DecoderConfig, batches: Iterable[Batch]) -> Statement:
        """Return what is proven of a model and a decoder."""
        found = replace(self._statement(model, decoder, batches), metric=METRIC)
        return found if found.holds else replace(found, bound="", promises=None)

    def _statement(self, model: Model, decoder: DecoderConfig, batches: Iterable[Batch]) -> Statement:
        """Return what follows where every premise holds."""
        plain = (  # others may step, or sample, in another way
            isinstance(model, RecurrentLM)
            and type(model) in (RecurrentLM, Construction)
            and type(model.head) is nn.Linear
        )
        if not isinstance(model, Stepper) or not (plain or isinstance(model, SelfTerminatingLM)):
            return Statement("", "no theorem is about this kind of model")
        if isinstance(decoder, StepwiseConfig) and decoder.processors:  # which may exclude stop
            return PROCESSED
        room = Room.of(model, batches, min(self.config.limit, decoder.max_tokens))
        if room is None:
            return Statement("", "no row is decoded")
        if room.tokens < 1:
            return Statement("", "nothing is proven: after the longest opening the model has no room for a token")
        if isinstance(model, SelfTerminatingLM):
            return _self_terminating(model, model.epsilon, decoder, room)
        assert isinstance(model, RecurrentLM)
        assert isinstance(model.head, nn.Linear)
        return _softmax(model, model.head, decoder, room)


def _self_terminating(model: Stepper, epsilon: float, decoder: DecoderConfig, room: Room) -> Statement:
    last, first = last_step(epsilon, decoder), open_from(epsilon, decoder)
    draws_itself = type(decoder) is AncestralConfig and type(model).sample is not Stepper.sample
    if (last is None and first is None) or draws_itself:
        return UNKNOWN
    watched = Watched.of(model, room)
    premises = (finite(model, room), watched.terminating(epsilon))
    if last is not None:
        theorem = f"Theorem 4.{2 if type(decoder) is GreedyConfig else 3}, {PAPER}"
        if last > room.tokens:
            later = f", but by step {last:,}" if last < bounds.NEVER else ""
            return Statement(theorem, room.nothing + later, premises)
        return Statement(theorem, "every output ends", premises, f"by step {last:,}", promises=(0.0, 0.0))
    wrong = 2 * (watched.tokens + 256) * rounding(model)
    endless = bounds.log_endless(epsilon, room.tokens, first or 1, wrong)
    return _in_probability(f"Definition 4.3, {PAPER}", premises, endless, room)


def _softmax(model: RecurrentLM, logits: nn.Linear, decoder: DecoderConfig, room: Room) -> Statement:
    theorem = sampling_theorem(decoder, logits.out_features)
    if theorem is None:
        return ENDLESS if type(decoder) in INCOMPLETE else UNKNOWN
    premises = (finite(model, room), bounded(model))
    if not all(premise.holds for premise in premises):
        return Statement(theorem, room.nothing, premises)
    units = magnitudes(model, logits, room.read).units
    least = log_least_stop(logits, units, getattr(decoder, "temperature", 1.0))
    return _in_probability(theorem, premises, bounds.log_endless_at(least, room.tokens), room)


def _in_probability(theorem: str, premises: tuple[Premise, ...], endless: float, room: Room) -> Statement:
    """Return a bound on the probability of an output without an end, unless that is as good as 1."""
    chance = bounds.power_of_ten(endless, up=True)
    if chance == "1":
        return Statement(theorem, room.nothing, premises)
    says = "the probability that an output does not end is bounded"
    return Statement(theorem, says, premises, f"P(no stop in {room.tokens:,}) < {chance}")


def last_step(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the last step at which a search over a self-terminating model ends, or None if none is proven.

    Of beams, those of Definition A.2, in which a chain ends at every step from the last one of greedy choice on; one
    that does not count stop passes over an output of stop alone.
    """
    if type(decoder) is GreedyConfig:
        return bounds.greedy_steps(epsilon)
    if type(decoder) is not BeamConfig or decoder.finish == "exhausted":
        return None
    if decoder.candidates != "finished" or not decoder.count_stop:
        return None
    return bounds.greedy_steps(epsilon) + (0 if decoder.finish == "first" else decoder.width - 1)


def open_from(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the first step from which sampling stops at least as often as a self-terminating model itself would.

    From the start where nothing else is cut off, otherwise once p(stop) exceeds one half: then stop is in every
    set, and a temperature below 1 only makes it more probable. None above 1, which no theorem covers.
    """
    if type(decoder) is AncestralConfig:
        return 1
    if type(decoder) not in SAMPLERS or not isinstance(decoder, SamplingConfig) or decoder.temperature > 1:
        return None
    whole = decoder.consistent and decoder.temperature == 1
    return 1 if whole else bounds.greedy_steps(epsilon)


def sampling_theorem(decoder: DecoderConfig, tokens: int) -> str | None:
    """Return which statement covers sampling from a bounded softmax, or None where stop may be cut off.

    Theorem 4.1 is about sets of the model's own distribution, in which stop is at least as probable as in the model.
    At another temperature it may be less probable: there Lemma 3.2 bounds the softmax of the scaled logits, of which
    a set with stop has no less.
    """
    if type(decoder) not in (AncestralConfig, *SAMPLERS):
        return None
    if isinstance(decoder, SamplingConfig) and decoder.consistent:
        return f"Theorem 4.1, {PAPER}" if decoder.temperature == 1 else f"Lemma 3.2, {PAPER}"
    cuts = (isinstance(decoder, TopKConfig) and decoder.k < tokens) or (
        isinstance(decoder, NucleusConfig) and decoder.mass < 1
    )
    return None if cuts else f"Lemma 3.2, {PAPER}"
