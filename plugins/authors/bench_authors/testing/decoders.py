"""Contracts of decoders with any supported model."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar, get_args, get_origin

import torch
from torch import Tensor

from bench_authors.testing.accelerators import DECODERS_ON_ACCELERATORS
from bench_authors.testing.cases import Case, costs, one_row, reverse_rows
from bench_authors.testing.contracts import catches, check, contracts_of, margin, patched, with_log_probs
from bench_authors.testing.mutants import decoders as mutants
from bench_authors.testing.mutants.models import draws_in_turn, forgets_to_reorder
from bench_core import STOP, Batch, Decoder, Hypothesis, Model, Stepper


def check_decoder(case: Case) -> list[str]:
    """Test all contracts that apply to the decoder and model of `case`; return their names."""
    return check(DECODER_CONTRACTS, case)


def uses_steps(case: Case) -> bool:
    """Return whether the decoder chooses the actions of a Stepper."""
    return issubclass(case.decoder.config.needs, Stepper)


@catches(mutants.needs_something_else)
def it_needs_what_its_config_says(case: Case) -> None:
    """Check that `needs` of the Config is the class's type parameter, as in `Decoder[Stepper]`, or a subclass."""
    needed, declared = _needs(type(case.decoder)), case.decoder.config.needs
    if needed is not None:
        assert issubclass(declared, needed), (
            f"the class decodes a {needed.__name__}, but its Config declares that it needs a {declared.__name__}"
        )


@catches(draws_in_turn, forgets_to_reorder)
def a_row_decodes_alike_alone_and_in_a_batch(case: Case) -> None:
    """Compare the outputs of rows in a batch with their outputs in reverse order, and alone without padding."""
    together = case.decoded()
    backwards = case.decoded(reverse_rows(case.batch))[::-1]
    alone = [case.decoded(one_row(case.batch, row))[0] for row in range(len(case.batch))]
    for first, second, third in zip(together, backwards, alone, strict=True):
        assert _summary(first) == _summary(second), f"{_summary(first)}, but {_summary(second)} in reverse order"
        assert _summary(first) == _summary(third), f"{_summary(first)}, but {_summary(third)} alone"


@catches(
    forgets_to_reorder,
    mutants.reports_the_trimmed_distribution,
    mutants.calls_everything_finished,
    when=uses_steps,
)
def a_hypothesis_costs_what_its_chain_costs(case: Case) -> None:
    """Compare log-probabilities with the steps along the actions, including EOS if the output is finished."""
    for hypothesis, batch in _hypotheses(case):
        if hypothesis.actions is not None and hypothesis.log_prob is not None:
            chain = [*hypothesis.actions, *[STOP] * hypothesis.finished]
            cost = sum(log_probs[action].item() for log_probs, action in _choices(case, batch, chain))
            assert abs(hypothesis.log_prob - cost) <= margin(cost), (
                f"the log-probability of {chain} is {cost}, not {hypothesis.log_prob}"
            )


@catches(mutants.forgets_a_row, mutants.finds_nothing_for_a_row)
def every_row_has_a_hypothesis(case: Case) -> None:
    """Check that each row of the batch has at least one hypothesis."""
    hypotheses = case.decoded()
    assert len(hypotheses) == len(case.batch), f"{len(hypotheses)} lists of hypotheses for {len(case.batch)} rows"
    assert all(hypotheses), "a row has no hypothesis"


@catches(mutants.puts_the_worst_first, when=uses_steps)
def the_best_come_first(case: Case) -> None:
    """Check that hypotheses with equal length and `finished` are sorted by probability, with or without EOS."""
    for row, hypotheses in enumerate(case.decoded()):
        batch = one_row(case.batch, row)
        known = [y for y in hypotheses if y.actions is not None and y.log_prob is not None]
        for before, after in combinations(known, 2):
            if (len(before.tokens), before.finished) == (len(after.tokens), after.finished):
                worth, less = _log_probs(case, batch, before), _log_probs(case, batch, after)
                better = any(first >= second - margin(second) for first, second in zip(worth, less, strict=True))
                assert better, f"{before} comes before {after}"


@catches(mutants.exceeds_its_limit, mutants.ignores_the_limit_of_a_row)
def limits_are_kept(case: Case) -> None:
    """Check the decoder's limit and, for a Stepper, the model's limit for each row, including EOS."""
    max_tokens = case.decoder.config.max_tokens
    outputs = [(row, max_tokens) for row in case.decoded()]
    if uses_steps(case):
        limited = patched(case.model, limit=lambda model, batch: 1 + batch.ids % 3)
        rows = case.decoded(model=limited)
        outputs += list(zip(rows, (1 + case.batch.ids % 3).clamp(max=max_tokens).tolist(), strict=True))
    for row, limit in outputs:
        for hypothesis in row:
            assert _length(hypothesis) <= limit, (
                f"{hypothesis.tokens} has {_length(hypothesis)} tokens; the limit is {limit}"
            )


@catches(mutants.keeps_the_stop, mutants.loses_the_last_action)
def finished_means_that_the_chain_stopped(case: Case) -> None:
    """Check that neither tokens nor actions contain EOS, and that the actions are read as the tokens."""
    for hypothesis, _ in _hypotheses(case):
        assert STOP not in hypothesis.tokens, f"EOS is among the tokens {hypothesis.tokens}"
        if hypothesis.actions is not None and isinstance(case.model, Stepper):
            whole = len(hypothesis.tokens) * case.model.actions_per_token
            assert STOP not in hypothesis.actions, f"EOS is among the actions {hypothesis.actions}"
            assert len(hypothesis.actions) == whole, (
                f"{len(hypothesis.actions)} actions cannot be {len(hypothesis.tokens)} tokens"
            )
            read = case.model.read(hypothesis.actions)
            assert read == hypothesis.tokens, (
                f"the actions {hypothesis.actions} are read as {read}, not {hypothesis.tokens}"
            )


@catches(mutants.masks_by_multiplying, when=uses_steps)
def no_action_of_probability_zero_is_taken(case: Case) -> None:
    """Decode with a model that excludes all but three actions at every step."""
    case = replace(case, model=with_log_probs(case.model, _exclude_most))
    for hypothesis, batch in _hypotheses(case):
        chain = [] if hypothesis.actions is None else [*hypothesis.actions, *[STOP] * hypothesis.finished]
        for log_probs, action in _choices(case, batch, chain):
            assert log_probs[action] > -torch.inf, f"{chain} contains action {action}, whose probability is zero"


def _needs(kind: type[Decoder[Model]]) -> type[Model] | None:
    """Return the capability in `Decoder[...]` of the class or its nearest base, or None."""
    for base in (base for parent in kind.__mro__ for base in parent.__dict__.get("__orig_bases__", ())):
        origin, arguments = get_origin(base), get_args(base)
        if origin is not None and issubclass(origin, Decoder) and not isinstance(arguments[0], TypeVar):
            capability: type[Model] = get_origin(arguments[0]) or arguments[0]
            return capability
    return None


def _hypotheses(case: Case) -> list[tuple[Hypothesis, Batch]]:
    """Return every hypothesis with its row as a batch."""
    return [(y, one_row(case.batch, row)) for row, hypotheses in enumerate(case.decoded()) for y in hypotheses]


def _choices(case: Case, batch: Batch, chain: Sequence[int]) -> list[tuple[Tensor, int]]:
    return list(zip(costs(case.model, batch, chain), chain, strict=True))


def _log_probs(case: Case, batch: Batch, hypothesis: Hypothesis) -> tuple[float, float]:
    """Return the log-probability of a hypothesis with EOS, if it is finished, and without EOS."""
    assert hypothesis.log_prob is not None
    actions = hypothesis.actions or []
    return hypothesis.log_prob, sum(log_probs[action].item() for log_probs, action in _choices(case, batch, actions))


def _summary(row: Sequence[Hypothesis]) -> list[tuple[list[int], bool]]:
    return [(y.tokens if y.actions is None else y.actions, y.finished) for y in row]


def _length(hypothesis: Hypothesis) -> int:
    return len(hypothesis.tokens) + hypothesis.finished


def _exclude_most(log_probs: Tensor) -> Tensor:
    """Exclude actions other than EOS and the first two, unless all of these have probability zero."""
    places = torch.arange(log_probs.shape[1], device=log_probs.device)
    few = log_probs.masked_fill(places > 2, -torch.inf)
    return few.where((few > -torch.inf).any(1, keepdim=True), log_probs).log_softmax(1)


#: The contracts of `check_decoder`.
DECODER_CONTRACTS = (*contracts_of(globals()), *DECODERS_ON_ACCELERATORS)
