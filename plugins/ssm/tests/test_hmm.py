"""The hidden Markov model: sums over paths, posteriors, contracts, and the mistakes that its laws catch."""

from dataclasses import replace
from itertools import pairwise, product
from math import log
from random import Random

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from bench_authors.testing import Case, check_model
from bench_authors.testing.contracts import catches, patched
from bench_core import Batch, Rng, Scoring, TaskInfo, Training
from bench_language_modeling.hidden_markov import random_model, with_ends
from bench_ssm.plugin import HiddenMarkovConfig

WORDS = ((1, 2, 0), (0,), (3, 3, 1, 2, 0), (2, 1, 1, 1, 0), (1, 0))
EXACT = Scoring("exact", Rng(0))


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def built(states=4, letters=3):
    config = HiddenMarkovConfig(states=states)
    return config.load()(config, TaskInfo(["</w>", *map(str, range(letters))])).eval()


def rows(words, length=0):
    lengths = torch.tensor([len(word) for word in words])
    gold = torch.stack([pad(torch.tensor(word), (0, max(length, int(lengths.max())) - len(word))) for word in words])
    return Batch(torch.arange(len(words)), gold[:, :1] * 0, gold, lengths)


def by_paths(model, word):
    """Return P(word, path) of all paths [S, ..., S], by products of probabilities."""
    initial, emissions = model.initial.softmax(0), model.head.weight.softmax(0)
    transitions = model.transitions.softmax(1)
    states = range(len(initial))
    probs = {}
    for path in product(states, repeat=len(word)):
        prob = initial[path[0]] * emissions[word[0], path[0]]
        for (one, other), token in zip(pairwise(path), word[1:], strict=True):
            prob = prob * transitions[one, other] * emissions[token, other]
        probs[path] = prob
    return probs


# mistakes


def normalises_transitions_by_column(model):
    other = built(*_sizes(model))
    other.load_state_dict(model.state_dict())
    shifted = model.transitions.detach().log_softmax(0)
    other.forward = lambda tokens, past=None: forward(model, tokens, past, transitions=shifted.exp())
    return other


def transposes_transitions(model):
    return changed(model, lambda intact: {"transitions": intact.transitions.softmax(1).T})


def forgets_the_initial_distribution(model):
    return changed(model, lambda intact: {"initial": torch.full_like(intact.initial, -log(len(intact.initial)))})


def takes_the_best_path_for_the_sum(model):
    return changed(model, lambda intact: {"add": lambda logs: logs.amax(1)})


def moves_before_it_emits(model):
    return changed(model, lambda intact: {"moves_first": True})


def forgets_to_condition_on_the_token(model):
    return changed(model, lambda intact: {"reads": False})


def starts_again_never(model):
    return changed(model, lambda intact: {"resets": False})


def changed(model, changes):
    other = built(*_sizes(model))
    other.load_state_dict(model.state_dict())
    other.forward = lambda tokens, past=None: forward(other, tokens, past, **changes(other))
    return other


def _sizes(model):
    return len(model.initial), len(model.head.weight) - 1


def forward(
    model, tokens, past, initial=None, transitions=None, add=None, moves_first=False, reads=True, resets=True
):
    """Repeat the forward algorithm in other words, with one change."""
    initial = model.initial.log_softmax(0) if initial is None else initial
    moves = (model.transitions.softmax(1) if transitions is None else transitions).log()
    add = add or (lambda logs: logs.logsumexp(1))
    state, states = initial.expand(len(tokens), -1) if past is None else past, []
    for place in range(tokens.shape[1]):
        emitted = model.head.table()[tokens[:, place]] if reads else 0
        if moves_first:
            state = add(state[:, :, None] + moves) + emitted
        else:
            state = add((state + emitted)[:, :, None] + moves)
        state = state - state.logsumexp(1, keepdim=True)
        is_end = (tokens[:, place] == 0)[:, None] & torch.tensor(resets or place == 0)
        state = torch.where(is_end, initial, state)
        states.append(state)
    return torch.stack(states, 1), state


def does_not_count_eos(model):
    return patched(model, score=lambda intact, batch, scoring: intact.score(_without_end(batch), scoring))


def _without_end(batch):
    return replace(batch, length=(batch.length - 1).clamp(min=1))


def counts_padding(model):
    def score(intact, batch, scoring):
        return intact.score(replace(batch, length=torch.full_like(batch.length, batch.gold.shape[1])), scoring)

    return patched(model, score=score)


def normalises_emissions_over_states(model):
    other = built(*_sizes(model))
    other.load_state_dict(model.state_dict())
    other.head.table = lambda: other.head.weight.log_softmax(1)
    return other


def intact(model):
    return model


# laws


@catches(
    normalises_transitions_by_column,
    transposes_transitions,
    forgets_the_initial_distribution,
    takes_the_best_path_for_the_sum,
    moves_before_it_emits,
    forgets_to_condition_on_the_token,
    does_not_count_eos,
    normalises_emissions_over_states,
)
def a_score_is_the_sum_over_all_paths(change):
    model = change(built())
    scores = model.score(rows(WORDS), EXACT).log_probs
    for word, score in zip(WORDS, scores, strict=True):
        assert abs(score.exp().item() / sum(by_paths(model, word).values()).item() - 1) < 1e-12


@catches(counts_padding)
def a_word_has_the_same_probability_beside_longer_ones(change):
    model = change(built())
    scores = model.score(rows(WORDS), EXACT).log_probs
    for word, score in zip(WORDS, scores, strict=True):
        assert abs(model.score(rows([word]), EXACT).log_probs.item() - score.item()) < 1e-12


@catches(starts_again_never)
def a_stream_starts_again_after_each_eos(change):
    model, words = change(built()), (WORDS[2], WORDS[4])
    whole = model.score(rows([(*words[0], *words[1])]), EXACT).log_probs
    parts = model.score(rows(words), EXACT).log_probs
    assert abs(whole.item() - parts.sum().item()) < 1e-12


LAWS = (
    a_score_is_the_sum_over_all_paths,
    a_word_has_the_same_probability_beside_longer_ones,
    a_stream_starts_again_after_each_eos,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_hidden_markov_model_keeps_its_laws(law):
    law.check(intact)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_the_laws_of_the_hidden_markov_model_catch_their_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law.check(mutant)


def test_the_mutants_differ_from_the_model_by_their_change_alone():
    model = built()
    expected = model.score(rows(WORDS), EXACT).log_probs
    same = changed(model, lambda intact: {}).score(rows(WORDS), EXACT).log_probs
    torch.testing.assert_close(same, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("states", [1, 4])
def test_the_hidden_markov_model_keeps_the_contracts(states):
    check_model(Case.of(HiddenMarkovConfig(states=states)))


def test_the_gradient_counts_states_and_emissions_by_their_posterior():
    """The derivative of ln P by an emission's logarithm is the expected number of times that it is used."""
    model, word = built(), (3, 3, 1, 2, 0)
    probs = by_paths(model, word)
    total = sum(probs.values())
    counts = torch.zeros_like(model.head.weight)
    for path, prob in probs.items():
        for state, token in zip(path, word, strict=True):
            counts[token, state] += (prob / total).detach()
    wanted = counts - counts.sum(0) * model.head.weight.softmax(0)  # through the softmax
    (gradient,) = torch.autograd.grad(model.score(rows([word]), EXACT).log_probs.sum(), model.head.weight)
    torch.testing.assert_close(gradient, wanted.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("letters", [1, 2, 3000])
def test_alphabets_of_any_size_have_probabilities_that_sum_to_one(letters):
    model = built(letters=letters)
    log_probs, state = model.start(rows([(0,)]))
    for _ in range(2):
        assert abs(log_probs.exp().sum().item() - 1) < 1e-12
        log_probs, state = model.step(state, torch.tensor([1]))


def test_an_unreachable_state_changes_nothing_and_has_no_gradient():
    model, larger = built(), built(5)
    with torch.no_grad():
        larger.initial[:4], larger.initial[4] = model.initial, -torch.inf
        larger.transitions[:4, :4], larger.transitions[:4, 4] = model.transitions, -torch.inf
        larger.head.weight[:, :4] = model.head.weight
    scores, expected = (each.score(rows(WORDS), EXACT).log_probs for each in (larger, model))
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-12)
    larger.loss(rows(WORDS), Training(0, 1, 0, 1, Rng(0))).value.backward()
    assert all(weights.grad.isfinite().all() for weights in larger.parameters())
    assert larger.transitions.grad[4].abs().max() < 1e-300


def test_a_letter_that_no_state_emits_has_probability_zero_and_the_rest_stays_finite():
    model = built()
    with torch.no_grad():
        model.head.weight[2] = -torch.inf
    scores = model.score(rows(WORDS), EXACT).log_probs
    assert scores.isneginf().tolist() == [2 in word for word in WORDS]
    assert not scores.isnan().any()


def test_long_words_of_tiny_probability_stay_finite_in_single_precision():
    torch.set_default_dtype(torch.float32)
    model = built(states=64)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(30)
    loss = model.loss(rows([(*[1] * 400, 0)]), Training(0, 1, 0, 1, Rng(0))).value
    loss.backward()
    assert loss.isfinite()
    assert all(weights.grad.isfinite().all() for weights in model.parameters())


def test_samples_stop_where_the_model_says():
    """One state: lengths are geometric."""
    model, number = built(states=1, letters=2), 4000
    end = model.head.weight.softmax(0)[0].item()
    samples = model.sample(replace(rows([(0,)] * number)), 1000, Rng(3))
    mean = sum(len(sample.tokens) for sample in samples) / number
    expected, deviation = (1 - end) / end, (1 - end) ** 0.5 / end
    assert abs(mean - expected) < 4 * deviation / number**0.5


def test_states_start_unequal_so_that_they_can_be_told_apart():
    weights = built(states=8).head.weight
    assert all(not torch.allclose(weights[:, 0], weights[:, place]) for place in range(1, 8))


def test_windows_of_a_stream_continue_with_the_state_of_the_window_before():
    config = HiddenMarkovConfig(states=4)
    model = config.load()(config, TaskInfo(["</w>", *"abc"], consecutive=True)).eval()
    stream = (3, 3, 1, 0, 2, 1, 1, 2)
    first = model.score(rows([stream[:3]]), EXACT)
    window = replace(rows([stream[3:]]), prompt=torch.tensor([[stream[2]]]), continues=True)
    second = model.score(window, replace(EXACT, memory=first.memory))
    whole = model.score(rows([stream]), EXACT).log_probs
    assert abs((first.log_probs + second.log_probs - whole).item()) < 1e-12
    assert abs((model.score(window, EXACT).log_probs - second.log_probs).item()) > 1e-3


def known(states=8):
    """Return a model of words with 8 states, and words that it sampled, with their log-probabilities."""
    truth = with_ends(random_model(states, 8, seed=1), end=0.5)
    words = [(*word, 0) for word in truth.sample_words(Random("words"), 60_000)]
    rows = np.zeros((len(words), max(map(len, words))), np.int64)
    for row, word in zip(rows, words, strict=True):
        row[: len(word)] = word
    return truth, rows, np.array([*map(len, words)])


@pytest.mark.slow
@pytest.mark.parametrize(("states", "updates", "least", "most"), [(8, 2000, -0.005, 0.03), (2, 400, 0.2, 1.0)])
def test_eight_states_learn_the_words_of_eight_states_and_two_do_not(states, updates, least, most):
    """The excess over the truth on new words is known up to 0.005 nats; three seeds."""
    torch.set_default_dtype(torch.float32)
    truth, words, lengths = known()
    new, config = slice(50_000, None), HiddenMarkovConfig(states=states)
    optimum = -truth.log_probs(words[new], lengths[new]).mean()
    for seed in range(3):
        torch.manual_seed(seed)
        model = config.load()(config, TaskInfo(["</w>", *map(str, range(8))]))
        optimizer, generator = torch.optim.Adam(model.parameters(), 0.05), np.random.default_rng(seed)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, 2 - 2 * step / updates))
        for step in range(updates):
            optimizer.zero_grad()
            few = generator.integers(0, 50_000, 128)
            model.loss(batch_of(words[few], lengths[few]), Training(step, updates, 0, 1, Rng(0))).value.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            cost = -model.score(batch_of(words[new], lengths[new]), EXACT).log_probs.mean().item()
        assert least < cost - optimum < most


def batch_of(rows, lengths):
    gold = torch.tensor(rows[:, : lengths.max()])
    return Batch(torch.arange(len(gold)), gold[:, :1] * 0, gold, torch.tensor(lengths))


def test_the_model_with_the_parameters_of_the_truth_has_its_probabilities():
    truth, words, lengths = known()
    model = built(8, 8)
    with torch.no_grad():
        for weights, probs in ((model.initial, truth.initial), (model.transitions, truth.transitions)):
            weights.copy_(torch.tensor(probs).log())
        model.head.weight.copy_(torch.tensor(truth.emissions.T).log())
        scores = model.score(batch_of(words[:200], lengths[:200]), EXACT).log_probs
    np.testing.assert_allclose(scores.numpy(), truth.log_probs(words[:200], lengths[:200]), rtol=0, atol=1e-11)
