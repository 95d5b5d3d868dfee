"""Records in hypotheses how often decoding called the model."""

from dataclasses import replace

from bench_core import Hypothesis


def with_calls(hypothesis: Hypothesis, calls: int) -> Hypothesis:
    """Return the hypothesis with the value `calls`: how many rows of log-probabilities were computed to find it."""
    return replace(hypothesis, values={**hypothesis.values, "calls": float(calls)})


def with_step_calls(hypothesis: Hypothesis) -> Hypothesis:
    """Return the hypothesis with the value `calls`: one for each action, EOS included."""
    actions = hypothesis.tokens if hypothesis.actions is None else hypothesis.actions
    return with_calls(hypothesis, len(actions) + hypothesis.finished)
