"""The suites of known truth and of letters: what their words promise, and models on streams of known entropy."""

from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from bench_core import STOP, Purpose, Rng, Scoring, Size, TaskInfo
from bench_core.suites.load import load
from bench_language_modeling.hidden_markov import random_model
from bench_language_modeling.plugin import LanguageModelingConfig
from bench_language_modeling.settings import Corpus
from bench_ssm.plugin import HiddenMarkovConfig
from bench_word_generation.hidden_words import model_of
from bench_word_generation.word_entropy import word_entropy

SUITES = Path(__file__).parents[3] / "suites" / "ssm"
LETTERS = TaskInfo(["</w>", *map(chr, range(97, 123))], counts=[1] * 27)


@pytest.mark.parametrize(("suffix", "weights"), [("-1500", 1500), ("-10000", 10_000), ("-time", 10_000)])
def test_rows_of_letters_have_as_many_weights_as_their_names_say(suffix, weights):
    models = load(SUITES / "letters.yaml", "smoke").models
    rows = {name: entry.config for name, entry in models.items() if name.endswith(suffix)}
    assert len(rows) == (4 if suffix == "-time" else 5)
    for name, config in rows.items():
        number = sum(each.numel() for each in config.load()(config, LETTERS).parameters())
        assert abs(number - weights) <= 0.05 * weights, name


def test_bands_of_letters_contain_every_rank_once():
    metrics = load(SUITES / "letters.yaml", "smoke").metrics
    bands = [each for name, each in metrics.items() if name in ("H-frequent", "H-common", "H-rare", "H-rarest")]
    assert [band.first_rank for band in bands] == [1, *(band.last_rank + 1 for band in bands[:-1])]
    assert bands[-1].last_rank is None


def test_words_of_known_truth_are_hardly_limited_by_their_lengths():
    config = load(SUITES / "known-truth.yaml", "small").tasks["words"]
    entropy = word_entropy(model_of(config.corpus), config.shortest, config.longest, max_probs=2**12)
    assert 1 - entropy.mass < 1e-4
    assert abs(entropy.nats - 8.0025) < entropy.error < 0.1  # 8.0025 with longer windows, up to 0.0005
    assert config.corpus.states == 8


def test_the_true_model_predicts_a_stream_at_its_entropy(tmp_path):
    settings = {"name": "hmm", "states": 3, "symbols": 4, "tokens": 3_000}
    config = LanguageModelingConfig(corpus=TypeAdapter(Corpus).validate_python(settings), window=35)
    task = config.load()(config, tmp_path)
    info = task.prepare(tmp_path)
    hidden, truth = HiddenMarkovConfig(states=3), random_model(3, 4, seed=0)
    model = hidden.load()(hidden, info).eval().double()
    symbols = [int(token[1:]) if token.startswith("s") else None for token in info.vocabulary]
    emissions = [np.zeros(3) if symbol is None else truth.emissions[:, symbol] for symbol in symbols]
    with torch.no_grad():
        model.initial.copy_(torch.tensor(truth.initial).log())
        model.transitions.copy_(torch.tensor(truth.transitions).log())
        model.head.weight.copy_(torch.tensor(np.array(emissions)).log())
        total, tokens, memory = 0.0, 0, None
        for batch in task.batches("test", Purpose.SCORE, Size(1)):
            scores = model.score(batch, Scoring("exact", Rng(0), memory=memory if batch.continues else None))
            total, tokens, memory = total - scores.log_probs.item(), tokens + int(batch.length), scores.memory
    assert symbols[STOP] is None
    assert tokens == 300
    assert total / tokens == pytest.approx(info.extras["entropy"], abs=1e-9)
    assert info.extras["entropy"] < log(4)
