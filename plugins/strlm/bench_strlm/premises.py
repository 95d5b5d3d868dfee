"""The premises of the theorems, checked on a model."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Model, Noise, Premise, Stepper
from bench_rnn.api import RecurrentLM
from bench_strlm import bounds
from bench_strlm.magnitudes import BOUNDED, logits_of, magnitudes

ROWS, STEPS = 8, 64  # of the random sequences on which probabilities are watched
ROUNDING = 1e-5  # of float32, as a share of p(stop)
WHOLE = 1e-3  # by so much may rounding keep the logarithm of a sum of probabilities from 0


@dataclass(frozen=True)
class Room:
    """How many tokens every output of the decoded rows can have, and those with the longest opening."""

    longest: Batch  # ROWS rows, some of them several times where there are fewer
    model: int  # so many tokens the model can give after every opening, as it has so many positions
    limit: int  # so many are decoded and waited for

    @classmethod
    def of(cls, model: Stepper, batches: Iterable[Batch], limit: int) -> Room | None:
        """Return the room that a model leaves to all rows; None where there is no row."""
        longest, least = None, sys.maxsize
        for batch in batches:
            own = model.limit(batch)
            least = least if own is None else min(least, int(own.min()))
            if longest is None or batch.opening.shape[1] > longest.opening.shape[1]:
                longest = batch
        return None if longest is None else cls(longest.select(torch.arange(ROWS) % len(longest)), least, limit)

    @property
    def tokens(self) -> int:
        """The most tokens that every output can have."""
        return min(self.model, self.limit)

    @property
    def read(self) -> int:
        """The most tokens that the model reads of a row."""
        return self.longest.opening.shape[1] + self.tokens

    @property
    def nothing(self) -> str:
        """The words for a bound that says nothing here."""
        why = ", all that the model has room for" if self.model < self.limit else ""
        return f"nothing is proven within {self.tokens:,} tokens{why}"


@dataclass(frozen=True)
class Watched:
    """The probabilities along random continuations of the longest opening."""

    stop: Tensor  # [ROWS, steps] p(stop)
    whole: bool  # whether all probabilities of every step are numbers that add up to 1
    tokens: int  # of the vocabulary

    @classmethod
    def of(cls, model: Stepper, room: Room) -> Watched:
        """Step through the model as decoders do, in random words."""
        noise, steps = Noise(0).fork("consistency"), min(STEPS, room.tokens)
        ids = torch.arange(ROWS)
        log_probs, state = model.start(room.longest)
        stops, sums = [log_probs[:, STOP]], [log_probs.logsumexp(1)]
        for step in range(1, steps):
            words = 1 + (noise.uniform(ids, step) * (log_probs.shape[1] - 1)).long()
            log_probs, state = model.step(state, words)
            stops.append(log_probs[:, STOP])
            sums.append(log_probs.logsumexp(1))
        whole = bool((torch.stack(sums).abs() < WHOLE).all())  # not where one of them is NaN
        return cls(torch.stack(stops, 1).double().exp(), whole, log_probs.shape[1])

    def terminating(self, epsilon: float) -> Premise:
        """Return whether p(stop) never falls, nor lies below its bound."""
        rows, steps = self.stop.shape
        least = self.stop.new_tensor([bounds.least_stop(epsilon, step) for step in range(1, steps + 1)])
        grows = bool((self.stop.diff() >= 0).all()) and bool((self.stop >= (1 - ROUNDING) * least).all())
        text = f"p(stop) grows and exceeds 1 - (1 - ε)^n, watched on {rows} random sequences of {steps}"
        return Premise(text, grows and self.whole)


def finite(model: Model, room: Room) -> Premise:
    """Return whether numbers stay finite: proven of a recurrent model's, and of others that their weights are."""
    logits = logits_of(model) if isinstance(model, RecurrentLM) else None
    if isinstance(model, RecurrentLM) and logits is not None:
        fit = magnitudes(model, logits, room.read).fit(logits.weight.dtype)
        return Premise("every weight is finite, and so is all that can be computed of them", fit)
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return Premise("every weight is a finite number", all(bool(weight.isfinite().all()) for weight in weights))


def bounded(model: RecurrentLM) -> Premise:
    """Return whether the cell bounds its hidden units."""
    return Premise("hidden units lie between -1 and 1 (tanh, GRU, LSTM)", model.cell in BOUNDED)
