"""Whether a score sees what it predicts: on random tokens it is then better than any prediction can be."""

from copy import deepcopy
from dataclasses import replace
from math import inf, log

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, crowd, replay
from bench_core import Batch, Noise, Stepper

STEPS, ROWS = 500, 64  #: of a training, each on new tokens
TOKENS, WORDS = 8, 4  #: of a target, and how many different ones, at most
SHARE = 0.6  #: of the least possible cost, below which it is no mistake of another kind, such as a token left out


def leak(case: Case, by: str) -> str:
    """Return a line that says that the score `by` sees what it predicts; the empty string if it is not known to.

    A copy of the model is trained on tokens drawn at random, new ones at each step. Of these nobody can predict more
    than their entropy allows, so that a lower cost is proof, unless the score is too high for another reason, such as
    a mean in place of a sum: then it is so with all weights 0 too, where nothing can be seen.
    """
    try:
        with torch.enable_grad():
            least = _length(case) * log(_words(case))
            cost = inf if _is_cheap_when_blind(case, by, least) else _cost_after_training(case, by, SHARE * least)
    except Exception:  # whatever is broken, the contract that asks has more to say about it
        return ""
    if not 0 <= cost < SHARE * least:
        return ""
    return (
        f"the model sees what it predicts: trained on random tokens, which nobody predicts at less than "
        f"{least / _length(case):.2f} nats each, it scores them at {cost / _length(case):.2f} by {by!r}. Look for a "
        "causal mask that is missing, a layer that reads from right to left, or inputs that are not shifted.\n"
    )


def _is_cheap_when_blind(case: Case, by: str, least: float) -> bool:
    """Return whether random targets cost less than their steps, or than `least` nats, with all weights 0."""
    blind = replace(case, model=deepcopy(case.model))
    with torch.no_grad():
        for weights in blind.model.parameters():
            weights.zero_()
        batch = _targets(blind, 0)
        due = _steps(blind, batch) if isinstance(case.model, Stepper) else least
        return -blind.scored(by, batch).mean().item() < due - 1e-6


def _steps(case: Case, batch: Batch) -> float:
    """Return the mean cost in nats of targets, step by step."""
    chain = case.model.chain(batch, case.noise)
    taken = [
        log_probs.gather(1, actions[:, None]).sum() for _, log_probs, actions in replay(case.model, batch, chain)
    ]
    return -torch.stack(taken).sum().item() / len(batch)


def _cost_after_training(case: Case, by: str, enough: float) -> float:
    """Return the cost in nats of random targets at the end of a training, or as soon as it is below `enough`."""
    case = replace(case, model=deepcopy(case.model))
    weights = [one for one in case.model.parameters() if one.requires_grad]
    optimizer = torch.optim.Adam(weights, 0.02)
    cost = torch.tensor(torch.inf)
    for step in range(STEPS):
        batch = _targets(case, step)
        cost = -case.scored(by, batch, case.noise.fork(step)).mean()
        if cost < enough:
            break
        optimizer.zero_grad()
        (cost if cost.requires_grad else case.loss(batch, step=step).value).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return cost.item()


def _length(case: Case) -> int:
    """Return how many random tokens a target has."""
    limit = case.model.limit(case.batch) if isinstance(case.model, Stepper) else None
    return TOKENS if limit is None else max(1, min(TOKENS, int(limit.max()) - 1))


def _words(case: Case) -> int:
    return min(WORDS, len(case.info.vocabulary) - 1)


def _targets(case: Case, step: int) -> Batch:
    """Return the row that may have most tokens, with random targets, as long as each other."""
    draws = Noise(13).fork(step).uniform(torch.arange(ROWS), 0, _length(case))
    words: Tensor = 1 + (draws * _words(case)).long()
    limit = case.model.limit(case.batch) if isinstance(case.model, Stepper) else None
    return crowd(case, words.tolist(), 0 if limit is None else int(limit.argmax()))
