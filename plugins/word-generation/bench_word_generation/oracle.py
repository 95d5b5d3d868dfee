"""The oracle: the empirical distribution of a corpus, as a model."""

from functools import cached_property
from math import inf, log

import torch
from torch import Tensor, nn

from bench_core import Batch, Hypothesis, Loss, Noise, Sampler, Scorer, Scores, Scoring, TaskInfo, Training
from bench_word_generation.distributions import Distributions
from bench_word_generation.plugin import WordOracleConfig


class WordOracle(nn.Module, Sampler, Scorer):
    """P(w) as in a split, 0 for all words that it lacks; nothing comes from the opening.

    There is nothing to learn: the one weight, which trainings ask for, has no effect.
    """

    def __init__(self, config: WordOracleConfig, info: TaskInfo) -> None:
        super().__init__()
        self.vocabulary = list(info.vocabulary)
        known = Distributions.of(info, config.name)
        counts = known.counts[config.of]
        there = counts.nonzero()[0]
        self.words = [known.words[place] for place in there.tolist()]
        self.ends = counts[there].cumsum()  # [W] summed counts
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return 0, and a gradient of 0."""
        return Loss(0 * self.weight, batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        rows = zip(batch.gold.tolist(), batch.length.tolist(), strict=True)
        words = ["".join([self.vocabulary[token] for token in gold[: length - 1]]) for gold, length in rows]
        found = [self._log_probs.get(word, -inf) for word in words]
        return Scores(torch.tensor(found, dtype=torch.float64, device=batch.ids.device))

    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        places: Tensor = noise.uniform(batch.ids) * float(self.ends[-1])
        types = self.ends.searchsorted(places.cpu().numpy(), "right").clip(max=len(self.words) - 1)
        return [self._cut(self.words[place], max_tokens) for place in types.tolist()]

    def _cut(self, word: str, most: int) -> Hypothesis:
        tokens = [self._letters[letter] for letter in word]
        if len(tokens) >= most:
            return Hypothesis(tokens[:most], finished=False)
        return Hypothesis(tokens, finished=True, log_prob=self._log_probs[word])

    @cached_property
    def _letters(self) -> dict[str, int]:
        return {letter: token for token, letter in enumerate(self.vocabulary)}

    @cached_property
    def _log_probs(self) -> dict[str, float]:
        counts, whole = [int(self.ends[0]), *(self.ends[1:] - self.ends[:-1]).tolist()], log(int(self.ends[-1]))
        return {word: log(count) - whole for word, count in zip(self.words, counts, strict=True)}
