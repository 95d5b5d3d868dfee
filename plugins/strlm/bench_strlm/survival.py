"""The self-terminating distribution in log space (Welleck et al., 2020, arXiv:2002.02492, Definition 4.3).

With a_n the logit of stop where token n is predicted:

    log alpha_n = sum over m <= n of log(1 - eps) + log sigmoid(a_m)
    log p_n(stop) = log(1 - alpha_n)        log p_n(v) = log alpha_n + log softmax over the other tokens

The definition leaves the bias out of a; the proof of Theorem 4.2 and the authors' code include it, and so do we.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bench_core import STOP, Batch, State, SuiteError, to_device


@dataclass(frozen=True)
class Survival(State):
    """What lasts of the steps taken: log alpha of the last one [N], in float64; 0 before the first."""

    log_alpha: Tensor


class SelfTerminatingLM:
    """A model whose p(stop) follows from Definition 4.3 with this epsilon."""

    epsilon: float


def survive(stop: Tensor, past: Tensor, epsilon: float) -> Tensor:
    """Return log alpha [N, K] at K further steps with stop logits `stop` [N, K], after log alpha `past` [N].

    In float64: rounded to float32 after each of many steps, a small epsilon would be lost, and its bound with it.
    """
    return past[:, None] + (log1p(-epsilon) + logsigmoid(stop.double())).cumsum(1)


def self_terminating(logits: Tensor, past: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return log-probabilities [N, K, V] from logits [N, K, V], and log alpha after the last step [N].

    Where no gradients are asked for, `logits` are overwritten: a vocabulary is not copied at every step of decoding.
    """
    log_alpha = survive(logits[..., STOP].clone(), past, epsilon)  # [N, K]
    lasting = log_alpha[..., None].to(logits)
    stop = torch.tensor([STOP], device=logits.device)
    if torch.is_grad_enabled():
        log_probs = logits.index_fill(2, stop, -torch.inf).log_softmax(2) + lasting
    else:
        log_probs = logits.index_fill_(2, stop, -torch.inf).log_softmax(2).add_(lasting)
    log_probs[..., STOP] = log1mexp(log_alpha)
    return log_probs, log_alpha[:, -1]


def words_of(batch: Batch) -> Tensor:
    """Return the places [M] in `gold.flatten()` of the tokens that are real and not stop."""
    host = batch.on_host
    return to_device((host.mask & (host.gold != STOP)).flatten().nonzero()[:, 0], batch.gold.device)


def of_gold(log_alpha: Tensor, batch: Batch, costs: Tensor) -> Tensor:
    """Return the log-probability of each real token of `gold` [M], given -log softmax of its words `costs`.

    The probability of stop needs one logit a step, so that only words are projected to the vocabulary.
    """
    if batch.continues:
        raise SuiteError(
            "a self-terminating model needs targets that end; this task gives windows of an endless stream. "
            "Use one of sequences, such as sequence-completion."
        )
    words = words_of(batch)
    log_probs = torch.where(batch.gold == STOP, log1mexp(log_alpha), log_alpha)
    flat = log_probs.flatten()
    found = flat.index_copy(0, words, flat.index_select(0, words) - costs)
    return batch.at_real(found.view_as(log_probs))


def log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - e^x) for x < 0, without cancellation and with finite gradients."""
    near = x > -log(2)
    close, far = x.where(near, -1.0), x.where(~near, -1.0)  # never the argument that the other form is for
    return torch.where(near, (-torch.expm1(close)).log(), torch.log1p(-far.exp()))
