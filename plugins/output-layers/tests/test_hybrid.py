"""The hybrid of a softmax and codes: laws with their mutants, and its limits k = 0 and k = V."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bench_authors.testing import catches, float64
from bench_core import Batch, Rng, State, SuiteError, TaskInfo, Training
from bench_output_layers.api import Ecoc, FullSoftmax, HybridSoftmax, code_layer
from bench_output_layers.plugin import DenseConfig, GrayWalkConfig, HybridConfig, IdentityConfig

RNG = Rng(7)
TRAINING = Training(step=3, steps=10, epoch=0, epochs=1, rng=RNG)
COUNTS = [4, 9, 1, 30, 7, 2, 12, 0, 5, 3, 8]
BY_COUNT = [3, 6, 1, 10, 4, 8, 0, 9, 5, 2, 7]
INFO = TaskInfo([f"w{token}" for token in range(11)], COUNTS)


@pytest.fixture(autouse=True)
def _laboratory():
    with float64(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def layer(frequent=4, rest=None, kind=HybridSoftmax, bits=8, **settings):
    """Return a hybrid of 11 tokens that is set up, with weights so large that probabilities differ."""
    others = 11 - frequent
    codes = Ecoc(5, others, bits, rest or DenseConfig(), vocabulary=11, **settings) if others else None
    made = kind(5, 11, codes)
    made.setup(INFO, RNG)
    for weights in made.parameters():
        nn.init.normal_(weights, std=1.5)
    return made.eval()


def batch_of(gold):
    gold = torch.as_tensor(gold)[None]
    return Batch(torch.zeros(1, dtype=torch.int64), gold[:, :1] * 0, gold, torch.tensor([gold.shape[1]]))


def near(first, second, tolerance=1e-9):
    torch.testing.assert_close(first, second, atol=tolerance, rtol=tolerance)


# mistakes


class CountsOtherTwice(HybridSoftmax):
    """The probability of "other" is a factor of its tokens twice."""

    def scores(self, hidden):
        scores = super().scores(hidden).clone()
        scores[..., self.coded] += self.logits(hidden).log_softmax(-1)[..., self.frequent :]
        return scores


class ForgetsOther(HybridSoftmax):
    """Other tokens share all of the mass among themselves."""

    def _costs(self, units, gold, of_rest):
        costs = cross_entropy(self.logits(units), self.places[gold].clamp(max=self.frequent), reduction="none")
        costs = costs.masked_fill(self.places[gold] >= self.frequent, 0)
        return self._add_rest(costs, units, gold, of_rest)


class TakesIdsForPlaces(HybridSoftmax):
    """The softmax is over the first tokens rather than the most frequent."""

    def _costs(self, units, gold, of_rest):
        costs = cross_entropy(self.logits(units), gold.clamp(max=self.frequent), reduction="none")
        return self._add_rest(costs, units, gold, of_rest)


class CostsBitsOfAll(HybridSoftmax):
    """Frequent tokens pay for the bits of another token."""

    def _add_rest(self, values, units, gold, of_rest):
        return values + of_rest(self.rest, units, (self.places[gold] - self.frequent).clamp(min=0))


# laws


@catches(CountsOtherTwice)
def probabilities_sum_to_one(kind):
    for frequent in (0, 1, 4, 10, 11):
        log_probs, _ = layer(frequent, kind=kind).log_probs(torch.randn(2, 3, 5), State())
        near(log_probs.exp().sum(2), torch.ones(2, 3))


@catches(ForgetsOther, TakesIdsForPlaces, CostsBitsOfAll, CountsOtherTwice)
def a_token_is_other_and_then_its_code(kind):
    """log p(w) is that of the softmax, or log p(other) + log p(w | other)."""
    for settings in ({}, {"rest": GrayWalkConfig(), "group": 2}, {"exact": True}):
        made, hidden = layer(kind=kind, **settings), torch.randn(11, 5)
        softmax = made.logits(hidden).log_softmax(1)
        inside = made.rest.naive(made.rest.bits(hidden)).log_softmax(1)
        expected = torch.empty(11, 11)
        for place, token in enumerate(BY_COUNT):
            expected[:, token] = softmax[:, place] if place < 4 else softmax[:, 4] + inside[:, place - 4]
        near(made.log_probs(hidden[None], State())[0][0], expected)
        exact, _ = made.score(hidden[None], batch_of(range(11)), State(), "exact")
        near(exact, expected.diagonal())


@catches(ForgetsOther, TakesIdsForPlaces, CostsBitsOfAll)
def only_other_tokens_cost_bits(kind):
    made, hidden = layer(kind=kind), torch.randn(11, 5)
    costs, _ = made.loss(hidden[None], batch_of(range(11)), State(), TRAINING)
    softmax = made.logits(hidden).log_softmax(1)
    for place, token in enumerate(BY_COUNT):
        cost = -softmax[token, min(place, 4)]
        if place >= 4:
            cost = cost + made.rest.bit_costs(hidden[[token]], torch.tensor([place - 4]))[0]
        near(costs[token], cost)
    bound, _ = made.score(hidden[None], batch_of(range(11)), State(), "bits")
    near(bound, -costs)


LAWS = (probabilities_sum_to_one, a_token_is_other_and_then_its_code, only_other_tokens_cost_bits)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_hybrids_keep_their_laws(law):
    law(HybridSoftmax)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_of_hybrids_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


def test_with_all_tokens_in_the_softmax_it_is_a_softmax():
    made, full = code_layer(HybridConfig(frequent=11), 5, 11, 8), FullSoftmax(5, 11)
    made.setup(INFO, RNG)
    full.logits.weight.data[BY_COUNT] = made.logits.weight.data
    full.logits.bias.data[BY_COUNT] = made.logits.bias.data
    hidden, rows = torch.randn(1, 11, 5), batch_of(range(11))
    near(made.log_probs(hidden, State())[0], full.log_probs(hidden, State())[0], 1e-12)
    near(made.loss(hidden, rows, State(), TRAINING)[0], full.loss(hidden, rows, State(), TRAINING)[0], 1e-12)
    for by in ("exact", "bits"):
        near(made.score(hidden, rows, State(), by)[0], full.score(hidden, rows, State(), "exact")[0], 1e-12)
    assert sum(weights.numel() for weights in made.parameters()) == 11 * 6
    assert len(made.coded) == len(made.codebook) == 0
    assert not made.needs_statistics
    assert made.bit_errors(hidden[0], torch.arange(11)).tolist() == [0] * 11


def test_without_frequent_tokens_it_is_its_codes():
    made = layer(0)
    hidden, rows = torch.randn(1, 11, 5), batch_of(range(11))
    near(made.log_probs(hidden, State())[0][..., made.coded], made.rest.log_probs(hidden, State())[0])
    near(made.loss(hidden, rows, State(), TRAINING)[0], made.rest.bit_costs(hidden[0], made.places))
    assert made.coded.tolist() == BY_COUNT


@pytest.mark.parametrize("frequent", [12, 1000])
def test_more_frequent_tokens_than_there_are_is_refused(frequent):
    with pytest.raises(
        SuiteError, match=rf"`codes: hybrid` has {frequent:,} `frequent` tokens.* only 11. Set .* to 11"
    ):
        code_layer(HybridConfig(frequent=frequent), 5, 11, 8)


def test_a_single_other_token_is_certain_given_that_it_is_another():
    made, hidden = layer(10, bits=1), torch.randn(3, 1, 5)
    log_probs, _ = made.log_probs(hidden, State())
    near(log_probs[..., 7], made.logits(hidden).log_softmax(-1)[..., 10])


def test_codewords_are_those_of_the_rarer_tokens():
    for rest in (DenseConfig(), GrayWalkConfig(), IdentityConfig()):
        made = layer(4, rest, bits=None if rest == IdentityConfig() else 8)
        assert made.coded.tolist() == BY_COUNT[4:]
        assert made.counts.tolist() == COUNTS
        assert made.rest.counts.tolist() == [COUNTS[token] for token in BY_COUNT[4:]]
        units, z = torch.randn(3, 5), made.rest.bits
        products = z(units) @ made.codebook.double().T
        near(made.scores(units)[:, made.coded].log_softmax(1), products.log_softmax(1))


def test_a_row_scores_alone_as_in_a_batch(monkeypatch):
    made, hidden, gold = layer(), torch.randn(1, 11, 5), torch.arange(11)
    for by in ("exact", "bits"):
        together, _ = made.score(hidden, batch_of(gold), State(), by)
        for token in range(11):
            near(made.score(hidden[:, [token]], batch_of([token]), State(), by)[0], together[[token]])
        with monkeypatch.context() as patch:
            patch.setattr("bench_output_layers.layer.LOGITS", 25)
            near(made.score(hidden, batch_of(gold), State(), by)[0], together)
    costs, _ = made.loss(hidden, batch_of(gold), State(), TRAINING)
    for token in range(11):
        near(made.loss(hidden[:, [token]], batch_of([token]), State(), TRAINING)[0], costs[[token]])


def test_training_scores_no_other_token(monkeypatch):
    made = layer().train()
    monkeypatch.setattr(made.rest.table, "products", lambda z: pytest.fail("all tokens were scored"))
    made.loss(torch.randn(1, 11, 5), batch_of(range(11)), State(), TRAINING)[0].sum().backward()
    assert made.rest.linear.weight.grad.any()
    assert made.logits.weight.grad.any()


def test_bits_are_a_bound_and_their_errors_are_those_of_coded_tokens():
    for settings in ({}, {"exact": True}, {"rest": GrayWalkConfig(), "group": 3}):
        made, hidden, gold = layer(**settings), torch.randn(1, 11, 5), batch_of(range(11))
        bits, exact = (made.score(hidden, gold, State(), by)[0] for by in ("bits", "exact"))
        assert (bits <= exact + 1e-9).all()
        errors = made.bit_errors(hidden[0], torch.arange(11))
        assert errors[BY_COUNT[:4]].tolist() == [0] * 4
        others = made.coded
        wrong = (made.rest.bits(hidden[0, others]) > 0) != made.codebook.bool()
        near(errors[others], wrong.double().mean(1))


def test_there_may_be_no_position_and_no_other_token():
    made = layer()
    assert made.loss(torch.randn(1, 2, 5), batch_of(BY_COUNT[:2]), State(), TRAINING)[0].shape == (2,)
    assert made.log_probs_of(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64)).shape == (0,)
    with torch.no_grad():
        assert made.log_probs(torch.zeros(0, 1, 5), State())[0].shape == (0, 1, 11)


def test_building_computes_nothing():
    with torch.device("meta"):
        made = code_layer(HybridConfig(frequent=3), 5, 11, 8)
    assert all(tensor.is_meta for tensor in made.state_dict().values())
