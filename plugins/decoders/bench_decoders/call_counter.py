"""Counts the calls of a model during search."""

from dataclasses import replace

from bench_core import Hypothesis


def counted(hypothesis: Hypothesis, calls: int) -> Hypothesis:
    """Return a hypothesis that carries the rows of actions that the model was asked for to find it, as `calls`."""
    return replace(hypothesis, values={**hypothesis.values, "calls": float(calls)})


def walked(hypothesis: Hypothesis) -> Hypothesis:
    """Return the hypothesis of a walk, which asks once for each action that it takes, stop included."""
    actions = hypothesis.tokens if hypothesis.actions is None else hypothesis.actions
    return counted(hypothesis, len(actions) + hypothesis.finished)
