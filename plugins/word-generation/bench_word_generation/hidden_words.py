"""Words of a known hidden Markov model, with their exact probabilities and entropy."""

from collections import Counter
from collections.abc import Sequence
from math import log
from random import Random
from typing import Any

import numpy as np

from bench_language_modeling.api import HiddenMarkov, random_model, with_ends
from bench_word_generation.settings import HiddenMarkovWords
from bench_word_generation.word_entropy import word_entropy


def model_of(corpus: HiddenMarkovWords) -> HiddenMarkov:
    """Return the model that words are sampled from; symbol 0 is EOS."""
    return with_ends(random_model(corpus.states, corpus.symbols, corpus.seed, corpus.successors), corpus.end)


def sample_word_counts(corpus: HiddenMarkovWords) -> dict[str, int]:
    """Return the counts of the sampled words."""
    random = Random(f"{corpus.seed}/words")
    counts = Counter(model_of(corpus).sample_words(random, corpus.words))
    letters = corpus.letters
    return {"".join(letters[symbol - 1] for symbol in word): number for word, number in counts.items()}


def true_values(
    corpus: HiddenMarkovWords, shortest: int, longest: int, words: Sequence[str]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the exact values of the distribution of words, as task info and as statistics.

    The task info has the parameters of the model, and ln P(w) of each word given that its length is between
    `shortest` and `longest`. The statistics have the entropy of this distribution in nats, a bound on its error, and
    the probability of these lengths under the model.
    """
    model = model_of(corpus)
    entropy = word_entropy(model, shortest, longest)
    log_probs = model.log_probs(*_spell(words, corpus.letters)) - log(entropy.mass)
    parameters = {name: getattr(model, name).tolist() for name in ("initial", "transitions", "emissions")}
    statistics = {"true_entropy_nats": entropy.nats, "true_entropy_error": entropy.error, "true_mass": entropy.mass}
    return {"word_log_probs": log_probs.tolist(), "hmm": {**parameters, "symbols": corpus.letters}}, statistics


def _spell(words: Sequence[str], letters: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the symbols of words [N, T], each followed by EOS, and their numbers [N]."""
    symbols = {letter: place for place, letter in enumerate(letters, 1)}
    lengths = np.array([len(word) + 1 for word in words], np.int64)
    rows = np.zeros((len(words), int(lengths.max(initial=1))), np.int64)
    for row, word in zip(rows, words, strict=True):
        row[: len(word)] = [symbols[letter] for letter in word]
    return rows, lengths
