"""The insertion model: contracts, laws of its probabilities, and the mistakes that these catch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import permutations, product
from math import log

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_model, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row, replay
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import STOP, Kind, Rng, Source, SuiteError, TaskInfo, Training
from bench_indigo import insertion, insertion_network
from bench_indigo.plugin import IndigoConfig, bench_models
from bench_indigo.prefixes import prefixes

SMALL = {"d_model": 8, "heads": 2, "layers": 2, "feed_forward": 12}
RNG = Rng(7)
TINY = tiny_info(Source.TOKENS)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def batch_of(targets, **extras):
    """Return targets that all have the same source."""
    found = tiny_batch(targets, source=Source.TOKENS)
    source, length = found.source[:1].expand(len(targets), -1), found.source_length[:1].expand(len(targets))
    return replace(found, source=source, source_length=length, extras=extras)


def given(target, orders):
    """Return one target again and again, with an order each time."""
    table = torch.tensor([[*order, len(target)] for order in orders])
    return batch_of([target] * len(orders), order=table)


def case_of(batch=None, info=TINY, scale=2.5, **settings):
    config = IndigoConfig(**{**SMALL, **settings})
    return Case.of(config, info=info, batch=batch, source=Source.TOKENS, scale=scale)


def every(target):
    return [*permutations(range(len(target)))]


SLOW = ("samples_occur_as_often_as_their_score_says", "eight_examples_can_be_learnt_by_heart")
QUICK = [contract for contract in MODEL_CONTRACTS if str(contract) not in SLOW]


@pytest.mark.quick(1)
@pytest.mark.parametrize("settings", [{"order": "rnd", "dropout": 0.2}, {"beam": 3}], ids=["rnd", "searched"])
def test_the_model_keeps_all_contracts(settings):
    check_model(case_of(**settings, layers=1))


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize(
    "settings",
    [
        {"order": "l2r"},
        {"beam": 1, "orders": "one", "cross_attention": "forward", "tied": False},
        {"order": "blt", "eod_slot": True, "raw_keys": True, "source_positions": "sinusoidal"},
        {"beam": 2, "raw_keys": True},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_model_keeps_the_quick_contracts(settings):
    assert len(check(QUICK, case_of(**settings))) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("source", [Source.BAG, Source.GRID, Source.VECTOR])
def test_the_model_keeps_the_quick_contracts_with_every_source(source):
    bag = {"source_positions": "none"} if source is Source.BAG else {}
    assert len(check(QUICK, Case.of(IndigoConfig(**SMALL, beam=2, **bag), source=source))) >= 16


@pytest.mark.slow
def test_a_model_of_one_shared_matrix_keeps_the_quick_contracts():
    info = replace(TINY, source_vocabulary=TINY.vocabulary)
    rows = tiny_batch(source=Source.TOKENS)
    rows = replace(rows, source=rows.source.clamp(max=4))
    assert len(check(QUICK, case_of(rows, info, order="r2l", shared=True))) >= 16


def stepped(case, chain):
    """Return log p of chains, step by step."""
    total = torch.zeros(len(chain))
    for rows, log_probs, actions in replay(case.model, case.batch, chain):
        total = total.index_add(0, rows, log_probs.gather(1, actions[:, None])[:, 0])
    return total


def steps_are_the_parallel_pass(**settings):
    """Assert that all orders of four words cost step by step what they cost at once."""
    case = case_of(given((1, 2, 2, 4), every(range(4))), order="given", **settings)
    torch.testing.assert_close(case.scored("order"), stepped(case, case.model.chain(case.batch, RNG)))


@pytest.mark.parametrize("settings", [{}, {"raw_keys": True}, {"cross_attention": "forward"}], ids=str)
def test_every_order_costs_step_by_step_what_it_costs_at_once(settings):
    steps_are_the_parallel_pass(**settings)


def changed(function, change):
    """Return a function of which the first argument is changed before."""
    return lambda first, *more, **named: function(change(first), *more, **named)


MUTANTS = {
    "R transposed": (insertion, "relations", lambda intact: lambda places: intact(places).mT),
    "sides not told apart": (insertion, "relations", lambda intact: lambda places: intact(places).abs()),
    "pointer to the wrong side": (
        insertion,
        "target_slot_log_probs",
        lambda intact: changed(intact, lambda scores: scores.flip(2)),
    ),
    "slot mask off by one": (
        insertion,
        "target_slot_log_probs",
        lambda intact: lambda scores, places, seen, *more: intact(scores, places, seen & (seen.cumsum(2) > 1), *more),
    ),
    "stepping takes slots for their neighbours": (
        insertion_network,
        "slot_logits",
        lambda intact: lambda scores: intact(scores).roll(1, 1),
    ),
    "stepping points to the wrong side": (
        insertion_network,
        "slot_logits",
        lambda intact: changed(intact, lambda scores: scores.flip(1)),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_that_law_catches_its_mutants(monkeypatch, mutant):
    module, name, mistake = MUTANTS[mutant]
    monkeypatch.setattr(module, name, mistake(getattr(module, name)))
    with pytest.raises(AssertionError):
        steps_are_the_parallel_pass()


def zeroed(**settings):
    """Return a case with all weights 0, of nine words."""
    info = TaskInfo(["<stop>", *"abcdefghi"], source_vocabulary=["<stop>", *"abcdef"])
    case = case_of(batch_of([(3, 1, 9), (2, 2, 2)]), info, **settings)
    for weights in case.model.parameters():
        weights.zero_()
    return case


def test_where_nothing_is_known_all_words_and_slots_are_alike():
    found = zeroed(order="rnd").scored("order")
    torch.testing.assert_close(found, torch.full_like(found, -4 * log(10) - log(6)))
    assert round(found[0].item(), 4) == -11.0021
    together = zeroed(beam=6).scored("searched")
    torch.testing.assert_close(together, torch.full_like(together, -4 * log(10)))
    assert round(together[0].item(), 4) == -9.2103


def test_all_targets_and_what_goes_on_have_probability_one():
    info = TaskInfo(["<stop>", "a", "b"], source_vocabulary=TINY.source_vocabulary)
    targets = [target for number in range(4) for target in product((1, 2), repeat=number)]
    case = case_of(batch_of(targets), info, scale=1, beam=6)
    ended = case.scored("searched").exp().sum()
    alone = one_row(case.batch, 0)
    log_probs, state = case.model.start(alone)
    going = torch.zeros(1)
    for step in range(6):  # every chain of three words
        total = (going[:, None] + log_probs)[:, 1:]
        width = total.shape[1]
        rows = torch.arange(len(going)).repeat_interleave(width)
        log_probs, state = case.model.step(state.select(rows), torch.arange(1, width + 1).repeat(len(going)))
        going = total.flatten()
        assert len(log_probs) == len(going), step
    still = (going.exp() * (1 - log_probs[:, STOP].exp())).sum()
    assert 0.01 < ended < 0.99
    torch.testing.assert_close(ended + still, torch.ones(()))


def weighed(case, orders):
    """Return log p(y, pi) [N, W] of the same orders for every row."""
    number = case.batch.gold.shape[1] - 1
    table = torch.tensor([[*order, number] for order in orders]).expand(len(case.batch), -1, -1)
    return case.model.weigh(case.batch, table, None, case.model.encode(case.batch))


def test_orders_weighed_together_are_those_weighed_alone():
    case = case_of(batch_of([(1, 2, 3, 4), (2, 2, 1, 1)]))
    together = weighed(case, every(range(4)))
    alone = torch.cat([weighed(case, [order]) for order in every(range(4))], 1)
    torch.testing.assert_close(together, alone)
    assert together.std(1).min() > 0.1, "the case must bite"


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_search_that_is_wide_enough_weighs_all_orders(number):
    targets = [tuple(1 + (3 * row + place) % 4 for place in range(number)) for row in range(2)]
    case = case_of(batch_of(targets), beam=120)
    everything = weighed(case, every(range(number)))
    torch.testing.assert_close(case.scored("searched"), everything.logsumexp(1))
    torch.testing.assert_close(case.scored("order"), everything.amax(1))
    best = case.model.order(case.batch, RNG)[:, :number]
    assert [tuple(row) for row in best.tolist()] == [every(range(number))[row] for row in everything.argmax(1)]


def test_bounds_are_the_tighter_the_more_orders_are_found():
    target = [(1, 2, 3, 4), (4, 4, 1, 2)]
    marginal = weighed(case_of(batch_of(target)), every(range(4))).logsumexp(1)
    before = torch.full_like(marginal, -torch.inf)
    for beam in (1, 2, 5, 24):
        case = case_of(batch_of(target), beam=beam)
        found = case.scored("searched")
        assert (found >= before - 1e-9).all()
        assert (found <= marginal + 1e-9).all()
        assert (case.scored("order") <= found + 1e-9).all()
        before = found
    torch.testing.assert_close(before, marginal)


def test_a_mean_over_orders_is_below_their_sum_and_that_below_all():
    case = case_of(batch_of([(1, 2, 3), (4, 4, 4)]))
    everything = weighed(case, every(range(3)))
    for size in range(1, 7):
        some = everything[:, :size]
        assert (some.mean(1) + log(size) <= some.logsumexp(1) + 1e-12).all()
        assert (some.logsumexp(1) <= everything.logsumexp(1) + 1e-12).all()


def word_costs(case, change=lambda tree: tree):
    orders = case.batch.extras["order"][:, None]
    tree = change(prefixes(case.batch, orders))
    return case.model._costs(case.batch, tree, case.model.encode(case.batch))


def test_words_do_not_depend_on_the_pointer():
    case = case_of(given((1, 2, 3), every(range(3))), order="given")
    before = word_costs(case)
    case.model.pointer.reset_parameters()
    after = word_costs(case)
    assert torch.equal(before.words, after.words)
    assert torch.equal(before.stops, after.stops)
    assert not torch.allclose(before.slots, after.slots)


def test_without_relations_places_are_not_seen():
    rows = batch_of([(1, 2, 3), (2, 1, 3)], order=torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]]))  # both place 1, 2, 3
    case = case_of(rows, order="given")
    seeing = word_costs(case).words
    assert not torch.allclose(seeing[0], seeing[1])
    for layer in case.model.stack.layers:
        layer.attention.relation.zero_()
    blind = word_costs(case).words
    torch.testing.assert_close(blind[0], blind[1])


def test_only_the_order_of_places_matters():
    case = case_of(given((1, 2, 3), every(range(3))), order="given")
    plain = word_costs(case)
    spread = word_costs(case, lambda tree: replace(tree, places=10 * tree.places))
    assert torch.equal(plain.words, spread.words)
    assert torch.equal(plain.slots, spread.slots)


def test_equal_words_are_placed_in_either_order_and_both_count():
    case = case_of(given((1, 1), [(0, 1), (1, 0)]), order="given")
    chains = case.model.chain(case.batch, RNG)
    assert chains.tolist() == [[1, 1, 1, 2, 0, 0], [1, 1, 1, 1, 0, 0]]
    assert [case.model.read(chain[:4]) for chain in chains.tolist()] == [[1, 1], [1, 1]]
    alone = case.scored("order")
    assert alone[0] != alone[1]
    both = case_of(batch_of([(1, 1)]), beam=2).scored("searched")
    torch.testing.assert_close(both[0], alone.logsumexp(0))


def test_no_boundary_is_ever_predicted_and_stop_has_the_token_of_the_task():
    case = case_of(order="l2r")
    log_probs, state = case.model.start(case.batch)
    assert log_probs.shape[1] == len(TINY.vocabulary)
    slots, _ = case.model.step(state, torch.ones(len(case.batch), dtype=torch.long))
    assert slots.shape[1] == 2
    assert slots[:, 1].tolist() == [0] * len(case.batch)  # the only slot
    assert (slots[:, STOP] == -torch.inf).all()


def test_raw_keys_are_two_actions_for_each_slot():
    case = case_of(order="r2l", raw_keys=True)
    _, state = case.model.start(case.batch)
    number = len(case.batch)
    for word, turn in ((1, 1), (2, 2), (3, 3)):
        keys, state = case.model.step(state, torch.full((number,), word))
        assert keys.shape[1] == 1 + 2 * turn
        _, state = case.model.step(state, torch.full((number,), 2 * turn))  # left of the last boundary
    assert case.model.read([1, 2, 2, 4, 3, 6]) == [1, 2, 3]
    assert case.model.read([1, 1, 2, 1, 3, 5]) == case.model.read([1, 2, 2, 3, 3, 2]) == [2, 3, 1]


def test_a_slot_is_worth_both_of_its_raw_keys():
    slots, keys = case_of(order="l2r"), case_of(order="l2r", raw_keys=True)
    ones = torch.ones(len(slots.batch), dtype=torch.long)
    found = []
    for case, step in ((slots, 1), (keys, 2)):
        _, state = case.model.start(case.batch)
        _, state = case.model.step(state, ones)
        _, state = case.model.step(state, step * ones)  # there is but one
        found.append(case.model.step(state, 2 * ones)[0][:, 1:])
    torch.testing.assert_close(found[1].view(len(ones), 2, -1).logsumexp(1), found[0])


def loss_of(case, phase=None, step=0, smoothing=0.0):
    training = Training(step, 100, 0, 1, RNG.fork(step), None, phase or {}, smoothing)
    return case.model.loss(case.batch, training)


def test_the_loss_is_a_mean_word_and_a_mean_slot():
    case = case_of(given((1, 2, 3), [(2, 0, 1)]), order="given")
    loss, costs = loss_of(case), word_costs(case)
    torch.testing.assert_close(loss.parts["words"], (costs.words.sum() + costs.stops.sum()) / 4)
    torch.testing.assert_close(loss.parts["slots"], costs.slots.sum() / 3)
    torch.testing.assert_close(loss.value, loss.parts["words"] + loss.parts["slots"])
    torch.testing.assert_close(-case.scored("order")[0], 4 * loss.parts["words"] + 3 * loss.parts["slots"])


def test_labels_of_words_alone_are_smoothed():
    rows = given((1, 2, 3), [(2, 0, 1)])
    plain, smooth = (loss_of(case_of(rows, order="given"), smoothing=share) for share in (0, 0.3))
    torch.testing.assert_close(plain.parts["slots"], smooth.parts["slots"])
    assert smooth.parts["words"] > plain.parts["words"]


def test_the_loss_of_several_orders_is_their_mean():
    rows = batch_of([(1, 2, 3), (4, 1, 4)])
    case = case_of(rows, beam=6)
    each = [
        loss_of(case_of(replace(rows, extras={"order": torch.tensor([[*order, 3]] * 2)}), order="given"))
        for order in every(range(3))
    ]  # fmt: skip
    torch.testing.assert_close(loss_of(case).value, torch.stack([one.value for one in each]).mean())


def test_one_order_drawn_has_the_loss_of_all_on_average():
    rows = batch_of([(1, 2, 3)] * 1000)
    one, whole = loss_of(case_of(rows, beam=6, orders="one")), loss_of(case_of(rows, beam=6))
    assert abs(one.value - whole.value) < 0.03 * whole.value
    alone = [
        loss_of(case_of(replace(rows.select(torch.tensor([row])), ids=rows.ids[[row]]), beam=6, orders="one")).value
        for row in range(12)
    ]
    assert len({round(value.item(), 9) for value in alone}) > 3


def test_the_end_has_a_slot_right_of_all_words_if_asked_for():
    rows = given((1, 2), [(1, 0), (0, 1)])
    without, with_it = (case_of(rows, order="given", eod_slot=ends) for ends in (False, True))
    torch.testing.assert_close(with_it.scored("order"), without.scored("order"))  # it is only learnt
    tree = prefixes(rows, rows.extras["order"][:, None])
    sources = without.model.encode(rows)
    ends = without.model._costs(rows, tree, sources, ends=True).ends
    _, state = without.model.start(rows)
    for actions in without.model.chain(rows, RNG).T[:4]:
        _, state = without.model.step(state, actions)
    slots = without.model._slots(state, torch.zeros(2, dtype=torch.long))
    torch.testing.assert_close(-ends[:, 0], slots[:, -1])
    plain, more = loss_of(without), loss_of(with_it)
    torch.testing.assert_close(more.parts["slots"] * 6, plain.parts["slots"] * 4 + ends.sum())


def test_phases_change_the_order():
    rows = batch_of([(1, 2, 3), (4, 2, 1)])
    case = case_of(rows, beam=3)
    first, then = loss_of(case, {"order": "l2r"}), loss_of(case, {"order": "searched", "beam": 2})
    torch.testing.assert_close(first.value, loss_of(case_of(rows, order="l2r")).value)
    torch.testing.assert_close(then.value, loss_of(case_of(rows, beam=2)).value)
    with pytest.raises(SuiteError, match="a phase of indigo has invalid settings: `order`"):
        loss_of(case, {"order": "lr2"})


def test_the_pointer_can_be_reset_by_its_name():
    case = case_of(order="l2r")
    weights = dict(case.model.named_modules())["pointer"].weight.clone()
    case.model.pointer.reset_parameters()
    assert not torch.allclose(case.model.pointer.weight, weights)
    size = 8
    for part in case.model.pointer.weight:
        assert part.abs().max() <= (6 / (2 * size)) ** 0.5


def test_search_has_the_noise_of_training_or_none():
    rows = batch_of([(1, 2, 3, 4, 1, 2)] * 6)
    found = {}
    for rng in (True, False):
        case = case_of(rows, beam=2, dropout=0.3, search_noise=rng)
        case.model.train()
        torch.manual_seed(0)
        sources = case.model.encode(rows)
        orders, _ = case.model._search(rows, sources, case.model.config)
        assert case.model.training
        found[rng] = len({tuple(map(tuple, row)) for row in orders.tolist()})
    assert found[False] == 1
    assert found[True] > 1


def test_a_search_leaves_no_gradient_and_the_loss_has_one():
    with torch.enable_grad():
        case = case_of(batch_of([(1, 2, 3)]), beam=2)
        for weights in case.model.parameters():
            weights.requires_grad_()
        loss_of(case).value.backward()
    assert case.model.encoder.embed.weight.grad.abs().sum() > 0
    assert case.model.pointer.weight.grad.abs().amax((1, 2)).min() > 0


def test_lengths_are_limited_by_the_source():
    case = case_of(order="l2r")
    assert case.model.limit(case.batch).tolist() == [2 * length + 10 for length in case.batch.source_length.tolist()]
    other = case_of(order="l2r", limit_ratio=0.5, limit_extra=0)
    assert other.model.limit(other.batch).tolist() == [max(1, n // 2) for n in other.batch.source_length.tolist()]
    grid = Case.of(IndigoConfig(**SMALL, order="l2r"), source=Source.GRID)
    assert grid.model.limit(grid.batch) is None


def test_a_prefix_is_refused():
    case = case_of(order="l2r")
    with pytest.raises(SuiteError, match="takes no prompt"):
        case.model.start(replace(case.batch, prompt=torch.zeros(len(case.batch), 2, dtype=torch.long)))


def test_one_vocabulary_is_asked_for_where_embeddings_are_shared():
    with pytest.raises(SuiteError, match=r"same vocabulary.*7 tokens, the target 5"):
        case_of(order="l2r", shared=True)
    with pytest.raises(SuiteError, match="has no tokens"):
        Case.of(IndigoConfig(**SMALL, shared=True), source=Source.GRID)


def test_orders_that_a_task_does_not_allow_are_refused_when_the_model_is_built():
    with pytest.raises(SuiteError, match="counts"):
        case_of(info=replace(TINY, counts=()), order="cf")


@pytest.mark.parametrize(
    "settings",
    [
        {"order": "lr"},
        {"d_model": 10, "heads": 4},
        {"beam": 0},
        {"orders": "two"},
        {"dropout": 1},
        {"cross_attention": "all"},
    ],
)
def test_settings_without_a_meaning_are_refused(settings):
    with pytest.raises(ValidationError):
        IndigoConfig(**settings)


def test_both_likelihoods_are_bounds():
    assert set(IndigoConfig.likelihoods.values()) == {Kind.BOUND}
    assert [config.name for config in bench_models()][:2] == ["indigo", "transformer"]


def test_the_face_of_the_plugin_imports_no_torch():
    code = "import sys, bench_indigo.plugin as p; p.IndigoConfig(); assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_of_size_t_t_e_is_made(monkeypatch):
    case = case_of(batch_of([tuple(1 + place % 4 for place in range(40))]), order="l2r")
    sizes = []
    addcmul = torch.addcmul

    def watched(scores, right, added):
        sizes.append((tuple(scores.shape), tuple(right.shape), tuple(added.shape)))
        return addcmul(scores, right, added)

    monkeypatch.setattr(torch, "addcmul", watched)
    case.scored("order")
    assert set(sizes) == {
        ((1, 2, 42, 42), (1, 1, 42, 42), (1, 2, 42, 1)),  # of the decoder
        ((1, 2, 1, 1), (1, 1, 1, 1), (1, 2, 1, 1)),  # of the encoder
    }
