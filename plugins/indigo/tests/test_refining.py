"""Decoders that insert into a canvas, on the Insertion Transformer and on models that know what they want."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
import torch

from bench_authors.testing import Case, catches, check_decoder, float64, tiny_batch
from bench_authors.testing.cases import one_row
from bench_core import STOP, PluginError, Prediction, Rng, Source, State, Training
from bench_indigo.plugin import (
    InsertGreedyConfig,
    InsertionTransformerConfig,
    InsertParallelConfig,
    OrderAgreementConfig,
)
from bench_indigo.refiner import Refiner
from bench_indigo.trajectory import order
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
GREEDY, PARALLEL = InsertGreedyConfig(max_tokens=6), InsertParallelConfig(max_tokens=6)
REOPENING = InsertParallelConfig(max_tokens=6, reopen=True)
by_decoder = pytest.mark.parametrize(
    "decoder", [GREEDY, PARALLEL, REOPENING], ids=["greedy", "parallel", "reopening"]
)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def case_of(decoder, source=Source.TOKENS, seed=0, **settings):
    """Return a case that prefers some slots, and sometimes stops."""
    bag = {"source_positions": "none"} if source is Source.BAG else {}
    config = InsertionTransformerConfig(**{**SMALL, **bag, **settings})
    case = Case.of(config, decoder, source=source, seed=seed, scale=1.6)
    case.model.query.copy_(Rng(seed).normal(torch.arange(8), 0, 1)[:, 0])
    return case


def decoded(decoder, model, batch):
    return [row[0] for row in decoder.load()(decoder).decode(model, batch, Rng(1))]


@pytest.mark.quick(4, 4)
@by_decoder
@pytest.mark.parametrize("source", [Source.TOKENS, Source.BAG, Source.VECTOR, Source.GRID])
def test_decoders_keep_their_contracts(decoder, source):
    assert len(check_decoder(case_of(decoder, source))) == 6


@by_decoder
def test_decoders_work_in_mixed_precision(decoder):
    case = case_of(decoder)
    with torch.autocast("cpu", torch.bfloat16):
        assert all(one.tokens or one.finished for one in decoded(decoder, case.model.float(), case.batch))


# ---- models that know what they want


@dataclass(frozen=True)
class Wishes(State):
    """The targets [N, T]."""

    gold: torch.Tensor


class Oracle(Refiner[Wishes]):
    """Knows a target without repetitions; asks for the middle of what is missing, most of all where most is missing."""

    def loss(self, batch, training):
        raise NotImplementedError

    def begin(self, batch):
        return Wishes(batch.gold)

    def refine(self, known, canvas, length):
        slots = torch.zeros(len(canvas), canvas.shape[1] + 1)
        words = torch.full((*slots.shape, 10), -9.0)
        for row, gold in enumerate(known.gold.tolist()):
            gold = gold[: gold.index(STOP)]
            ends = [-1, *(gold.index(token) for token in canvas[row, : length[row]].tolist()), len(gold)]
            for slot in range(len(ends) - 1):
                missing = gold[ends[slot] + 1 : ends[slot + 1]]
                slots[row, slot] = len(missing)
                words[row, slot, missing[len(missing) // 2] if missing else STOP] = -1.0
        behind = torch.arange(slots.shape[1]) > length[:, None]
        return slots.masked_fill(behind, -torch.inf).log_softmax(1), words

    def fill(self, vectors):
        return vectors.log_softmax(1)


class Changeable(Oracle):
    """Wants one word more on the left, after it has wanted none there."""

    wishes = {(): [4], (4,): [STOP, 2], (4, 2): [9, STOP, STOP]}

    def refine(self, known, canvas, length):
        words = torch.full((len(canvas), canvas.shape[1] + 1, 10), -9.0)
        for row, tokens in enumerate(canvas.tolist()):
            for slot, word in enumerate(self.wishes.get(tuple(tokens), [STOP] * (len(tokens) + 1))):
                words[row, slot, word] = -1.0
        return torch.zeros(words.shape[:2]).log_softmax(1), words


ROWS = [(1, 2, 3, 4, 5, 6, 7), (), (5,), (4, 2), (7, 1, 6, 3)]


def test_parallel_decoding_takes_as_many_passes_as_the_tree_is_deep():
    for one, target in zip(decoded(InsertParallelConfig(), Oracle(), tiny_batch(ROWS)), ROWS, strict=True):
        assert (one.tokens, one.finished, one.log_prob) == ([*target], True, None)
        assert one.values["calls"] == len(target).bit_length() + 1


def test_greedy_decoding_takes_a_pass_for_each_word():
    for one, target in zip(decoded(InsertGreedyConfig(), Oracle(), tiny_batch(ROWS)), ROWS, strict=True):
        assert (one.tokens, one.finished, one.log_prob) == ([*target], True, None)
        assert one.values["calls"] == len(target) + 1


def test_actions_tell_in_which_order_words_came():
    (greedy,), (parallel,) = (
        decoded(decoder, Oracle(), tiny_batch(ROWS[:1])) for decoder in (InsertGreedyConfig(), InsertParallelConfig())
    )
    for one in (greedy, parallel):
        assert one.actions == [4, 1, 2, 1, 6, 3, 1, 1, 3, 3, 5, 5, 7, 7]
        assert order(Prediction(0, hypotheses=[one]), False) == [3, 1, 5, 0, 2, 4, 6]


@by_decoder
def test_metrics_of_orders_can_read_the_actions(decoder):
    config = OrderAgreementConfig()
    found = case_of(decoder).decoded()
    predictions = [Prediction(number, hypotheses=row) for number, row in enumerate(found)]
    assert max(len(one.hypotheses[0].tokens) for one in predictions) > 2
    for prediction in predictions:
        assert sorted(order(prediction, False)) == [*range(len(prediction.hypotheses[0].tokens))]
    metric = config.load()(config)
    assert -1 <= metric.combine([*metric.measure(predictions)]) <= 1


@by_decoder
@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 8])
def test_limits_count_the_stop(decoder, most):
    decoder = decoder.model_copy(update={"max_tokens": most})
    for one, target in zip(decoded(decoder, Oracle(), tiny_batch(ROWS)), ROWS, strict=True):
        assert one.finished == (len(target) < most)
        assert len(one.tokens) == min(len(target), most)
        assert len(one.actions) == 2 * len(one.tokens)


@by_decoder
def test_the_limit_of_a_row_is_kept(decoder):
    case = case_of(decoder, limit_ratio=0.0, limit_extra=2)
    lengths = [len(one.tokens) + one.finished for (one,) in case.decoded()]
    assert max(lengths) == 2


@catches(lambda decoder: REOPENING)
def a_slot_that_is_left_stays_as_it_is(decoder):
    (one,) = decoded(decoder, Changeable(), tiny_batch([()]))
    assert one.tokens == [4, 2]
    assert one.finished


def test_finished_slots_stay_closed_unless_they_may_reopen():
    a_slot_that_is_left_stays_as_it_is(PARALLEL)
    for mutant in a_slot_that_is_left_stays_as_it_is.mutants:
        with pytest.raises(AssertionError):
            a_slot_that_is_left_stays_as_it_is(mutant(PARALLEL))


# ---- the search as it is told, one row and one slot at a time


def slowly(decoder, model, batch):
    """Return tokens, whether they are finished, and actions, of a batch of one row."""
    canvas, closed, actions = [], [False], []
    limit = min(decoder.max_tokens, int(model.limit(batch)))
    while len(canvas) < limit:
        slots, vectors = model.refine(
            model.begin(batch), torch.tensor([canvas], dtype=torch.long), torch.tensor([len(canvas)])
        )
        wishes = []
        for slot in range(len(canvas) + 1):
            log_probs = model.fill(vectors[0, slot][None])[0]
            log_probs[STOP] -= decoder.penalty
            word = int(log_probs.argmax())
            if word == STOP:
                closed[slot] = closed[slot] or not getattr(decoder, "reopen", True)
            elif not closed[slot]:
                wishes.append((slots[0, slot].item() + log_probs[word].item(), slot, word))
        if not wishes:
            return canvas, True, actions
        if isinstance(decoder, InsertGreedyConfig):
            wishes = [max(wishes)]
        for turn, (_, slot, word) in enumerate(wishes[: limit - len(canvas)]):
            canvas.insert(slot + turn, word)
            closed.insert(slot + turn, False)
            actions += [word, slot + turn + 1]
    return canvas, False, actions


@pytest.fixture(scope="module")
def learnt():
    """Return a case of a model that knows its batch by heart."""
    with float64():
        config = InsertionTransformerConfig(
            d_model=16,
            heads=2,
            layers=1,
            feed_forward=32,
            dropout=0,
            source_positions="sinusoidal",
        )
        batch = tiny_batch([(1, 2, 3), (4,), (), (2, 1, 4, 3)], source=Source.TOKENS)
        case = Case.of(config, batch=batch, source=Source.TOKENS, scale=1.0)
        many = replace(batch.select(torch.arange(32) % 4), ids=torch.arange(32))
        (optimizer,) = optimizers(case.model, TrainingConfig(lr=0.01), batch.ids.device)
        for step in range(150):
            optimizer.zero_grad()
            case.model.loss(many, Training(step, 150, 0, 1, Rng(step))).value.backward()
            optimizer.step()
        return case


@by_decoder
def test_what_has_been_learnt_by_heart_comes_out(learnt, decoder):
    found = decoded(decoder, learnt.model, learnt.batch)
    assert [(*one.tokens,) for one in found] == [(1, 2, 3), (4,), (), (2, 1, 4, 3)]
    assert all(one.finished for one in found)


def test_what_is_in_the_middle_comes_first(learnt):
    """Binary weights make it so."""
    first = decoded(GREEDY, learnt.model, learnt.batch)[0]
    assert first.actions[:2] == [2, 1]


@by_decoder
def test_a_penalty_makes_outputs_longer(learnt, decoder):
    lengths = []
    for penalty in (0.0, 9.0, 100.0):
        changed = decoder.model_copy(update={"penalty": penalty})
        lengths.append([len(one.tokens) for one in decoded(changed, learnt.model, learnt.batch)])
    assert lengths[0] == [3, 1, 0, 4]
    assert lengths[2] == [6, 6, 6, 6]
    assert sum(lengths[0]) < sum(lengths[1]) < sum(lengths[2])


@pytest.mark.parametrize("penalty", [0.0, 1.5])
@by_decoder
def test_decoding_is_what_it_is_one_slot_after_the_other(learnt, decoder, penalty):
    """By weights that are somewhat off what was learnt, with a preference for some slots."""
    decoder, ends = decoder.model_copy(update={"penalty": penalty, "max_tokens": 9}), set()
    for seed in range(4):
        model = deepcopy(learnt.model)
        torch.manual_seed(seed)
        for weights in model.parameters():
            weights.add_(0.2 * torch.randn_like(weights))
        model.query.normal_()
        batch = tiny_batch([()] * 6, source=Source.TOKENS, first=60 + 6 * seed)
        for row, one in enumerate(decoded(decoder, model, batch)):
            wanted = slowly(decoder, model, one_row(batch, row))
            assert (one.tokens, one.finished, one.actions) == wanted
            ends.add((len(one.tokens), one.finished))
    assert len(ends) > 4, "the case must bite"


@by_decoder
@pytest.mark.parametrize("method", ["refine", "fill"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, 0.5])
def test_what_is_no_distribution_is_never_decoded(decoder, method, value):
    case = case_of(decoder)
    ask = getattr(case.model, method)

    def broken(*given):
        found = ask(*given)
        log_probs = (found[0] if method == "refine" else found).clone()
        log_probs[-1, 0] = value
        return (log_probs, found[1]) if method == "refine" else log_probs

    setattr(case.model, method, broken)
    with pytest.raises(PluginError, match=f"bench-indigo: InsertionTransformer.{method} gave .* at step 1"):
        case.decoded()
