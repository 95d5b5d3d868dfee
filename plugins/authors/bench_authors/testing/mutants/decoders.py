"""Mutants of decoders."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, costs, one_row
from bench_authors.testing.contracts import instead_of, mutant, patched, posing, with_log_probs
from bench_core import STOP, Batch, Decoder, Hypothesis, Model, Rng, Stepper


def _with_hypotheses(
    case: Case, change: Callable[[list[list[Hypothesis]], Model, Batch], list[list[Hypothesis]]]
) -> Case:
    """Pass the outputs of the decoder through `change`."""

    def decode(decoder: Decoder[Any], model: Model, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        return change(decoder.decode(model, batch, rng), model, batch)

    return replace(case, decoder=patched(case.decoder, decode=decode))


def _with_each(case: Case, change: Callable[[Hypothesis], Hypothesis]) -> Case:
    return _with_hypotheses(case, lambda outputs, model, batch: [[change(y) for y in row] for row in outputs])


def needs_something_else(case: Case) -> Case:
    """The decoder's Config declares a capability other than the one that its class needs."""

    class UnrelatedCapability(Model):
        pass

    decoder = copy(case.decoder)
    decoder.config = posing(decoder.config, needs=UnrelatedCapability)
    return replace(case, decoder=decoder)


def reports_the_trimmed_distribution(case: Case) -> Case:
    """Log-probabilities refer to the truncated distribution that the decoder samples from."""

    def rescore(model: Stepper, batch: Batch, hypothesis: Hypothesis) -> Hypothesis:
        chain = [*(hypothesis.actions or []), *[STOP] * hypothesis.finished]
        choices = zip(costs(model, batch, chain), chain, strict=True)
        gains = [log_probs[action] - log_probs.topk(2).values.logsumexp(0) for log_probs, action in choices]
        return replace(hypothesis, log_prob=sum(gain.item() for gain in gains))

    def change(outputs: list[list[Hypothesis]], model: Any, batch: Batch) -> list[list[Hypothesis]]:
        return [[rescore(model, one_row(batch, row), y) for y in several] for row, several in enumerate(outputs)]

    return _with_hypotheses(case, change)


def calls_everything_finished(case: Case) -> Case:
    """Unfinished hypotheses are marked finished, and vice versa."""
    return _with_each(case, lambda y: replace(y, finished=not y.finished))


def forgets_a_row(case: Case) -> Case:
    """The last row is missing."""
    return _with_hypotheses(case, lambda outputs, model, batch: outputs[:-1])


def finds_nothing_for_a_row(case: Case) -> Case:
    """The last row has no hypothesis."""
    return _with_hypotheses(case, lambda outputs, model, batch: [*outputs[:-1], []])


def puts_the_worst_first(case: Case) -> Case:
    """Hypotheses are sorted in reverse order."""
    return _with_hypotheses(case, lambda outputs, model, batch: [row[::-1] for row in outputs])


@mutant(instead_of("decoder", "decode"))
def exceeds_its_limit(decoder: Decoder[Any], model: Model, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
    """A hypothesis may exceed the limit by a token."""
    longer = decoder.config.model_copy(update={"max_tokens": decoder.config.max_tokens + 1})
    return type(decoder)(longer).decode(model, batch, rng)


@mutant(instead_of("decoder", "decode"))
def ignores_the_limit_of_a_row(decoder: Decoder[Any], model: Model, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
    """The decoder ignores the limits of rows."""
    return decoder.decode(patched(model, limit=lambda model, batch: None), batch, rng)


def keeps_the_stop(case: Case) -> Case:
    """The tokens of finished hypotheses end with EOS."""
    return _with_each(case, lambda y: replace(y, tokens=[*y.tokens, STOP]) if y.finished else y)


def loses_the_last_action(case: Case) -> Case:
    """The last action is missing."""
    return _with_each(case, lambda y: replace(y, actions=(y.actions or [])[:-1]))


@mutant(instead_of("decoder", "decode"))
def masks_by_multiplying(decoder: Decoder[Any], model: Any, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
    """Impossible actions have a log-probability of 0 for the decoder."""

    def unmask(log_probs: Tensor) -> Tensor:
        return torch.cat([log_probs[:, :1], log_probs[:, 1:].masked_fill(log_probs[:, 1:] == -torch.inf, 0)], 1)

    return decoder.decode(with_log_probs(model, unmask), batch, rng)
