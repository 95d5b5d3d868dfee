"""Closeness of wrong predictions to the target, by word vectors that no model under test provides or learns.

With unit vectors e, target g and the most probable token w after the gold tokens, closeness is the mean of e_w . e_g
over all positions with w != g where both tokens have a vector. For comparison, tokens other than g that are sampled
by their frequency pi have the expected cosine (sum_v pi_v e_v . e_g - pi_g) / (1 - pi_g) at the same positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from math import nan
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bench_core import STOP, Additive, DataError, Prediction, Rng, SuiteError, TaskInfo
from bench_output_layers.plugin import ClosenessConfig
from bench_output_layers.vectors import Vectors, learn, read


class Closeness(Additive[Sequence[float]]):
    """Mean cosine between the target and wrong predictions, or tokens sampled by frequency in their place."""

    label, unit, digits, better, may_be_nan = "Cosine", "", 3, 1, True
    config: ClosenessConfig
    vectors: Vectors
    directions: Tensor  # [V, D] unit vectors, 0 where unknown
    by_chance: Tensor  # [V] expected cosine between a token and other tokens sampled by frequency

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the vectors of the vocabulary; raise SuiteError if tokens are not counted."""
        if len(info.counts) != len(info.vocabulary):
            raise SuiteError(
                f"closeness cannot be compared with chance: the task has counts for {len(info.counts)} of its "
                f"{len(info.vocabulary)} tokens. Leave it out."
            )
        prepared, counts = copy(self), torch.tensor(info.counts)
        prepared.vectors = self._vectors(tuple(info.vocabulary))
        prepared.directions = normalize(prepared.vectors.values.double(), dim=1)
        prepared.by_chance = expected_cosines(prepared.directions, counts * prepared.vectors.known)
        prepared.signature = f"of:{self.config.of}|by:{self.config.by or 'default'}|vectors:" + (
            prepared.vectors.description(counts).replace("|", "/")
        )
        return prepared

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield the weighted sum of cosines and the weighted number of wrong predictions with vectors."""
        for prediction in predictions:
            best, gold = (_tokens(prediction, name) for name in ("best", "gold"))
            wrong = (best != gold) & self.vectors.known[best] & self.vectors.known[gold]
            best, gold = best[wrong], gold[wrong]
            cosines = (
                self.by_chance[gold]
                if self.config.of == "unigrams"
                else (self.directions[best] * self.directions[gold]).sum(1)
            )
            yield [prediction.weight * float(cosines.sum()), prediction.weight * len(gold)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        total, number = sums or (0.0, 0.0)
        return total / number if number else nan

    def _vectors(self, vocabulary: tuple[str, ...]) -> Vectors:
        if self.config.vectors is not None:
            return read(self.config.vectors, vocabulary)
        assert self.config.text is not None  # the Config requires one of both
        return _learned(self.config.text, vocabulary, self.config.size)


def expected_cosines(directions: Tensor, counts: Tensor) -> Tensor:
    """Return the expected cosine [V] between each token and other tokens sampled in proportion to `counts` [V]."""
    shares = counts.double() / counts.sum().clamp(min=1)
    squares = directions.square().sum(1)  # 1, or 0 without a vector
    return (directions @ (shares @ directions) - shares * squares) / (1 - shares).clamp(min=1e-12)


def _tokens(prediction: Prediction, name: str) -> Tensor:
    reported = prediction.by_token or {}
    if name not in reported:
        raise SuiteError(
            f"the score of example {prediction.id} has no {name!r} by token. Leave closeness out for such models, or "
            "set `by` to a likelihood that is a distribution over tokens."
        )
    return torch.tensor(reported[name], dtype=torch.int64)


@lru_cache(maxsize=4)
def _learned(text: Path, vocabulary: tuple[str, ...], size: int) -> Vectors:
    """Learn skip-gram vectors from the lines of a text, each followed by EOS; raise DataError if it is unusable."""
    ids = {word: number for number, word in enumerate(vocabulary)}
    try:
        lines = text.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{text} cannot be read: {error}. Provide a UTF-8 text with one sentence per line.") from None
    sentences = [[*(ids[word] for word in line.split() if word in ids), STOP] for line in lines]
    if all(len(sentence) == 1 for sentence in sentences):
        raise DataError(
            f"{text} contains none of the {len(vocabulary):,} tokens. Provide the text of the training split."
        )
    return learn(sentences, vocabulary, size, Rng(0).fork("closeness"))
