"""Mutants of decoders."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, costs, one_row
from bench_authors.testing.contracts import instead_of, mutant, patched, posing, with_log_probs
from bench_core import STOP, Batch, Decoder, Hypothesis, Model, Noise, Stepper


def _with_hypotheses(
    case: Case, change: Callable[[list[list[Hypothesis]], Model, Batch], list[list[Hypothesis]]]
) -> Case:
    """Let the decoder return `change` of what it finds."""

    def decode(decoder: Decoder[Any], model: Model, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        return change(decoder.decode(model, batch, noise), model, batch)

    return replace(case, decoder=patched(case.decoder, decode=decode))


def _with_each(case: Case, change: Callable[[Hypothesis], Hypothesis]) -> Case:
    return _with_hypotheses(case, lambda found, model, batch: [[change(one) for one in row] for row in found])


def needs_something_else(case: Case) -> Case:
    """The decoder's Config says that it needs what it does not."""

    class Oracle(Model):
        pass

    decoder = copy(case.decoder)
    decoder.config = posing(decoder.config, needs=Oracle)
    return replace(case, decoder=decoder)


def reports_the_trimmed_distribution(case: Case) -> Case:
    """A log-probability is that of the distribution that the decoder drew from."""

    def trimmed(model: Stepper, batch: Batch, one: Hypothesis) -> Hypothesis:
        chain = [*(one.actions or []), *[STOP] * one.finished]
        choices = zip(costs(model, batch, chain), chain, strict=True)
        gains = [log_probs[action] - log_probs.topk(2).values.logsumexp(0) for log_probs, action in choices]
        return replace(one, log_prob=sum(gain.item() for gain in gains))

    def change(found: list[list[Hypothesis]], model: Any, batch: Batch) -> list[list[Hypothesis]]:
        return [[trimmed(model, one_row(batch, row), one) for one in each] for row, each in enumerate(found)]

    return _with_hypotheses(case, change)


def calls_everything_finished(case: Case) -> Case:
    """What was cut short counts as finished, and the reverse."""
    return _with_each(case, lambda one: replace(one, finished=not one.finished))


def forgets_a_row(case: Case) -> Case:
    """The last row gets lost."""
    return _with_hypotheses(case, lambda found, model, batch: found[:-1])


def finds_nothing_for_a_row(case: Case) -> Case:
    """The last row has no hypothesis."""
    return _with_hypotheses(case, lambda found, model, batch: [*found[:-1], []])


def puts_the_worst_first(case: Case) -> Case:
    """Hypotheses are ranked the wrong way round."""
    return _with_hypotheses(case, lambda found, model, batch: [row[::-1] for row in found])


@mutant(instead_of("decoder", "decode"))
def exceeds_its_limit(decoder: Decoder[Any], model: Model, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
    """A hypothesis may become one token longer than was asked for."""
    longer = decoder.config.model_copy(update={"max_tokens": decoder.config.max_tokens + 1})
    return type(decoder)(longer).decode(model, batch, noise)


@mutant(instead_of("decoder", "decode"))
def ignores_the_limit_of_a_row(
    decoder: Decoder[Any], model: Model, batch: Batch, noise: Noise
) -> list[list[Hypothesis]]:
    """The decoder does not ask how long each row may become."""
    return decoder.decode(patched(model, limit=lambda model, batch: None), batch, noise)


def keeps_the_stop(case: Case) -> Case:
    """The tokens of what finished end with stop."""
    return _with_each(case, lambda one: replace(one, tokens=[*one.tokens, STOP]) if one.finished else one)


def loses_the_last_action(case: Case) -> Case:
    """The actions end before the tokens do."""
    return _with_each(case, lambda one: replace(one, actions=(one.actions or [])[:-1]))


@mutant(instead_of("decoder", "decode"))
def masks_by_multiplying(decoder: Decoder[Any], model: Any, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
    """What is impossible has, for the decoder, a log-probability of 0."""

    def opened(log_probs: Tensor) -> Tensor:
        return torch.cat([log_probs[:, :1], log_probs[:, 1:].masked_fill(log_probs[:, 1:] == -torch.inf, 0)], 1)

    return decoder.decode(with_log_probs(model, opened), batch, noise)
