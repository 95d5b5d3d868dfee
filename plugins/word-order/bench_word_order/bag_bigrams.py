"""The bigram baseline: each word of the bag after its most frequent predecessor.

It counts, and has neither states nor logits: no `EncoderDecoder` of the kit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Loss, Noise, State, Stepper, TaskInfo, Training
from bench_text.api import check_shared
from bench_word_order.plugin import BagBigramsConfig


@dataclass(frozen=True)
class Remaining(State):
    """What is yet to be said."""

    bag: Tensor  # [N, S]
    left: Tensor  # [N, S] whether each token is yet to be said
    last: Tensor  # [N] what was said last, at first stop


class BagBigrams(nn.Module, Stepper[Remaining]):
    """p(w | last word v) over the different words that are left in the bag, and stop once none is.

    Let c(v w) be how often w followed v in training, c(v) how often anything did, d(v) how many different words did,
    and q(w) the share of w among all words, each counted once more than it occurs. Then p is proportional to
    (c(v w) + d(v) q(w)) / (c(v) + d(v)) (Witten and Bell, 1991, method C). Pairs are counted in `fit_statistics`: no
    update is needed; the one weight, which trainings ask for, has no effect.
    """

    keys: Tensor  # [K] v V + w of each pair seen, ascending
    pairs: Tensor  # [K] how often
    follows: Tensor  # [V] c(v)
    kinds: Tensor  # [V] d(v)
    words: Tensor  # [V] how often each word follows any

    def __init__(self, config: BagBigramsConfig, info: TaskInfo) -> None:
        super().__init__()
        check_shared(config, info)
        self.tokens = len(info.vocabulary)
        for name, size in (
            ("keys", 0),
            ("pairs", 0),
            *((name, self.tokens) for name in ("follows", "kinds", "words")),
        ):
            self.register_buffer(name, torch.zeros(size, dtype=torch.long))
        self.weight = nn.Parameter(torch.zeros(()))

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], noise: Noise) -> None:
        """Count each word of the targets after the one before, the first after stop and stop after the last."""
        seen = torch.cat([self._bigrams(batch) for batch in batches()])
        self.keys, self.pairs = torch.unique(seen, return_counts=True)
        before, after = self.keys // self.tokens, self.keys % self.tokens
        self.follows = torch.zeros_like(self.follows).index_add(0, before, self.pairs)
        self.kinds = torch.zeros_like(self.kinds).index_add(0, before, torch.ones_like(before))
        self.words = torch.zeros_like(self.words).index_add(0, after, self.pairs)

    def _bigrams(self, batch: Batch) -> Tensor:
        before = batch.inputs[:, -batch.gold.shape[1] :]
        return batch.at_real(before * self.tokens + batch.gold)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return 0, and a gradient of 0."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, Remaining]:
        assert batch.source is not None
        assert batch.source_length is not None
        places = torch.arange(batch.source.shape[1], device=batch.source.device)
        left = places < batch.source_length[:, None]
        return self._next(Remaining(batch.source, left, torch.full_like(batch.ids, STOP)))

    def step(self, state: Remaining, actions: Tensor) -> tuple[Tensor, Remaining]:
        same = state.left & (state.bag == actions[:, None])
        said = same & (same.cumsum(1) == 1)
        return self._next(replace(state, left=state.left & ~said, last=actions))

    def _next(self, state: Remaining) -> tuple[Tensor, Remaining]:
        costs = self._probs(state.last[:, None], state.bag).log()  # [N, S]
        open_words = state.bag.where(state.left, self.tokens)  # what is said stands beyond the vocabulary
        log_probs = costs.new_full((len(costs), self.tokens + 1), -torch.inf).scatter(1, open_words, costs)
        log_probs = log_probs[:, :-1]
        log_probs[:, STOP] = torch.where(state.left.any(1), -torch.inf, 0.0)
        return log_probs.log_softmax(1), state

    def _probs(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the smoothed probability of each word after another [N, S]; `before` is [N, 1]."""
        share = (self.words[after] + 1).double() / (self.words.sum() + self.tokens)
        kinds, total = self.kinds[before], self.follows[before] + self.kinds[before]
        seen = (self._seen(before * self.tokens + after) + kinds * share) / total.clamp(min=1)
        return seen.where(total > 0, share)

    def _seen(self, keys: Tensor) -> Tensor:
        """Return how often each pair was seen."""
        if not len(self.keys):
            return torch.zeros_like(keys)
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return self.pairs[places].where(self.keys[places] == keys, 0)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *more: Any) -> None:
        """Make room for as many pairs as come."""
        for name in ("keys", "pairs"):
            if prefix + name in state:
                setattr(self, name, getattr(self, name).new_empty(state[prefix + name].shape))
        super()._load_from_state_dict(state, prefix, *more)
