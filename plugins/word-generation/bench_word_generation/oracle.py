"""The oracle: a model that is the empirical distribution of a corpus."""

from functools import cached_property
from math import inf, log

import torch
from torch import Tensor, nn

from bench_core import Batch, Hypothesis, Loss, Rng, Sampler, Scorer, Scores, Scoring, TaskInfo, Training
from bench_word_generation.distributions import Distributions
from bench_word_generation.plugin import WordOracleConfig


class WordOracle(nn.Module, Sampler, Scorer):
    """The empirical P(w) of a split, which is 0 for words outside of the split; the prompt has no effect.

    There is nothing to learn: the only weight, which training requires, has no effect.
    """

    def __init__(self, config: WordOracleConfig, info: TaskInfo) -> None:
        super().__init__()
        self.vocabulary = list(info.vocabulary)
        corpus = Distributions.of(info, config.name)
        counts = corpus.counts[config.of]
        present = counts.nonzero()[0]
        self.words = [corpus.words[place] for place in present.tolist()]
        self.ends = counts[present].cumsum()  # [W] cumulative counts
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, batch: Batch, training: Training) -> Loss:
        """Return a loss of 0 with zero gradient."""
        return Loss(0 * self.weight, batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        rows = zip(batch.gold.tolist(), batch.length.tolist(), strict=True)
        words = ["".join([self.vocabulary[token] for token in gold[: length - 1]]) for gold, length in rows]
        log_probs = [self._log_probs.get(word, -inf) for word in words]
        return Scores(torch.tensor(log_probs, dtype=torch.float64, device=batch.ids.device))

    def sample(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        places: Tensor = rng.uniform(batch.ids) * float(self.ends[-1])
        types = self.ends.searchsorted(places.cpu().numpy(), "right").clip(max=len(self.words) - 1)
        return [self._hypothesis(self.words[place], max_tokens) for place in types.tolist()]

    def _hypothesis(self, word: str, max_tokens: int) -> Hypothesis:
        tokens = [self._letters[letter] for letter in word]
        if len(tokens) >= max_tokens:
            return Hypothesis(tokens[:max_tokens], finished=False)
        return Hypothesis(tokens, finished=True, log_prob=self._log_probs[word])

    @cached_property
    def _letters(self) -> dict[str, int]:
        return {letter: token for token, letter in enumerate(self.vocabulary)}

    @cached_property
    def _log_probs(self) -> dict[str, float]:
        counts, whole = [int(self.ends[0]), *(self.ends[1:] - self.ends[:-1]).tolist()], log(int(self.ends[-1]))
        return {word: log(count) - whole for word, count in zip(self.words, counts, strict=True)}
