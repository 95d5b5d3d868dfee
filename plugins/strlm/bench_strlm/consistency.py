"""The consistency probe: theorems about termination, with their premises checked on trained weights."""

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
from bench_strlm.magnitudes import magnitudes, min_log_stop, rounding
from bench_strlm.plugin import ConsistencyConfig
from bench_strlm.premises import Rollouts, TokenBudget, bounded_premise, finite_premise
from bench_strlm.survival import SelfTerminatingLM

PAPER = "Welleck et al. (2020)"
SAMPLERS = (TemperatureConfig, TopKConfig, NucleusConfig, ConsistentTopKConfig, ConsistentNucleusConfig)
INCOMPLETE = (GreedyConfig, BeamConfig, TopKConfig, NucleusConfig)  # they may exclude EOS
METRIC = "non-termination"
NO_THEOREM = Statement("", "no theorem covers this decoder")
HAS_PROCESSORS = Statement("", "no theorem covers decoders with processors")
UNPROVEN = Statement("", f"nothing is proven: some models of this kind never emit EOS (Theorem 3.4, {PAPER})")


class Consistency(Probe):
    """Determines which theorem of the paper covers a model and a decoder, and how soon decoding must end."""

    config: ConsistencyConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        assert decoder is not None  # the Config sets `with_decoder`
        return Finding(statements=(self.statement(model, decoder, batches),))

    def statement(self, model: Model, decoder: DecoderConfig, batches: Iterable[Batch]) -> Statement:
        """Return the statement proven about a model and a decoder, or that nothing is proven."""
        statement = replace(self._statement(model, decoder, batches), metric=METRIC)
        return statement if statement.holds else replace(statement, bound="", promises=None)

    def _statement(self, model: Model, decoder: DecoderConfig, batches: Iterable[Batch]) -> Statement:
        """Return the statement that follows if all premises hold."""
        plain = (  # subclasses may step or sample differently
            isinstance(model, RecurrentLM)
            and type(model) in (RecurrentLM, Construction)
            and type(model.head) is nn.Linear
        )
        if not isinstance(model, Stepper) or not (plain or isinstance(model, SelfTerminatingLM)):
            return Statement("", "no theorem covers this kind of model")
        if isinstance(decoder, StepwiseConfig) and decoder.processors:  # processors may exclude EOS
            return HAS_PROCESSORS
        budget = TokenBudget.of(model, batches, min(self.config.limit, decoder.max_tokens))
        if budget is None:
            return Statement("", "no rows are decoded")
        if budget.tokens < 1:
            return Statement("", "nothing is proven: the model has no room for a token after the longest prompt")
        if isinstance(model, SelfTerminatingLM):
            return _self_terminating(model, model.epsilon, decoder, budget)
        assert isinstance(model, RecurrentLM)
        assert isinstance(model.head, nn.Linear)
        return _softmax(model, model.head, decoder, budget)


def _self_terminating(model: Stepper, epsilon: float, decoder: DecoderConfig, budget: TokenBudget) -> Statement:
    last, first = last_step(epsilon, decoder), first_bounded_step(epsilon, decoder)
    overrides_sample = type(decoder) is AncestralConfig and type(model).sample is not Stepper.sample
    if (last is None and first is None) or overrides_sample:
        return NO_THEOREM
    rollouts = Rollouts.of(model, budget)
    premises = (finite_premise(model, budget), rollouts.growth_premise(epsilon))
    if last is not None:
        theorem = f"Theorem 4.{2 if type(decoder) is GreedyConfig else 3}, {PAPER}"
        if last > budget.tokens:
            later = f", only by step {last:,}" if last < bounds.NEVER else ""
            return Statement(theorem, budget.no_proof + later, premises)
        return Statement(theorem, "every output ends", premises, f"by step {last:,}", promises=(0.0, 0.0))
    error = 2 * (rollouts.vocab_size + 256) * rounding(model)
    log_bound = bounds.log_no_stop(epsilon, budget.tokens, first or 1, error)
    return _probabilistic(f"Definition 4.3, {PAPER}", premises, log_bound, budget)


def _softmax(model: RecurrentLM, logits: nn.Linear, decoder: DecoderConfig, budget: TokenBudget) -> Statement:
    theorem = sampling_theorem(decoder, logits.out_features)
    if theorem is None:
        return UNPROVEN if type(decoder) in INCOMPLETE else NO_THEOREM
    premises = (finite_premise(model, budget), bounded_premise(model))
    if not all(premise.holds for premise in premises):
        return Statement(theorem, budget.no_proof, premises)
    units = magnitudes(model, logits, budget.inputs).units
    least = min_log_stop(logits, units, getattr(decoder, "temperature", 1.0))
    return _probabilistic(theorem, premises, bounds.log_no_stop_from(least, budget.tokens), budget)


def _probabilistic(theorem: str, premises: tuple[Premise, ...], log_bound: float, budget: TokenBudget) -> Statement:
    """Return a statement that bounds the probability of an unfinished output, unless the bound rounds to 1."""
    chance = bounds.format_exp(log_bound, up=True)
    if chance == "1":
        return Statement(theorem, budget.no_proof, premises)
    says = "the probability that an output does not end is bounded"
    return Statement(theorem, says, premises, f"P(no EOS in {budget.tokens:,}) < {chance}")


def last_step(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the step by which a search with a self-terminating model ends; None if no step is proven.

    This covers the beams of Definition A.2, in which a hypothesis ends at every step from greedy decoding's last step
    on. A beam that does not count EOS is excluded, because it avoids the output that consists of EOS alone.
    """
    if type(decoder) is GreedyConfig:
        return bounds.greedy_steps(epsilon)
    if type(decoder) is not BeamConfig or decoder.finish == "exhausted":
        return None
    if decoder.candidates != "finished" or not decoder.count_stop:
        return None
    return bounds.greedy_steps(epsilon) + (0 if decoder.finish == "first" else decoder.width - 1)


def first_bounded_step(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the step from which sampling emits EOS with at least its probability in the model; None if unproven.

    This is 1 for ancestral and consistent sampling at temperature 1; otherwise, the step at which p(EOS) exceeds 1/2:
    EOS is then a candidate, and a temperature below 1 only increases p(EOS). No theorem covers temperatures above 1.
    """
    if type(decoder) is AncestralConfig:
        return 1
    if type(decoder) not in SAMPLERS or not isinstance(decoder, SamplingConfig) or decoder.temperature > 1:
        return None
    keeps_stop = decoder.consistent and decoder.temperature == 1
    return 1 if keeps_stop else bounds.greedy_steps(epsilon)


def sampling_theorem(decoder: DecoderConfig, tokens: int) -> str | None:
    """Return the theorem or lemma that covers sampling from a bounded softmax; None if EOS may be excluded.

    Theorem 4.1 assumes temperature 1: if EOS is a candidate, its probability is then at least its probability in the
    model. At other temperatures it may be lower; Lemma 3.2 then bounds p(EOS) in the softmax of the scaled logits,
    and if EOS is a candidate, its probability is at least this p(EOS).
    """
    if type(decoder) not in (AncestralConfig, *SAMPLERS):
        return None
    if isinstance(decoder, SamplingConfig) and decoder.consistent:
        return f"Theorem 4.1, {PAPER}" if decoder.temperature == 1 else f"Lemma 3.2, {PAPER}"
    cuts = (isinstance(decoder, TopKConfig) and decoder.k < tokens) or (
        isinstance(decoder, NucleusConfig) and decoder.mass < 1
    )
    return None if cuts else f"Lemma 3.2, {PAPER}"
