"""The bigram baseline: orders the words of a bag by counts of word pairs.

It has counts instead of states and logits, so it is not an `EncoderDecoder` of the kit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, Loss, Rng, State, Stepper, TaskInfo, Training
from bench_text.api import check_shared
from bench_word_order.plugin import BagBigramsConfig


@dataclass(frozen=True)
class PartialOutput(State):
    """The unused words of the bag, and the last word of the output."""

    bag: Tensor  # [N, S]
    unused: Tensor  # [N, S] whether each token of the bag is still unused
    last: Tensor  # [N] last token of the output; initially EOS


class BagBigrams(nn.Module, Stepper[PartialOutput]):
    """p(w | last word v) over the distinct words left in the bag; EOS once the bag is empty.

    Let c(v w) be the count of the pair v w in training, c(v) the count of pairs that begin with v, d(v) the number of
    distinct words after v, and q(w) the add-one smoothed share of w among all words. Then p is proportional to
    (c(v w) + d(v) q(w)) / (c(v) + d(v)), or to q(w) if v is unseen (Witten and Bell, 1991, method C). Pairs are
    counted by `fit_statistics`, without updates; the only weight, which training requires, has no effect.
    """

    keys: Tensor  # [K] v V + w of each seen pair, ascending
    pairs: Tensor  # [K] c(v w)
    follows: Tensor  # [V] c(v)
    kinds: Tensor  # [V] d(v)
    words: Tensor  # [V] counts of words, EOS included

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

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], rng: Rng) -> None:
        """Count the word pairs of the targets, with EOS before the first and after the last word."""
        bigrams = torch.cat([self._bigrams(batch) for batch in batches()])
        self.keys, self.pairs = torch.unique(bigrams, return_counts=True)
        before, after = self.keys // self.tokens, self.keys % self.tokens
        self.follows = torch.zeros_like(self.follows).index_add(0, before, self.pairs)
        self.kinds = torch.zeros_like(self.kinds).index_add(0, before, torch.ones_like(before))
        self.words = torch.zeros_like(self.words).index_add(0, after, self.pairs)

    def _bigrams(self, batch: Batch) -> Tensor:
        before = batch.inputs[:, -batch.gold.shape[1] :]
        return batch.at_real(before * self.tokens + batch.gold)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return a loss of 0 with zero gradient."""
        return Loss(0 * self.weight, batch.length.sum())

    def start(self, batch: Batch) -> tuple[Tensor, PartialOutput]:
        assert batch.source is not None
        assert batch.source_length is not None
        places = torch.arange(batch.source.shape[1], device=batch.source.device)
        unused = places < batch.source_length[:, None]
        return self._next(PartialOutput(batch.source, unused, torch.full_like(batch.ids, STOP)))

    def step(self, state: PartialOutput, actions: Tensor) -> tuple[Tensor, PartialOutput]:
        matches = state.unused & (state.bag == actions[:, None])
        used = matches & (matches.cumsum(1) == 1)
        return self._next(replace(state, unused=state.unused & ~used, last=actions))

    def _next(self, state: PartialOutput) -> tuple[Tensor, PartialOutput]:
        costs = self._probs(state.last[:, None], state.bag).log()  # [N, S]
        candidates = state.bag.where(state.unused, self.tokens)  # used words are outside of the vocabulary
        log_probs = costs.new_full((len(costs), self.tokens + 1), -torch.inf).scatter(1, candidates, costs)
        log_probs = log_probs[:, :-1]
        log_probs[:, STOP] = torch.where(state.unused.any(1), -torch.inf, 0.0)
        return log_probs.log_softmax(1), state

    def _probs(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the smoothed probabilities of the words `after` [N, S], given the word `before` [N, 1]."""
        share = (self.words[after] + 1).double() / (self.words.sum() + self.tokens)
        kinds, total = self.kinds[before], self.follows[before] + self.kinds[before]
        probs = (self._pair_counts(before * self.tokens + after) + kinds * share) / total.clamp(min=1)
        return probs.where(total > 0, share)

    def _pair_counts(self, keys: Tensor) -> Tensor:
        """Return the count of each pair."""
        if not len(self.keys):
            return torch.zeros_like(keys)
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return self.pairs[places].where(self.keys[places] == keys, 0)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *more: Any) -> None:
        """Resize the tables to the sizes of the loaded tables."""
        for name in ("keys", "pairs"):
            if prefix + name in state:
                setattr(self, name, getattr(self, name).new_empty(state[prefix + name].shape))
        super()._load_from_state_dict(state, prefix, *more)
