"""Known hidden Markov models, compared with sums over all paths, and the mistakes that the laws catch."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import log, prod
from random import Random

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from bench_authors.testing import TaskCase, check_task
from bench_authors.testing.contracts import catches
from bench_language_modeling import corpus
from bench_language_modeling.hidden_markov import HiddenMarkov, random_model, with_ends
from bench_language_modeling.plugin import LanguageModelingConfig
from bench_language_modeling.settings import Corpus

TOKENS = (2, 0, 1, 1, 2)


def model():
    return random_model(4, 3, seed=5)


def joint(model, tokens):
    """Return P(path, tokens) [S, ..., S] of all paths."""
    probs = {}
    for path in product(range(len(model.initial)), repeat=len(tokens)):
        moves = prod(model.transitions[one, other] for one, other in pairwise(path))
        emitted = prod(model.emissions[state, token] for state, token in zip(path, tokens, strict=True))
        probs[path] = model.initial[path[0]] * moves * emitted
    return probs


def total(model, tokens):
    return sum(joint(model, tokens).values()) if tokens else 1


def altered(model, **functions):
    """Return a copy with other methods, each given the intact model and the method's arguments."""
    other = copy(model)
    for name, function in functions.items():
        object.__setattr__(other, name, partial(function, model))  # the class is frozen
    return other


def at(tokens, place, token):
    return (*tokens[:place], token, *tokens[place + 1 :])


# mistakes: each is given a model, and changes it


def transposes_transitions(model):
    return replace(model, transitions=model.transitions.T)


def forgets_the_initial_distribution(model):
    return replace(model, initial=np.full(4, 0.25))


def looks_at_the_token_itself(model):
    def predict(intact, tokens, both):
        states = intact.filter_states(tokens)[0] * intact.emissions[:, list(tokens)].T
        return _shares((states * intact.backward(tokens) if both else states) @ intact.emissions)

    return altered(
        model,
        predict=lambda intact, tokens: predict(intact, tokens, False),
        predict_from_both_sides=lambda intact, tokens: predict(intact, tokens, True),
    )


def _shares(rows):
    return rows / rows.sum(1, keepdims=True)


def forgets_the_future(model):
    return altered(
        model,
        posterior=lambda intact, tokens: _shares(
            intact.filter_states(tokens)[0] * intact.emissions[:, list(tokens)].T
        ),
        predict_from_both_sides=lambda intact, tokens: intact.predict(tokens),
    )


def counts_padding(model):
    return altered(model, log_probs=lambda intact, rows, lengths: intact.log_probs(rows, lengths * 0 + rows.shape[1]))


def intact(model):
    return model


# laws


@catches(transposes_transitions, forgets_the_initial_distribution)
def probabilities_are_sums_over_all_paths(change):
    changed = change(model())
    assert changed.log_prob(TOKENS) == pytest.approx(log(total(model(), TOKENS)), abs=1e-12)


@catches(transposes_transitions, forgets_the_future)
def posteriors_are_shares_of_paths(change):
    paths = joint(model(), TOKENS)
    posterior = change(model()).posterior(TOKENS)
    for place, state in product(range(len(TOKENS)), range(4)):
        share = sum(prob for path, prob in paths.items() if path[place] == state) / sum(paths.values())
        assert posterior[place, state] == pytest.approx(share, abs=1e-12)


@catches(looks_at_the_token_itself, transposes_transitions)
def predictions_are_ratios_of_probabilities(change):
    predictions = change(model()).predict(TOKENS)
    for place, token in product(range(len(TOKENS)), range(3)):
        ratio = total(model(), (*TOKENS[:place], token)) / total(model(), TOKENS[:place])
        assert predictions[place, token] == pytest.approx(ratio, abs=1e-12)


@catches(looks_at_the_token_itself, forgets_the_future, transposes_transitions)
def predictions_from_both_sides_are_ratios_of_probabilities(change):
    predictions = change(model()).predict_from_both_sides(TOKENS)
    for place in range(len(TOKENS)):
        probs = [total(model(), at(TOKENS, place, token)) for token in range(3)]
        assert predictions[place].tolist() == pytest.approx([prob / sum(probs) for prob in probs], abs=1e-12)


@catches(counts_padding)
def rows_have_the_probabilities_of_single_sequences(change):
    rows, lengths = np.array([[1, 0, 2], [2, 0, 0], [0, 0, 0]]), np.array([3, 1, 2])
    wanted = [model().log_prob(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    assert change(model()).log_probs(rows, lengths).tolist() == pytest.approx(wanted, abs=1e-12)


LAWS = (
    probabilities_are_sums_over_all_paths,
    posteriors_are_shares_of_paths,
    predictions_are_ratios_of_probabilities,
    predictions_from_both_sides_are_ratios_of_probabilities,
    rows_have_the_probabilities_of_single_sequences,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_known_model_keeps_its_laws(law):
    law.check(intact)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_the_laws_of_a_known_model_catch_their_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law.check(mutant)


def test_samples_have_the_probabilities_of_the_model():
    truth, number = model(), 20_000
    stream = truth.sample(Random(0))
    counts = Counter((next(stream), next(stream), next(stream)) for _ in range(number))  # stationary, so alike
    chi_square = sum(
        (counts[tokens] - number * p) ** 2 / (number * p)
        for tokens in product(range(3), repeat=3)
        if (p := total(truth, tokens))
    )
    assert 5 < chi_square < 80  # 26 degrees of freedom; triples of a chain depend on each other


def test_words_end_as_the_model_says_and_none_is_empty():
    truth, number = with_ends(model(), 0.4), 5_000
    words = [*truth.sample_words(Random(0), number)]
    counts = Counter(words)
    for word, count in counts.most_common(10):
        prob = total(truth, (*word, 0))
        assert abs(count - number * prob) < 4 * (number * prob) ** 0.5
    assert total(truth, (0,)) == 0
    assert () not in counts


def test_the_first_state_of_a_stream_is_stationary():
    truth = model()
    np.testing.assert_allclose(truth.initial @ truth.transitions, truth.initial, rtol=0, atol=1e-12)


@pytest.mark.parametrize("successors", [1, 2, 4])
def test_states_with_few_successors_are_all_reachable(successors):
    truth = random_model(4, 3, seed=0, successors=successors)
    assert ((truth.transitions > 0).sum(1) == successors).all()
    assert truth.unreachable() == []


def test_an_unreachable_state_and_an_absent_symbol_are_refused_by_name():
    chain = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    with pytest.raises(ValueError, match=r"states \[2\] of the hidden Markov model cannot be reached"):
        HiddenMarkov.of([0, 1, 0], chain, np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match=r"symbols \[1\] of the hidden Markov model have probability 0"):
        HiddenMarkov.of([0, 0, 1], chain, [[1.0, 0.0]] * 3)


@pytest.mark.parametrize(
    ("initial", "emissions", "message"),
    [
        ([0.5, 0.4], [[1.0], [1.0]], "the initial probabilities .* must be at least 0 and sum to 1"),
        ([0.5, 0.5], [[2.0, -1.0], [1.0, 0.0]], "the emissions probabilities"),
        ([0.5, 0.5], [[1.0]], r"shapes \[S\], \[S, S\] and \[S, V\]"),
    ],
)
def test_wrong_parameters_are_refused(initial, emissions, message):
    with pytest.raises(ValueError, match=message):
        HiddenMarkov.of(initial, np.full((2, 2), 0.5), emissions)


def test_a_symbol_of_probability_zero_leaves_the_rest_finite():
    truth = HiddenMarkov(np.array([1.0]), np.ones((1, 1)), np.array([[0.0, 1.0]]))
    states, log_probs = truth.filter_states((1, 0, 1))
    assert log_probs.tolist() == [0, -np.inf, 0]
    assert np.isfinite(states).all()


def test_a_long_stream_neither_under_nor_overflows():
    truth, stream = model(), model().sample(Random(1))
    tokens = [next(stream) for _ in range(5_000)]
    assert 0.5 * log(3) < -truth.log_prob(tokens) / 5_000 < log(3)
    assert np.isfinite(truth.predict_from_both_sides(tokens)).all()


def test_the_corpus_has_the_cost_of_its_own_streams(tmp_path):
    settings = TypeAdapter(Corpus).validate_python({"name": "hmm", "states": 3, "symbols": 4, "tokens": 2_000})
    text = corpus.text(settings, tmp_path)
    tokens = [int(token[1:]) for token in " ".join(text.read("test")).split()]
    assert len(tokens) == 200
    assert text.nats["test"] == pytest.approx(-random_model(3, 4, 0).log_prob(tokens))
    assert not text.stops


def test_more_successors_than_states_are_refused():
    with pytest.raises(ValidationError, match=r"`successors` must be at most `states` \(8\), not 9"):
        TypeAdapter(Corpus).validate_python({"name": "hmm", "successors": 9})


def test_streams_of_a_hidden_model_keep_the_contracts_of_tasks(tmp_path):
    settings = TypeAdapter(Corpus).validate_python({"name": "hmm", "tokens": 400, "length": 10})
    check_task(TaskCase.of(LanguageModelingConfig(corpus=settings, window=7), data=tmp_path, folder=tmp_path))
