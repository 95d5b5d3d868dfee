"""The self-terminating distribution in log space (Welleck et al., 2020, arXiv:2002.02492, Definition 4.3).

Let a_n be the logit of EOS when token n is predicted:

    log alpha_n = sum over m <= n of log(1 - eps) + log sigmoid(a_m)
    log p_n(EOS) = log(1 - alpha_n)        log p_n(v) = log alpha_n + log softmax over the other tokens

The definition omits the bias in a_n; the proof of Theorem 4.2, the authors' code and this code include it.
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
    """The state after a step."""

    log_alpha: Tensor  # [N] float64; 0 before the first step


class SelfTerminating(Head[Survival]):
    """A head with increasing probability of EOS: p_n(EOS) = 1 - prod_{m <= n} (1 - eps) sigmoid(a_m)."""

    continues = False  # nothing follows EOS

    def __init__(self, epsilon: float, context: bool) -> None:
        super().__init__()
        self.epsilon, self.reads_prefix = epsilon, context

    @abstractmethod
    def logits_of(self, states: Tensor) -> Tensor:
        """Return the logits of all tokens [N, K, V]."""

    @abstractmethod
    def stop_logits(self, states: Tensor) -> Tensor:
        """Return the logits of EOS [N, K]."""

    @abstractmethod
    def costs(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return -log softmax of `targets` [M] over all tokens except EOS (token 0), given `states` [M, H]."""

    def start(self, prefix: Tensor) -> Survival:
        log_alpha = prefix.new_zeros(len(prefix), dtype=torch.float64)
        if self.reads_prefix and prefix.shape[1]:
            log_alpha = survive(self.stop_logits(prefix), log_alpha, self.epsilon)[:, -1]
        return Survival(log_alpha)

    def log_probs(self, states: Tensor, past: Survival) -> tuple[Tensor, Survival]:
        log_probs, log_alpha = self_terminating(self.logits_of(states), past.log_alpha, self.epsilon)
        return log_probs, Survival(log_alpha)

    def score(self, states: Tensor, batch: Batch, past: Survival, by: str) -> tuple[Tensor, Survival]:
        log_alpha = survive(self.stop_logits(states), past.log_alpha, self.epsilon)  # [N, T]
        words = word_indices(batch)
        costs = self.costs(states.flatten(0, 1)[words], batch.gold.flatten()[words])
        return gold_log_probs(log_alpha, batch, costs), Survival(log_alpha[:, -1])


class SelfTerminatingLM:
    """A model whose p(EOS) follows Definition 4.3 with its `epsilon`."""

    epsilon: float


def survive(stop: Tensor, past: Tensor, epsilon: float) -> Tensor:
    """Return log alpha at K further steps [N, K], given EOS logits `stop` [N, K] and log alpha `past` [N].

    The result is float64: rounding to float32 at each of many steps would lose a small epsilon, and thus the bound.
    """
    return past[:, None] + (log1p(-epsilon) + logsigmoid(stop.double())).cumsum(1)


def self_terminating(logits: Tensor, past: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return log-probabilities [N, K, V] and log alpha after the last step [N], given logits [N, K, V].

    Without gradients, `logits` are overwritten, which saves a copy at every step of decoding.
    """
    log_alpha = survive(logits[..., STOP].clone(), past, epsilon)  # [N, K]
    log_continue = log_alpha[..., None].to(logits)
    stop = torch.tensor([STOP], device=logits.device)
    if torch.is_grad_enabled():
        log_probs = logits.index_fill(2, stop, -torch.inf).log_softmax(2) + log_continue
    else:
        log_probs = logits.index_fill_(2, stop, -torch.inf).log_softmax(2).add_(log_continue)
    log_probs[..., STOP] = log1mexp(log_alpha)
    return log_probs, log_alpha[:, -1]


def word_indices(batch: Batch) -> Tensor:
    """Return the indices [M] in `gold.flatten()` of tokens that are neither padding nor EOS."""
    host = batch.on_host
    return to_device((host.mask & (host.gold != STOP)).flatten().nonzero()[:, 0], batch.gold.device)


def gold_log_probs(log_alpha: Tensor, batch: Batch, costs: Tensor) -> Tensor:
    """Return the log-probability of each non-padding token of `gold` [M], given the `costs` of its words.

    The probability of EOS needs one logit per step, so only words are projected to the vocabulary.
    """
    if batch.continues:
        raise SuiteError(
            "a self-terminating model needs targets that end, but this task yields windows of a stream. "
            "Use a task with sequences, such as `sequence-completion`."
        )
    words = word_indices(batch)
    log_probs = torch.where(batch.gold == STOP, log1mexp(log_alpha), log_alpha)
    flat = log_probs.flatten()
    scores = flat.index_copy(0, words, flat.index_select(0, words) - costs)
    return batch.at_real(scores.view_as(log_probs))


def log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - e^x) for x < 0, without cancellation and with finite gradients."""
    near = x > -log(2)
    close, far = x.where(near, -1.0), x.where(~near, -1.0)  # -1 avoids infinite gradients of the other form
    return torch.where(near, (-torch.expm1(close)).log(), torch.log1p(-far.exp()))
