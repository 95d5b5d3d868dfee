"""The learned posterior over orders: its gradient and its bounds by enumeration, and an order that it must find."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from math import log

import pytest
import torch

from bench_authors.testing import Case, check_model, float64, tiny_batch
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Batch, Rng, Scoring, Source, SuiteError, TaskInfo, Training
from bench_indigo.insertion import Indigo
from bench_indigo.learned_order import OrderPosterior, learned_loss
from bench_indigo.plackett_luce import log_prob
from bench_indigo.plugin import IndigoConfig
from bench_indigo.search import search

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12, "order": "learned"}
SLOW = ("samples_occur_as_often_as_their_score_says", "eight_examples_can_be_learnt_by_heart")
QUICK = [contract for contract in MODEL_CONTRACTS if str(contract) not in SLOW]
STANDARD_ERRORS = 5


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def case_of(targets=None, scale=2.5, **settings):
    batch = None if targets is None else one_source(targets)
    case = Case.of(IndigoConfig(**{**SMALL, **settings}), batch=batch, source=Source.TOKENS, scale=scale)
    if case.model.posterior is not None:
        case.model.posterior.score.weight.normal_(std=0.7)  # zeros at first, so that all orders are alike
    return case


def one_source(targets):
    """Return targets that all have the same source."""
    rows = tiny_batch(targets, source=Source.TOKENS)
    source, length = rows.source[:1].expand(len(targets), -1), rows.source_length[:1].expand(len(targets))
    return replace(rows, source=source, source_length=length)


def every_order(batch):
    """Return all orders of targets of equal length [N, W, T]."""
    words = int(batch.length[0]) - 1
    return torch.tensor([[*order, words] for order in permutations(range(words))]).expand(len(batch), -1, -1)


@pytest.mark.quick(0)
def test_the_model_with_a_learned_order_keeps_all_contracts():
    check_model(case_of(dropout=0.2))


@pytest.mark.quick(0)
@pytest.mark.parametrize("settings", [{"position_first": True}, {"eod_slot": True, "raw_keys": True}], ids=str)
def test_its_variants_keep_the_quick_contracts(settings):
    assert len(check(QUICK, case_of(**settings))) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("source", [Source.BAG, Source.GRID, Source.VECTOR])
def test_the_posterior_reads_every_source(source):
    assert len(check(QUICK, Case.of(IndigoConfig(**SMALL), source=source))) >= 16


# By enumeration


def exact(case):
    """Return log p(y | x) [N], the log-sum over all orders, of targets of equal length."""
    return case.model.weigh(case.batch, every_order(case.batch), None, case.model.encode(case.batch)).logsumexp(1)


def bounds_are_bounds(**settings):
    for words in (1, 2, 3):
        case = case_of([*product((1, 2, 3), repeat=words)][-9:], bound_samples=6, **settings)
        log_probs = exact(case)
        for by in case.config.likelihoods:
            assert (case.scored(by) <= log_probs + 1e-10).all(), by
        torch.testing.assert_close(replace(case, model=wide(case)).scored("searched"), log_probs)


@pytest.mark.parametrize("order", ["l2r", "r2l", "learned"])
@pytest.mark.parametrize("beam", [1, 5, 6])
def test_the_order_of_the_model_is_among_the_orders_found_and_counts_once(order, beam):
    case = case_of([(1, 2, 3), (3, 1, 2), (2, 2, 1)], order=order, beam=beam)
    assert (case.scored("searched") >= case.scored("order")).all()
    assert (case.scored("searched") <= exact(case) + 1e-10).all()
    if beam == 6:
        torch.testing.assert_close(case.scored("searched"), exact(case))


def wide(case):
    """Return the model with a search that finds all orders."""
    model = Indigo(case.config.model_copy(update={"beam": 6}), case.info)
    model.load_state_dict(case.model.state_dict())
    return model.eval()


@pytest.mark.parametrize(
    "settings", [{}, {"position_first": True}, {"order": "searched", "beam": 2}, {"order": "r2l"}], ids=str
)
def test_every_bound_is_at_most_the_log_sum_over_all_orders(settings):
    bounds_are_bounds(**settings)


def elbo_is_its_definition():
    case = case_of([(1, 2, 3), (3, 3, 1)], bound_samples=6)
    orders = every_order(case.batch)
    log_probs = case.model.weigh(case.batch, orders, None, case.model.encode(case.batch))
    log_q = log_prob(case.model.posterior(case.batch), orders, case.batch.length - 1)
    assert log_q.std() > 0.01, "the case must bite"
    torch.testing.assert_close(case.scored("elbo"), (log_q.exp() * (log_probs - log_q)).sum(1))


def test_the_bound_is_the_expectation_over_all_orders_and_the_entropy():
    elbo_is_its_definition()


@pytest.mark.parametrize(
    "mistake",
    [lambda *_: torch.zeros(2, 6), lambda *_: torch.full((2, 6), -log(6))],
    ids=["no entropy", "no weights"],
)
def test_the_definition_catches_a_posterior_that_is_ignored(monkeypatch, mistake):
    monkeypatch.setattr("bench_indigo.plackett_luce.log_prob", mistake)
    with pytest.raises(AssertionError):
        elbo_is_its_definition()


def test_the_bound_of_other_orders_is_that_of_the_orders_they_learn_from():
    targets = [(1, 2, 3), (2, 2, 1)]
    case = case_of(targets, order="searched", beam=4)
    best, total, elbo = (case.scored(by) for by in case.config.likelihoods)
    assert (elbo < total).all()
    assert (elbo <= best + log(4)).all()
    case = case_of(targets, order="l2r")
    torch.testing.assert_close(case.scored("elbo"), case.scored("order"))
    case = case_of(targets, order="rnd")
    torch.testing.assert_close(case.scored("elbo"), case.scored("order") + log(6))


def test_the_evaluation_order_is_the_mode_of_the_posterior():
    case = case_of([(1, 2, 3), (3, 1, 1)])
    orders = every_order(case.batch)
    log_q = log_prob(case.model.posterior(case.batch), orders, case.batch.length - 1)
    expected = orders[torch.arange(2), log_q.argmax(1)]
    assert case.model.order(case.batch, Rng(0)).tolist() == expected.tolist()


def test_all_orders_are_equally_probable_before_training():
    case = case_of([(1, 2, 3)], scale=1.0)
    posterior = OrderPosterior(case.config, case.info)
    assert posterior(case.batch).tolist() == [[0, 0, 0, 0]]


# The gradient


def gradient_of(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([weights.grad.flatten() for weights in model.parameters() if weights.grad is not None])


def loss_of(model, batch, step, **phase):
    return model.loss(batch, Training(step, 1, 0, 1, Rng(3).fork(step), phase=phase))


def loss_has_the_gradient_of_the_bound(entropy=1.0):
    """Assert that the gradient of all weights is that of the bound by enumeration, in 10,000 sampled orders."""
    case = case_of([(1, 3, 2)], entropy=entropy)
    model, tokens = case.model, 4
    with torch.enable_grad():
        orders = every_order(case.batch)
        log_probs = model.weigh(case.batch, orders, None, model.encode(case.batch))
        log_q = log_prob(model.posterior(case.batch), orders, case.batch.length - 1)
        bound = (log_q.exp() * (log_probs - entropy * log_q)).sum()
        expected = gradient_of(model, -bound / tokens)
        chunks, rows = 25, 100  # of four orders each
        batch = case.batch.select(torch.zeros(rows, dtype=torch.long))
        batches = [replace(batch, ids=torch.arange(rows) + rows * chunk) for chunk in range(chunks)]
        losses = [loss_of(model, each, 0) for each in batches]
        gradients = torch.stack([gradient_of(model, loss.value) for loss in losses])
    error = gradients.std(0) / chunks**0.5
    assert ((gradients.mean(0) - expected).abs() <= STANDARD_ERRORS * error + 1e-12).all()
    values = torch.stack([loss.value.detach() for loss in losses])
    assert (values.mean() + bound.detach() / tokens).abs() < STANDARD_ERRORS * values.std() / chunks**0.5


@pytest.mark.parametrize("entropy", [1.0, 0.3])
def test_the_gradient_of_the_loss_is_that_of_the_bound(entropy):
    loss_has_the_gradient_of_the_bound(entropy)


LOSS_MUTANTS = {
    "entropy forgotten": (
        "log_prob",
        lambda scores, orders, number: LOG_PROB(scores, orders, number) - LOG_PROB(scores, orders, number).detach(),
    ),
    "places of the scores shifted": (
        "log_prob",
        lambda scores, orders, number: LOG_PROB(scores.roll(1, 1), orders, number),
    ),
    "the baseline includes the sample itself": (
        "score_function",
        lambda log_q, rewards: ((rewards - rewards.mean(1, keepdim=True)) * log_q).mean(1),
    ),
    "the posterior is not trained": ("score_function", lambda log_q, rewards: 0 * log_q.mean(1)),
}
LOG_PROB = log_prob


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", LOSS_MUTANTS)
def test_the_gradient_of_the_bound_catches_the_mistake(monkeypatch, name):
    attribute, mistake = LOSS_MUTANTS[name]
    monkeypatch.setattr(f"bench_indigo.learned_order.{attribute}", mistake)
    with pytest.raises(AssertionError):
        loss_has_the_gradient_of_the_bound()


def test_orders_differ_between_updates_and_between_the_samples_of_a_target(monkeypatch):
    seen = []
    sample = learned_loss.__globals__["sample_orders"]

    def watched(*arguments):
        seen.append(sample(*arguments))
        return seen[-1]

    monkeypatch.setitem(learned_loss.__globals__, "sample_orders", watched)
    case = case_of([tuple(range(1, 5)) * 2], samples=6)
    for step in range(2):
        loss_of(case.model, case.batch, step)
    assert seen[0].shape[1] == 6
    assert len(seen[0][0].unique(dim=0)) > 1
    assert not seen[0].equal(seen[1])


def test_a_phase_may_bootstrap_from_another_order_but_needs_the_posterior():
    case = case_of([(1, 2, 3)])
    fixed = Indigo(IndigoConfig(**{**SMALL, "order": "l2r"}), case.info)
    state = {name: weights for name, weights in case.model.state_dict().items() if not name.startswith("posterior")}
    fixed.load_state_dict(state)
    fixed.eval()
    for order in ("l2r", "searched"):
        assert (
            loss_of(case.model, case.batch, 0, order=order).value == loss_of(fixed, case.batch, 0, order=order).value
        )
    with pytest.raises(SuiteError, match="no posterior over orders"):
        loss_of(fixed, case.batch, 0, order="learned")


def phases_teach_the_posterior(order, beam=2):
    """Assert that the posterior's gradient in another phase is that of the orders from which the model learns."""
    case = case_of([(1, 3, 2), (2, 1, 1)])
    model, batch = case.model, case.batch
    orders = every_order(batch)[:, -1:] if order == "r2l" else search(model, batch, model.encode(batch), beam)[0]
    with torch.enable_grad():
        expected = -log_prob(model.posterior(batch), orders, batch.length - 1).mean(1).sum() / batch.length.sum()
        wanted = gradient_of(model.posterior, expected)
        model.zero_grad()
        loss_of(model, batch, 0, order=order, beam=beam).value.backward()
    found = torch.cat(
        [weights.grad.flatten() for weights in model.posterior.parameters() if weights.grad is not None]
    )
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("order", ["r2l", "searched"])
def test_the_posterior_learns_the_orders_of_other_phases(order):
    phases_teach_the_posterior(order)


def test_the_orders_of_other_phases_catch_a_posterior_that_does_not_learn_them(monkeypatch):
    monkeypatch.setattr("bench_indigo.insertion.imitation", lambda posterior, batch, tree: 0 * posterior(batch).sum())
    with pytest.raises(AssertionError):
        phases_teach_the_posterior("r2l")


@pytest.mark.parametrize(
    "settings", [{}, {"order": "searched", "beam": 3}, {"position_first": True}, {"order": "l2r"}], ids=str
)
def test_words_and_slots_of_the_best_order_add_up_to_its_nats(settings):
    case = case_of([(1, 2, 3), (2,)], **settings)
    for by in case.config.likelihoods:
        scores = case.model.score(case.batch, Scoring(by, Rng(0)))
        torch.testing.assert_close(scores.values["words"] + scores.values["slots"], -scores.values["best-order"])
        assert (scores.values["words"] > 0).all()
        assert by != "order" or scores.log_probs.equal(scores.values["best-order"])


def test_the_last_word_of_a_sequence_includes_its_end_and_a_single_word_has_one_slot():
    case = case_of([(2,)], order="l2r")
    values = case.model.score(case.batch, Scoring("order", Rng(0))).values
    log_probs, state = case.model.start(case.batch)
    log_probs_of_slots, state = case.model.step(state, torch.tensor([2]))
    log_probs_of_end, _ = case.model.step(state, torch.tensor([1]))
    torch.testing.assert_close(-values["words"], log_probs[:, 2] + log_probs_of_end[:, 0])
    assert log_probs_of_slots[0, 1] == values["slots"][0] == 0


# A known right order


class Folds:
    """Targets whose last word is a copy, and each other word follows from its digit and the next word by a table.

    The table is a Latin square, so no other place helps. Targets have 2 to 4 words, each with its own digits.
    """

    words, digits = 4, 8

    def __init__(self, seed):
        tokens = [f"{place}:{digit}" for place in range(self.words) for digit in range(self.digits)]
        self.info = TaskInfo(["<eos>", *tokens], source_vocabulary=["<pad>", *tokens], source=Source.TOKENS)
        self.draw = torch.Generator().manual_seed(seed)
        shuffled = torch.randperm(self.digits, generator=torch.Generator().manual_seed(3))
        square = shuffled[(torch.arange(self.digits)[:, None] + torch.arange(self.digits)) % self.digits]
        self.table = square[torch.randperm(self.digits, generator=torch.Generator().manual_seed(4))]

    def batch(self, rows, first=0, least=2):
        """Return `rows` targets of `least` to 4 words, the last words of folds of 4."""
        source = torch.randint(self.digits, (rows, self.words), generator=self.draw)
        states = [source[:, -1]]
        for place in range(self.words - 2, -1, -1):
            states.insert(0, self.table[source[:, place], states[0]])
        number = torch.randint(least, self.words + 1, (rows,), generator=self.draw)
        at = torch.arange(self.words + 1) + (self.words - number)[:, None]

        def tokens(digits):
            table = torch.cat([digits + 1 + self.digits * torch.arange(self.words), torch.zeros(rows, 1).long()], 1)
            return table.gather(1, at.clamp(max=self.words))

        ids = torch.arange(first, first + rows)
        return Batch(
            ids, torch.zeros(rows, 1).long(), tokens(torch.stack(states, 1)), number + 1, tokens(source), number
        )


def is_right(order):
    """Return whether words follow from words placed before; the last word is a copy, so it may come at any time."""
    return [place for place in order if place != 3] == [2, 1, 0]


@pytest.mark.slow
def test_the_right_order_of_folds_is_found_after_a_search():
    """Train for 150 updates on searched orders, then on the learned order."""
    torch.set_default_dtype(torch.float32)
    task, updates = Folds(0), 500
    config = IndigoConfig(
        d_model=64, heads=4, layers=1, feed_forward=256, dropout=0, order="learned", source_positions="none"
    )
    model = Indigo(config, task.info)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    with torch.enable_grad():
        for step in range(updates):
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * min(1, (step + 1) / 100, 2 - 2 * step / updates)
            phase = {"order": "searched", "beam": 4} if step < 150 else {}
            optimizer.zero_grad()
            loss_of(model, task.batch(96, 96 * step), step, **phase).value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    model.eval()
    test = Folds(99).batch(100, 10**6, least=4)
    orders = every_order(test)
    log_probs = model.weigh(test, orders, None, model.encode(test))
    best = orders[torch.arange(100), log_probs.argmax(1), :4].tolist()
    modes = model.order(test, Rng(0))[:, :4].tolist()
    assert sum(map(is_right, best)) >= 90
    assert sum(map(is_right, modes)) >= 90
    assert log_probs.logsumexp(1).mean() > -0.5
