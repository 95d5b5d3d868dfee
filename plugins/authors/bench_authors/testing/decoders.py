"""Contracts of decoders, with any model that they support."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar, get_args, get_origin

import torch
from torch import Tensor

from bench_authors.testing.accelerators import DECODERS_ON_ACCELERATORS
from bench_authors.testing.cases import Case, costs, one_row, turned
from bench_authors.testing.contracts import catches, check, contracts_of, margin, patched, with_log_probs
from bench_authors.testing.mutants import decoders as mutants
from bench_authors.testing.mutants.models import draws_in_turn, forgets_to_reorder
from bench_core import STOP, Batch, Decoder, Hypothesis, Model, Stepper


def check_decoder(case: Case) -> list[str]:
    """Try all contracts that apply to the decoder of `case`, with its model; return their names."""
    return check(DECODER_CONTRACTS, case)


def steps(case: Case) -> bool:
    """Return whether the decoder chooses the actions of a Stepper."""
    return issubclass(case.decoder.config.needs, Stepper)


@catches(mutants.needs_something_else)
def it_needs_what_its_config_says(case: Case) -> None:
    """`Decoder[Stepper]` in the class, if it has a type parameter, and `needs = Stepper` in the Config, or more."""
    found, said = _needs(type(case.decoder)), case.decoder.config.needs
    if found is not None:
        assert issubclass(said, found), (
            f"the class decodes a {found.__name__}; its Config says that it needs a {said.__name__}"
        )


@catches(draws_in_turn, forgets_to_reorder)
def a_row_decodes_alike_alone_and_in_a_batch(case: Case) -> None:
    """In any order, and whatever its padding."""
    together = case.decoded()
    backwards = case.decoded(turned(case.batch))[::-1]
    alone = [case.decoded(one_row(case.batch, row))[0] for row in range(len(case.batch))]
    for one, other, third in zip(together, backwards, alone, strict=True):
        assert _said(one) == _said(other), f"{_said(one)}, but {_said(other)} in the opposite order"
        assert _said(one) == _said(third), f"{_said(one)}, but {_said(third)} alone"


@catches(
    forgets_to_reorder,
    mutants.reports_the_trimmed_distribution,
    mutants.calls_everything_finished,
    when=steps,
)
def a_hypothesis_costs_what_its_chain_costs(case: Case) -> None:
    """The stop included if it finished, and only then; where it has both actions and a log-probability."""
    for one, batch in _hypotheses(case):
        if one.actions is not None and one.log_prob is not None:
            chain = [*one.actions, *[STOP] * one.finished]
            cost = sum(log_probs[action].item() for log_probs, action in _choices(case, batch, chain))
            assert abs(one.log_prob - cost) <= margin(cost), f"{chain} costs {cost}, not {one.log_prob}"


@catches(mutants.forgets_a_row, mutants.finds_nothing_for_a_row)
def every_row_has_a_hypothesis(case: Case) -> None:
    """In the order of the batch."""
    found = case.decoded()
    assert len(found) == len(case.batch), f"{len(found)} lists of hypotheses for {len(case.batch)} rows"
    assert all(found), "a row has no hypothesis"


@catches(mutants.puts_the_worst_first, when=steps)
def the_best_come_first(case: Case) -> None:
    """Whatever length and stop are worth: of those alike in both, the more probable, with or without its stop."""
    for row, found in enumerate(case.decoded()):
        batch = one_row(case.batch, row)
        known = [one for one in found if one.actions is not None and one.log_prob is not None]
        for before, after in combinations(known, 2):
            if (len(before.tokens), before.finished) == (len(after.tokens), after.finished):
                worth, less = _worth(case, batch, before), _worth(case, batch, after)
                better = any(one >= other - margin(other) for one, other in zip(worth, less, strict=True))
                assert better, f"{before} comes before {after}"


@catches(mutants.exceeds_its_limit, mutants.ignores_the_limit_of_a_row)
def limits_are_kept(case: Case) -> None:
    """Those of the decoder, and for a Stepper those of the model for each row, stop included."""
    most = case.decoder.config.max_tokens
    found = [(row, most) for row in case.decoded()]
    if steps(case):
        limited = patched(case.model, limit=lambda model, batch: 1 + batch.ids % 3)
        rows = case.decoded(model=limited)
        found += list(zip(rows, (1 + case.batch.ids % 3).clamp(max=most).tolist(), strict=True))
    for row, limit in found:
        for one in row:
            assert _length(one) <= limit, f"{one.tokens} has {_length(one)} tokens; at most {limit} were asked for"


@catches(mutants.keeps_the_stop, mutants.loses_the_last_action)
def finished_means_that_the_chain_stopped(case: Case) -> None:
    """And stop is neither among the tokens nor among the actions; tokens are what the actions say."""
    for one, _ in _hypotheses(case):
        assert STOP not in one.tokens, f"stop is among the tokens {one.tokens}"
        if one.actions is not None and isinstance(case.model, Stepper):
            whole = len(one.tokens) * case.model.actions_per_token
            assert STOP not in one.actions, f"stop is among the actions {one.actions}"
            assert len(one.actions) == whole, f"{len(one.actions)} actions cannot be {len(one.tokens)} tokens"
            read = case.model.read(one.actions)
            assert read == one.tokens, f"the actions {one.actions} say {read}, not {one.tokens}"


@catches(mutants.masks_by_multiplying, when=steps)
def no_action_of_probability_zero_is_taken(case: Case) -> None:
    """Tried on the same model with all but three actions shut at every step."""
    case = replace(case, model=with_log_probs(case.model, _shut))
    for one, batch in _hypotheses(case):
        chain = [] if one.actions is None else [*one.actions, *[STOP] * one.finished]
        for log_probs, action in _choices(case, batch, chain):
            assert log_probs[action] > -torch.inf, f"{chain} takes action {action}, which cannot be"


def _needs(kind: type[Decoder[Model]]) -> type[Model] | None:
    """Return the capability in the brackets of `Decoder[...]`, for the class or the nearest of its bases, if any."""
    for base in (base for parent in kind.__mro__ for base in parent.__dict__.get("__orig_bases__", ())):
        origin, arguments = get_origin(base), get_args(base)
        if origin is not None and issubclass(origin, Decoder) and not isinstance(arguments[0], TypeVar):
            capability: type[Model] = get_origin(arguments[0]) or arguments[0]
            return capability
    return None


def _hypotheses(case: Case) -> list[tuple[Hypothesis, Batch]]:
    """Return every hypothesis with its row alone."""
    return [(one, one_row(case.batch, row)) for row, found in enumerate(case.decoded()) for one in found]


def _choices(case: Case, batch: Batch, chain: Sequence[int]) -> list[tuple[Tensor, int]]:
    return list(zip(costs(case.model, batch, chain), chain, strict=True))


def _worth(case: Case, batch: Batch, one: Hypothesis) -> tuple[float, float]:
    """Return the log-probability of a hypothesis with its stop, if it has one, and without."""
    assert one.log_prob is not None
    actions = one.actions or []
    return one.log_prob, sum(log_probs[action].item() for log_probs, action in _choices(case, batch, actions))


def _said(row: Sequence[Hypothesis]) -> list[tuple[list[int], bool]]:
    return [(one.tokens if one.actions is None else one.actions, one.finished) for one in row]


def _length(one: Hypothesis) -> int:
    return len(one.tokens) + one.finished


def _shut(log_probs: Tensor) -> Tensor:
    """Leave stop and the first two other actions open, if one of them is; else all."""
    places = torch.arange(log_probs.shape[1], device=log_probs.device)
    few = log_probs.masked_fill(places > 2, -torch.inf)
    return few.where((few > -torch.inf).any(1, keepdim=True), log_probs).log_softmax(1)


#: What `check_decoder` tries, as far as it applies.
DECODER_CONTRACTS = (*contracts_of(globals()), *DECODERS_ON_ACCELERATORS)
