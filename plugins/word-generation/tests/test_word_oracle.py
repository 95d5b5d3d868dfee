"""The oracles, and what metrics say of them."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import pytest
import torch

from bench_authors.testing import Case, tiny_batch, tiny_info
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Hypothesis, Prediction, Rng, SuiteError, TaskInfo
from bench_core.computing.evaluate import Examples
from bench_decoders.plugin import AncestralConfig
from bench_word_generation.plugin import (
    KnownWordsConfig,
    NGramPerplexityConfig,
    OmittedMassConfig,
    WordCrossEntropyConfig,
    WordOracleConfig,
)

LEARNING = {"the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart"}
COUNTS = {"train": [4, 3, 0, 2, 1], "valid": [1, 0, 0, 0, 0], "test": [1, 0, 5, 0, 1]}


def info():
    return replace(tiny_info(), extras={"words": ["a", "ab", "ba", "dcba", "bb"], "word_counts": COUNTS})


@pytest.mark.parametrize("of", ["train", "test"])
def test_the_oracles_keep_all_contracts_but_those_of_learning(of):
    contracts = [contract for contract in MODEL_CONTRACTS if str(contract) not in LEARNING]
    assert len(contracts) == len(MODEL_CONTRACTS) - len(LEARNING)
    tried = check(contracts, Case.of(WordOracleConfig(of=of), info=info()))
    assert "samples_occur_as_often_as_their_score_says" in tried


def test_probabilities_are_shares_of_the_counts_and_other_words_have_none():
    case = Case.of(WordOracleConfig(), info=info())
    batch = tiny_batch([(1,), (1, 2), (4, 3, 2, 1), (2, 2), (2, 1), (), (4, 4)])
    probs = case.scored("exact", batch).exp().tolist()
    assert probs == pytest.approx([0.4, 0.3, 0.2, 0.1, 0, 0, 0])


def test_a_word_that_is_cut_short_is_not_finished():
    model = Case.of(WordOracleConfig(), info=info()).model
    assert model._hypothesis("dcba", 4) == Hypothesis([4, 3, 2, 1], finished=False)
    assert model._hypothesis("dcba", 5) == Hypothesis([4, 3, 2, 1], finished=True, log_prob=log(2) - log(10))


def test_a_task_without_words_is_refused():
    with pytest.raises(SuiteError, match="word-oracle needs a task with words"):
        Case.of(WordOracleConfig())


def ready(config, known, predictions):
    metric = config.load()(config).prepare(
        known, {prediction.id: prediction.references for prediction in predictions}
    )
    return metric.combine([*metric.measure(predictions)])


@pytest.fixture
def tried(prepared):
    """Return a function that scores and samples an oracle on the test split."""

    def run(of="train", split="test", by="exact", **settings):
        _, task, known = prepared(**settings)
        config = WordOracleConfig(of=of)
        model = config.load()(config, known)
        examples = Examples(task, split, Rng(0), torch.device("cpu"))
        decoder = AncestralConfig(max_tokens=13)
        return known, examples.scored(model, by), examples.decoded(model, decoder.load()(decoder))

    return run


def test_the_training_oracle_pays_the_entropy_of_the_training_words(tried):
    known, scored, _ = tried()
    nats = known.extras["statistics"]["train"]["entropy_nats"]
    assert ready(WordCrossEntropyConfig(against="train"), known, scored) == pytest.approx(nats)
    assert ready(WordCrossEntropyConfig(against="train", excess=True), known, scored) == pytest.approx(0, abs=1e-12)
    assert ready(OmittedMassConfig(against="train"), known, scored) == 0
    bits = ready(WordCrossEntropyConfig(against="train", unit="bits"), known, scored)
    assert bits == pytest.approx(nats / log(2))


def test_on_test_words_the_training_oracle_pays_their_entropy_and_what_sets_them_apart(tried):
    known, scored, _ = tried()
    p, q = (
        [n / sum(known.extras["word_counts"][s]) for n in known.extras["word_counts"][s]] for s in ("test", "train")
    )
    cost = -sum(one * log(other) for one, other in zip(p, q, strict=True))
    assert ready(WordCrossEntropyConfig(), known, scored) == pytest.approx(cost)
    excess = ready(WordCrossEntropyConfig(excess=True), known, scored)
    assert excess == pytest.approx(cost - known.extras["statistics"]["test"]["entropy_nats"])
    assert excess > 0


def test_the_test_oracle_pays_no_more_than_the_entropy_of_test(tried):
    known, scored, _ = tried(of="test")
    nats = known.extras["statistics"]["test"]["entropy_nats"]
    assert ready(WordCrossEntropyConfig(), known, scored) == pytest.approx(nats)


def test_unseen_words_are_omitted_and_their_mass_is_told(tried):
    known, scored, _ = tried(tokens=60, seed=1, min_count=1)
    share = known.extras["statistics"]["test"]["unseen_share"]
    assert 0 < share < 1
    assert ready(OmittedMassConfig(), known, scored) == pytest.approx(share)
    assert ready(OmittedMassConfig(against="train"), known, scored) == 0
    seen = [prediction for prediction in scored if prediction.target_log_prob > -inf]
    cost = ready(WordCrossEntropyConfig(), known, scored)
    assert cost == pytest.approx(ready(WordCrossEntropyConfig(), known, seen))


def test_all_outputs_of_the_training_oracle_are_words(tried):
    known, _, decoded = tried(samples=400)
    assert ready(KnownWordsConfig(), known, decoded) == 1
    share = ready(KnownWordsConfig(unique=True), known, decoded)
    assert share == len({prediction.texts[0] for prediction in decoded}) / 400


@pytest.mark.slow
def test_calibrated_samples_of_the_training_oracle_are_as_unique_as_in_the_paper(prepared, tmp_path):
    letters = "abcdefghij"
    words = {first + second + third: 0 for first in letters for second in letters for third in letters}
    counts = {word: 30_000 // rank for rank, word in enumerate(words, 1)}
    _, task, known = prepared(counts, alphabet=letters, samples=None)
    config, decoder = WordOracleConfig(), AncestralConfig(max_tokens=13)
    model = config.load()(config, known)
    shares = []
    for seed in range(4):
        examples = Examples(task, "test", Rng(seed), torch.device("cpu"), size=1000)
        decoded = examples.decoded(model, decoder.load()(decoder))
        assert len(decoded) == known.extras["statistics"]["train"]["samples"]
        shares.append(ready(KnownWordsConfig(unique=True), known, decoded))
    assert sum(shares) / 4 == pytest.approx(0.27, abs=0.02)


def test_ngrams_of_test_find_the_test_oracle_less_surprising_than_the_training_one(prepared):
    """The order of the paper's Table 2, on words that are unlike in the two splits."""
    _, task, known = prepared(split="vocabulary", test=0.3, samples=300)
    decoder = AncestralConfig(max_tokens=13)
    found = {}
    for of in ("train", "test"):
        config = WordOracleConfig(of=of)
        examples = Examples(task, "test", Rng(0), torch.device("cpu"))
        predictions = examples.decoded(config.load()(config, known), decoder.load()(decoder))
        found[of] = ready(NGramPerplexityConfig(n=4, of="test"), known, predictions)
    assert found["test"] < found["train"]


def test_what_no_model_gives_a_probability_costs_infinitely_much():
    known = TaskInfo(["<stop>", "a"], extras={"words": ["a"], "word_counts": {split: [1] for split in COUNTS}})
    prediction = Prediction(2, target_log_prob=-inf)
    assert ready(WordCrossEntropyConfig(), known, [prediction]) == inf
    assert ready(OmittedMassConfig(), known, [prediction]) == 1
