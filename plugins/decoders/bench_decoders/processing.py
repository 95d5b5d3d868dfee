"""Applies processors to the distributions of a decoding."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from bench_core import PluginError
from bench_decoders.processors import ProcessorConfig

Pick: TypeAlias = Callable[[Tensor, Tensor, int], Tensor]  # log-probabilities [M, A], ids [M], step -> actions [M]


def processed(pick: Pick, processors: Sequence[ProcessorConfig]) -> Pick:
    """Return a pick for one decoding that chooses as `pick` does, from the processed distributions."""
    if not processors:
        return pick
    history = History()

    def choose(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
        for processor in processors:
            log_probs = applied(processor, log_probs, history.of(ids), step)
        actions = pick(log_probs, ids, step)
        history.add(ids, actions)
        return actions

    return choose


def applied(processor: ProcessorConfig, log_probs: Tensor, actions: Tensor, step: int) -> Tensor:
    """Return the normalised log-probabilities [M, A] that a processor leaves, bit for bit in rows left unchanged.

    Raises PluginError if it returns anything else than log-probabilities, or leaves a row without an action.
    """
    found = processor.process(log_probs.clone(), actions.clone())  # which it may write into
    if not isinstance(found, Tensor) or found.shape != log_probs.shape or not found.is_floating_point():
        what = f"a {found.dtype} of {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise _refusal(processor, step, f"returned {what}; {list(log_probs.shape)} log-probabilities are expected")
    found = found.masked_fill(log_probs == -torch.inf, -torch.inf)
    best = found.amax(1, keepdim=True)
    if not best.isfinite().all():
        nothing = bool((best == -torch.inf).any())
        raise _refusal(processor, step, "left a row without any action" if nothing else "returned NaN or infinity")
    same = (found == log_probs).all(1, keepdim=True)
    return torch.where(same, log_probs, found.log_softmax(1))


def _refusal(processor: ProcessorConfig, step: int, what: str) -> PluginError:
    kind = type(processor)
    return PluginError(
        f"processor {processor.name!r} ({kind.__module__}.{kind.__name__}.process) {what}, at step {step + 1}."
    )


class History:
    """The actions that the unfinished rows of a decoding have chosen; rows leave, and none comes or moves."""

    def __init__(self) -> None:
        self.ids: Tensor | None = None  # [M] those of the last step
        self.actions = torch.empty(0, 0)  # [M, K]

    def of(self, ids: Tensor) -> Tensor:
        """Return the actions [M, K] of the rows `ids` [M] that are left."""
        if self.ids is None:
            return ids.new_empty(len(ids), 0)
        return self.actions if len(ids) == len(self.ids) else self.actions[torch.isin(self.ids, ids)]

    def add(self, ids: Tensor, actions: Tensor) -> None:
        """Add the actions [M] of a step."""
        self.actions, self.ids = torch.cat([self.of(ids), actions[:, None]], 1), ids
