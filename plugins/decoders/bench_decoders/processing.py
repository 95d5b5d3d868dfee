"""Applies processors to the distribution of each decoding step."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from bench_core import PluginError
from bench_decoders.processors import ProcessorConfig

Pick: TypeAlias = Callable[[Tensor, Tensor, int], Tensor]  # log-probabilities [M, A], ids [M], step -> actions [M]


def with_processors(pick: Pick, processors: Sequence[ProcessorConfig]) -> Pick:
    """Return a pick function for one batch that applies the processors and then calls `pick`."""
    if not processors:
        return pick
    history = ActionHistory()

    def choose(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
        for processor in processors:
            log_probs = apply(processor, log_probs, history.of(ids), step)
        actions = pick(log_probs, ids, step)
        history.add(ids, actions)
        return actions

    return choose


def apply(processor: ProcessorConfig, log_probs: Tensor, actions: Tensor, step: int) -> Tensor:
    """Return a processor's log-probabilities [M, A], normalised; rows that it leaves unchanged stay bit-identical.

    Raises PluginError if the processor does not return log-probabilities, or excludes every action of a row.
    """
    result = processor.process(log_probs.clone(), actions.clone())  # clones, because it may modify them in place
    if not isinstance(result, Tensor) or result.shape != log_probs.shape or not result.is_floating_point():
        what = f"{result.dtype} {list(result.shape)}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
        raise _error(processor, step, f"returned {what}, not log-probabilities of shape {list(log_probs.shape)}")
    result = result.masked_fill(log_probs == -torch.inf, -torch.inf)
    best = result.amax(1, keepdim=True)
    if not best.isfinite().all():
        nothing = bool((best == -torch.inf).any())
        raise _error(processor, step, "excluded every action of a row" if nothing else "returned NaN or infinity")
    same = (result == log_probs).all(1, keepdim=True)
    return torch.where(same, log_probs, result.log_softmax(1))


def _error(processor: ProcessorConfig, step: int, what: str) -> PluginError:
    kind = type(processor)
    return PluginError(
        f"processor {processor.name!r} ({kind.__module__}.{kind.__name__}.process) {what}, at step {step + 1}."
    )


class ActionHistory:
    """The past actions of the unfinished rows of a batch; rows may leave, but are never added or moved."""

    def __init__(self) -> None:
        self.ids: Tensor | None = None  # [M] rows of the last step
        self.actions = torch.empty(0, 0)  # [M, K]

    def of(self, ids: Tensor) -> Tensor:
        """Return the actions [M, K] of the remaining rows `ids` [M]."""
        if self.ids is None:
            return ids.new_empty(len(ids), 0)
        return self.actions if len(ids) == len(self.ids) else self.actions[torch.isin(self.ids, ids)]

    def add(self, ids: Tensor, actions: Tensor) -> None:
        """Append the actions [M] of a step."""
        self.actions, self.ids = torch.cat([self.of(ids), actions[:, None]], 1), ids
