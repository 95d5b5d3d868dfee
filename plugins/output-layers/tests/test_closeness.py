"""Closeness of wrong predictions: hand values, chance by brute force and by sampling, and mutants."""

from __future__ import annotations

from math import isnan

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import normalize

from bench_authors.testing import MetricCase, check_metric, tiny_info
from bench_core import DataError, Prediction, Rng, SuiteError, TaskInfo
from bench_output_layers import closeness, vectors
from bench_output_layers.closeness import Closeness, expected_cosines
from bench_output_layers.plugin import ClosenessConfig

WORDS = ["</s>", "cat", "dog", "car", "van", "rare"]
INFO = TaskInfo(WORDS, [10, 4, 3, 2, 1, 0])
VECTORS = {
    "</s>": [0, 0, 5],
    "cat": [1, 0, 0],
    "dog": [3, 4, 0],
    "car": [0, 2, 0],
    "van": [0, -1, 0],
}  # none of `rare`


def written(folder):
    path = folder / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items()))
    return path


def scored(gold, best, weight=1.0):
    return Prediction(3, weight=weight, by_token={"gold": gold, "best": best})


def value(path, *predictions, kind=Closeness, info=INFO, **settings):
    metric = kind(ClosenessConfig(vectors=path, **settings)).prepare(info, {})
    return metric.combine([*metric.measure(predictions)])


def check_closeness(kind, path):
    """By hand: the cosines of cat and dog are 0.6, of car and dog 0.8, of van and dog -0.8, of cat and car 0."""
    assert value(path, scored([1, 2], [2, 3]), kind=kind) == pytest.approx((0.6 + 0.8) / 2)
    assert value(path, scored([1, 1, 1], [1, 1, 2]), kind=kind) == pytest.approx(0.6), (
        "right predictions do not count"
    )
    assert value(path, scored([4, 1], [2, 3]), kind=kind) == pytest.approx(-0.4)
    assert value(path, scored([5, 1, 2], [1, 5, 1]), kind=kind) == pytest.approx(0.6), "`rare` has no vector"
    assert value(path, scored([1], [2], 3.0), scored([2], [3]), kind=kind) == pytest.approx((3 * 0.6 + 0.8) / 4)


class WithRightPredictions(Closeness):
    """Mutant: right predictions count, too."""

    def measure(self, predictions):
        for prediction in predictions:
            best, gold = (torch.tensor(prediction.by_token[name]) for name in ("best", "gold"))
            known = self.vectors.known[best] & self.vectors.known[gold]
            cosines = (self.directions[best] * self.directions[gold]).sum(1)[known]
            yield [prediction.weight * float(cosines.sum()), prediction.weight * len(cosines)]


class OfOtherVectors(Closeness):
    """Mutant: the vectors are not those of the file, but for example embeddings of the model."""

    def _vectors(self, vocabulary):
        own = torch.randn(len(vocabulary), 3, generator=torch.Generator().manual_seed(1))
        return vectors.Vectors("own", own, super()._vectors(vocabulary).known)


class UnknownVectorsAreZero(Closeness):
    """Mutant: a token without a vector counts with cosine 0."""

    def _vectors(self, vocabulary):
        found = super()._vectors(vocabulary)
        return vectors.Vectors(found.name, found.values, torch.ones_like(found.known))


class InnerProducts(Closeness):
    """Mutant: vectors are not normalized."""

    def prepare(self, info, references):
        prepared = super().prepare(info, references)
        prepared.directions = prepared.vectors.values.double()
        return prepared


class OneVotePerExample(Closeness):
    """Mutant: weights of examples are ignored."""

    def measure(self, predictions):
        for prediction, (total, number) in zip(predictions, super().measure(predictions), strict=True):
            yield [total / prediction.weight, number / prediction.weight]


def test_closeness_is_the_mean_cosine_of_wrong_predictions(tmp_path):
    check_closeness(Closeness, written(tmp_path))


MUTANTS = [WithRightPredictions, OfOtherVectors, UnknownVectorsAreZero, InnerProducts, OneVotePerExample]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mistakes_in_closeness_are_caught(mutant, tmp_path):
    with pytest.raises(AssertionError):
        check_closeness(mutant, written(tmp_path))


def chance(gold):
    """Return the expected cosine with another token, by brute force over the tokens with vectors."""
    rows = {word: normalize(torch.tensor(numbers).double(), dim=0) for word, numbers in VECTORS.items()}
    others = [number for number, word in enumerate(WORDS) if word in rows and number != gold]
    total = sum(INFO.counts[number] for number in others)
    return sum(INFO.counts[number] * float(rows[WORDS[number]] @ rows[WORDS[gold]]) for number in others) / total


def test_chance_is_the_expected_cosine_with_another_token_at_the_same_positions(tmp_path):
    path = written(tmp_path)
    for gold in range(5):
        best = (gold + 1) % 5
        assert value(path, scored([gold, 1, 5], [best, 1, 1]), of="unigrams") == pytest.approx(
            chance(gold), abs=1e-12
        )
    mixed = value(path, scored([1, 2, 2, 3], [2, 2, 1, 2]), of="unigrams")
    assert mixed == pytest.approx((chance(1) + chance(2) + chance(3)) / 3)


def test_chance_agrees_with_sampling():
    directions = normalize(torch.randn(9, 4, generator=torch.Generator().manual_seed(2)).double(), dim=1)
    counts = torch.tensor([40, 20, 10, 8, 6, 4, 2, 1, 0])
    drawn = torch.multinomial(counts.double(), 40_000, True, generator=torch.Generator().manual_seed(3))
    for gold, expected in enumerate(expected_cosines(directions, counts)):
        cosines = directions[drawn[drawn != gold]] @ directions[gold]
        assert abs(cosines.mean() - expected) < 5 * cosines.std() / len(cosines) ** 0.5


def test_closeness_keeps_the_contracts_of_metrics(tmp_path):
    words = tiny_info().vocabulary
    (tmp_path / "tiny.txt").write_text(
        "".join(f"{word} {place % 3} {place % 2} 1\n" for place, word in enumerate(words))
    )
    for of in ("predictions", "unigrams"):
        assert len(check_metric(MetricCase.of(ClosenessConfig(vectors=tmp_path / "tiny.txt", of=of)))) == 7


def test_a_cell_without_wrong_predictions_is_undefined(tmp_path):
    assert isnan(value(written(tmp_path), scored([1, 2], [1, 2])))
    assert isnan(value(written(tmp_path)))


def test_the_signature_names_vectors_and_their_coverage(tmp_path):
    metric = Closeness(ClosenessConfig(vectors=written(tmp_path))).prepare(INFO, {})
    about = "vectors.txt, 3 dimensions; covers 5 of 6 tokens (83.3%) and 100.0% of the training text"
    assert metric.signature == f"of:predictions|by:default|vectors:{about}"


def test_vectors_are_learned_once_from_the_lines_of_a_text(tmp_path, monkeypatch):
    asked = []

    def learn(sentences, vocabulary, size, rng):
        asked.append((sentences, size, rng))
        return vectors.Vectors("learned", torch.eye(6), torch.ones(6, dtype=torch.bool))

    monkeypatch.setattr(closeness, "learn", learn)
    path = tmp_path / "train.txt"
    path.write_text("cat unknown dog\n\nvan\n")
    for _ in range(2):
        metric = Closeness(ClosenessConfig(text=path, size=7)).prepare(INFO, {})
        assert metric.combine([*metric.measure([scored([1], [2])])]) == 0
    assert asked == [([[1, 2, 0], [0], [4, 0]], 7, Rng(0).fork("closeness"))]


def test_a_text_of_other_words_and_a_missing_one_are_refused(tmp_path):
    (tmp_path / "other.txt").write_text("nothing of it\n")
    with pytest.raises(DataError, match="contains none of the 6 tokens"):
        Closeness(ClosenessConfig(text=tmp_path / "other.txt")).prepare(INFO, {})
    with pytest.raises(DataError, match=r"none\.txt cannot be read"):
        Closeness(ClosenessConfig(text=tmp_path / "none.txt")).prepare(INFO, {})


def test_models_that_report_no_tokens_and_tasks_without_counts_are_named(tmp_path):
    path = written(tmp_path)
    with pytest.raises(SuiteError, match="example 5 has no 'best' by token"):
        value(path, Prediction(5, target_log_prob=-1.0))
    with pytest.raises(SuiteError, match="counts for 0 of its 6 tokens"):
        value(path, scored([1], [2]), info=TaskInfo(WORDS))


def test_vectors_come_from_a_file_or_a_text():
    for settings in ({}, {"vectors": "a.txt", "text": "b.txt"}):
        with pytest.raises(ValidationError, match="set either `vectors`, a file, or `text`"):
            ClosenessConfig(**settings)
    assert ClosenessConfig(text="b.txt").extras() == {"vectors"}
    assert ClosenessConfig(vectors="a.txt").extras() == set()
