"""The self-terminating distribution in log space (Welleck et al., 2020, arXiv:2002.02492, Definition 4.3).

With a_n the logit of stop where token n is predicted:

    log alpha_n = sum over m <= n of log(1 - eps) + log sigmoid(a_m)
    log p_n(stop) = log(1 - alpha_n)        log p_n(v) = log alpha_n + log softmax over the other tokens

The definition leaves the bias out of a; the proof of Theorem 4.2 and the authors' code include it, and so do we.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import log, log1p

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bench_core import STOP, Batch, State, SuiteError, to_device
from bench_core.kit import Head


@dataclass(frozen=True)
class Survival(State):
    """What lasts of the steps taken: log alpha of the last one [N], in float64; 0 before the first."""

    log_alpha: Tensor


class SelfTerminating(Head[Survival]):
    """Stop becomes ever more probable: p_n(stop) = 1 - prod_{m <= n} (1 - eps) sigmoid(a_m)."""

    continues = False  # what has stopped does not go on

    def __init__(self, epsilon: float, context: bool) -> None:
        super().__init__()
        self.epsilon, self.reads_prefix = epsilon, context

    @abstractmethod
    def logits_of(self, states: Tensor) -> Tensor:
        """Return the logits of all tokens after states, [N, K, V]."""

    @abstractmethod
    def stop_of(self, states: Tensor) -> Tensor:
        """Return the logit of stop after states, [N, K]."""

    @abstractmethod
    def costs(self, units: Tensor, words: Tensor) -> Tensor:
        """Return -log softmax of `words` [M] among all tokens but stop, which is the first, after states [M, H]."""

    def start(self, prefix: Tensor) -> Survival:
        log_alpha = prefix.new_zeros(len(prefix), dtype=torch.float64)
        if self.reads_prefix and prefix.shape[1]:
            log_alpha = survive(self.stop_of(prefix), log_alpha, self.epsilon)[:, -1]
        return Survival(log_alpha)

    def log_probs(self, states: Tensor, past: Survival) -> tuple[Tensor, Survival]:
        log_probs, log_alpha = self_terminating(self.logits_of(states), past.log_alpha, self.epsilon)
        return log_probs, Survival(log_alpha)

    def score(self, states: Tensor, batch: Batch, past: Survival, by: str) -> tuple[Tensor, Survival]:
        log_alpha = survive(self.stop_of(states), past.log_alpha, self.epsilon)  # [N, T]
        words = words_of(batch)
        costs = self.costs(states.flatten(0, 1)[words], batch.gold.flatten()[words])
        return of_gold(log_alpha, batch, costs), Survival(log_alpha[:, -1])


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
