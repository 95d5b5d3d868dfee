"""The premises of the theorems, checked on a model."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Model, Premise, Rng, Stepper
from bench_rnn.api import RecurrentLM
from bench_strlm import bounds
from bench_strlm.magnitudes import BOUNDED, logits_of, magnitudes

ROWS, STEPS = 8, 64  # number and length of the random sequences on which probabilities are observed
STOP_TOLERANCE = 1e-5  # relative error of p(EOS) in float32
SUM_TOLERANCE = 1e-3  # rounding error of the logarithm of a sum of probabilities


@dataclass(frozen=True)
class TokenBudget:
    """The number of tokens that every output can have, and the rows with the longest prompts."""

    longest: Batch  # ROWS rows, repeated if there are fewer
    model_limit: int  # number of tokens that the model's positions allow after every prompt
    limit: int  # number of tokens that the decoder may generate and the metric counts

    @classmethod
    def of(cls, model: Stepper, batches: Iterable[Batch], limit: int) -> TokenBudget | None:
        """Return the budget of a model for all rows; None if there are no rows."""
        longest, least = None, sys.maxsize
        for batch in batches:
            limits = model.limit(batch)
            least = least if limits is None else min(least, int(limits.min()))
            if longest is None or batch.prompt.shape[1] > longest.prompt.shape[1]:
                longest = batch
        return None if longest is None else cls(longest.select(torch.arange(ROWS) % len(longest)), least, limit)

    @property
    def tokens(self) -> int:
        """The maximum number of tokens that every output can have."""
        return min(self.model_limit, self.limit)

    @property
    def inputs(self) -> int:
        """The maximum number of tokens that the model reads in a row."""
        return self.longest.prompt.shape[1] + self.tokens

    @property
    def no_proof(self) -> str:
        """The conclusion of a statement without a bound for this number of tokens."""
        why = " (the model's limit)" if self.model_limit < self.limit else ""
        return f"nothing is proven within {self.tokens:,} tokens{why}"


@dataclass(frozen=True)
class Rollouts:
    """The probabilities along random continuations of the longest prompts."""

    stop: Tensor  # [ROWS, steps] p(EOS)
    sums_to_one: bool  # whether the probabilities sum to 1 at every step
    vocab_size: int

    @classmethod
    def of(cls, model: Stepper, budget: TokenBudget) -> Rollouts:
        """Step through the model as decoders do, with random words."""
        rng, steps = Rng(0).fork("consistency"), min(STEPS, budget.tokens)
        ids = torch.arange(ROWS)
        log_probs, state = model.start(budget.longest)
        stops, sums = [log_probs[:, STOP]], [log_probs.logsumexp(1)]
        for step in range(1, steps):
            words = 1 + (rng.uniform(ids, step) * (log_probs.shape[1] - 1)).long()
            log_probs, state = model.step(state, words)
            stops.append(log_probs[:, STOP])
            sums.append(log_probs.logsumexp(1))
        sums_to_one = bool((torch.stack(sums).abs() < SUM_TOLERANCE).all())  # False for NaN
        return cls(torch.stack(stops, 1).double().exp(), sums_to_one, log_probs.shape[1])

    def growth_premise(self, epsilon: float) -> Premise:
        """Return the premise that p(EOS) never decreases and is never below its bound."""
        rows, steps = self.stop.shape
        least = self.stop.new_tensor([bounds.min_stop(epsilon, step) for step in range(1, steps + 1)])
        grows = bool((self.stop.diff() >= 0).all()) and bool((self.stop >= (1 - STOP_TOLERANCE) * least).all())
        text = f"p(EOS) grows and exceeds 1 - (1 - ε)^n, observed on {rows} random sequences of {steps} tokens"
        return Premise(text, grows and self.sums_to_one)


def finite_premise(model: Model, budget: TokenBudget) -> Premise:
    """Return the premise that all numbers are finite; if the model is not recurrent, only weights are checked."""
    logits = logits_of(model) if isinstance(model, RecurrentLM) else None
    if isinstance(model, RecurrentLM) and logits is not None:
        fits = magnitudes(model, logits, budget.inputs).fits(logits.weight.dtype)
        return Premise("every weight is finite, and nothing computed from them overflows", fits)
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return Premise("every weight is finite", all(bool(weight.isfinite().all()) for weight in weights))


def bounded_premise(model: RecurrentLM) -> Premise:
    """Return the premise that the cell bounds its hidden units."""
    return Premise("hidden units lie between -1 and 1 (tanh, GRU, LSTM)", model.cell in BOUNDED)
