"""Detects scores that see their targets: on random tokens, they are better than any prediction could be."""

from copy import deepcopy
from dataclasses import replace
from math import inf, log

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, repeat_row, replay
from bench_core import Batch, Rng, Stepper

STEPS, ROWS = 500, 64  #: training steps, and rows with new tokens per step
TOKENS, WORDS = 8, 4  #: maximum number of tokens and of distinct tokens in a target
MAX_COST_SHARE = 0.6  #: share of the minimum cost below which other errors, such as a missing token, are ruled out


def leak(case: Case, by: str) -> str:
    """Return a message if the score by the likelihood `by` provably sees its targets, else the empty string.

    A copy of the model is trained on random tokens, new at each step. No prediction costs less than their entropy, so
    a lower cost is proof, unless the score is too high for another reason, such as a mean in place of a sum. In that
    case, the score is also too high with all weights 0, when the model cannot see anything.
    """
    try:
        with torch.enable_grad():
            least = _length(case) * log(_words(case))
            blind = _is_cheap_when_blind(case, by, least)
            cost = inf if blind else _cost_after_training(case, by, MAX_COST_SHARE * least)
    except Exception:  # the calling contract reports the error
        return ""
    if not 0 <= cost < MAX_COST_SHARE * least:
        return ""
    return (
        f"the model sees what it predicts: trained on random tokens, which have an entropy of "
        f"{least / _length(case):.2f} nats each, it scores them at {cost / _length(case):.2f} by {by!r}. Look for a "
        "missing causal mask, a layer that reads from right to left, or unshifted inputs.\n"
    )


def _is_cheap_when_blind(case: Case, by: str, least: float) -> bool:
    """Return whether, with all weights 0, random targets cost less than their steps or (without steps) `least`."""
    blind = replace(case, model=deepcopy(case.model))
    with torch.no_grad():
        for weights in blind.model.parameters():
            weights.zero_()
        batch = _targets(blind, 0)
        bound = _steps(blind, batch) if isinstance(case.model, Stepper) else least
        return -blind.scored(by, batch).mean().item() < bound - 1e-6


def _steps(case: Case, batch: Batch) -> float:
    """Return the mean cost of targets in nats, summed over steps."""
    chain = case.model.chain(batch, case.rng)
    gains = [
        log_probs.gather(1, actions[:, None]).sum() for _, log_probs, actions in replay(case.model, batch, chain)
    ]
    return -torch.stack(gains).sum().item() / len(batch)


def _cost_after_training(case: Case, by: str, enough: float) -> float:
    """Return the cost of random targets in nats after training, which ends early at a cost below `enough`."""
    case = replace(case, model=deepcopy(case.model))
    weights = [weight for weight in case.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, 0.02)
    cost = torch.tensor(torch.inf)
    for step in range(STEPS):
        batch = _targets(case, step)
        cost = -case.scored(by, batch, case.rng.fork(step)).mean()
        if cost < enough:
            break
        optimizer.zero_grad()
        (cost if cost.requires_grad else case.loss(batch, step=step).value).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return cost.item()


def _length(case: Case) -> int:
    """Return the number of random tokens in a target."""
    limit = case.model.limit(case.batch) if isinstance(case.model, Stepper) else None
    return TOKENS if limit is None else max(1, min(TOKENS, int(limit.max()) - 1))


def _words(case: Case) -> int:
    return min(WORDS, len(case.info.vocabulary) - 1)


def _targets(case: Case, step: int) -> Batch:
    """Return copies of the row with the highest limit, with random targets of equal length."""
    uniform = Rng(13).fork(step).uniform(torch.arange(ROWS), 0, _length(case))
    words: Tensor = 1 + (uniform * _words(case)).long()
    limit = case.model.limit(case.batch) if isinstance(case.model, Stepper) else None
    return repeat_row(case, words.tolist(), 0 if limit is None else int(limit.argmax()))
