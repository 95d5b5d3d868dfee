"""The most probable actions, without a sort of all."""

from __future__ import annotations

from torch import Tensor

from bench_core import best


def likeliest(log_probs: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` highest of each row [N, k] and their actions, best first; ties to the lower action.

    The same as `best`, which reads all of a large table once more to find ties; here one place more than asked for
    tells which rows have any, and only those are read again.
    """
    k, size = min(k, log_probs.shape[1]), log_probs.shape[1]
    values, actions = log_probs.topk(min(k + 1, size), 1)
    tied = (values[:, 1:] == values[:, :-1]).any(1).nonzero()[:, 0]
    values, actions = values[:, :k], actions[:, :k]
    if len(tied):
        values[tied], actions[tied] = best(log_probs[tied], k)
    return values, actions
