"""The Insertion Transformer: what its slots are, and what it learns of them."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import cross_entropy

from bench_authors.testing import Case, catches, check_model, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import STOP, Rng, Source, SuiteError, Training
from bench_core.suites.check import misfit
from bench_decoders.plugin import GreedyConfig
from bench_indigo.canvas import InsertionTransformer
from bench_indigo.plugin import InsertGreedyConfig, InsertionTransformerConfig, InsertParallelConfig
from bench_indigo.spans import canvas, sample_canvas_mask
from bench_metrics.plugin import PerplexityConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 2, "feed_forward": 12}
RNG = Rng(7)
QUICK = [one for one in MODEL_CONTRACTS if str(one) != "eight_examples_can_be_learnt_by_heart"]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def case_of(source=Source.TOKENS, **settings):
    """Return a case that has learnt which slots it prefers."""
    case = Case.of(InsertionTransformerConfig(**{**SMALL, **settings}), source=source)
    case.model.query.normal_()
    return case


def looked(case, *rows):
    """Return log p(slot) and log p(word | slot) of canvases about the first source."""
    width = max(map(len, rows))
    table = torch.tensor([[*row, *[3] * (width - len(row))] for row in rows], dtype=torch.long).view(len(rows), -1)
    batch = case.batch.select(torch.zeros(len(rows), dtype=torch.long))
    length = torch.tensor([len(row) for row in rows])
    slots, vectors = case.model.refine(case.model.begin(batch), table, length)
    return slots, case.model.fill(vectors)


def loss_of(case, batch=None, step=0, smoothing=0.0):
    training = Training(step, 9, 0, 1, RNG.fork(step), label_smoothing=smoothing)
    return case.model.loss(case.batch if batch is None else batch, training)


def test_the_model_keeps_all_contracts():
    check_model(case_of(dropout=0.2, layers=1))


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "uniform", "joint": True},
        {"cross_attention": "forward", "tied": False, "source_positions": "sinusoidal", "tau": 0.5},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_model_keeps_the_quick_contracts(settings):
    assert len(check(QUICK, case_of(**settings))) >= 8


@pytest.mark.quick(1)
@pytest.mark.parametrize("source", [Source.BAG, Source.GRID, Source.VECTOR])
def test_the_model_keeps_the_quick_contracts_with_every_source(source):
    bag = {"source_positions": "none"} if source is Source.BAG else {}
    assert len(check(QUICK, case_of(source, **bag))) >= 8


def test_it_has_no_likelihood_and_builds_no_chain():
    config = InsertionTransformerConfig(**SMALL)
    needs = "perplexity needs a Scorer (score); insertion-transformer is a Refiner."
    assert misfit(PerplexityConfig(), config) == needs
    assert "insertion-transformer is a Refiner" in misfit(GreedyConfig(), config)
    for decoder in (InsertGreedyConfig(), InsertParallelConfig()):
        assert misfit(decoder, config) is None


def test_all_words_of_all_slots_together_have_probability_one():
    slots, words = looked(case_of(), [1, 4, 2], [], [3])
    assert (slots == -torch.inf).sum(1).tolist() == [0, 3, 2]
    total = (slots[:, :, None] + words).flatten(1).logsumexp(1)
    torch.testing.assert_close(total, torch.zeros(3))


def test_slots_are_alike_until_it_learns_otherwise():
    case = Case.of(InsertionTransformerConfig(**SMALL), source=Source.TOKENS)
    slots, _ = looked(case, [1, 4, 2], [])
    torch.testing.assert_close(slots[0], torch.full((4,), -log(4)))
    assert slots[1, 0] == 0


def test_what_is_behind_a_canvas_changes_nothing():
    case = case_of()
    together = looked(case, [1, 4, 2], [], [3])
    for row, tokens in enumerate([[1, 4, 2], [], [3]]):
        for found, wanted in zip(looked(case, tokens), together, strict=True):
            torch.testing.assert_close(found[0], wanted[row, : len(tokens) + 1])


def test_every_slot_sees_all_of_the_canvas_and_its_order():
    case = case_of()
    before, *others = looked(case, [1, 4, 2], [1, 4, 3], [3, 4, 2], [4, 1, 2])[1]
    for other in others:
        assert ((other - before).abs().amax(1) > 1e-3).all()


class Turned(InsertionTransformer):
    """A slot is built from its right side, then its left one."""

    def refine(self, known, canvas, length):
        slots, vectors = super().refine(known, canvas, length)
        return slots, vectors.roll(self.config.d_model, 2)


@catches(lambda kind: Turned)
def the_first_half_of_a_slot_is_what_is_on_its_left(kind):
    """Shown by a model whose items see nothing but themselves, and whose W or W' reads but one half."""
    case = case_of()
    model = kind(case.config, case.info)
    model.load_state_dict(case.model.state_dict())
    case = replace(case, model=model.eval())
    for layer in model.stack.layers:
        layer.attention.outward.weight.zero_()
    width = case.config.d_model
    weights = [matrix.weight.clone() for matrix in (model.gather, model.place)]
    for half, changed in ((slice(width, None), [3]), (slice(0, width), [2])):  # what is shut, and which slots change
        for matrix, weight in zip((model.gather, model.place), weights, strict=True):
            matrix.weight.copy_(weight)
            matrix.weight[:, half] = 0
        slots, words = looked(case, [1, 4, 2], [1, 4, 3])
        differing = (words[0] - words[1]).abs().amax(1) > 1e-9
        assert differing.nonzero()[:, 0].tolist() == changed, f"slots {differing.nonzero()[:, 0].tolist()} changed"
        odds = slots - slots[:, :1]
        assert ((odds[0] - odds[1]).abs() > 1e-9).nonzero()[:, 0].tolist() == changed


def test_a_slot_is_its_left_side_and_its_right_side():
    the_first_half_of_a_slot_is_what_is_on_its_left(InsertionTransformer)


@pytest.mark.parametrize("mutant", the_first_half_of_a_slot_is_what_is_on_its_left.mutants)
def test_sides_that_are_exchanged_are_found_out(mutant):
    with pytest.raises(AssertionError):
        the_first_half_of_a_slot_is_what_is_on_its_left(mutant(InsertionTransformer))


def test_the_loss_of_a_finished_canvas_is_the_mean_cost_of_stopping():
    case = case_of()
    batch = case.batch
    words, slots = case.model.costs_of(batch, torch.arange(batch.gold.shape[1]) < batch.length[:, None] - 1)
    for row, (gold, length) in enumerate(zip(batch.gold.tolist(), batch.length.tolist(), strict=True)):
        one = replace(case, batch=one_row(batch, row))
        log_slots, log_probs = looked(one, gold[: length - 1])
        assert len(log_probs[0]) == length
        torch.testing.assert_close(words[row], -log_probs[0, :, STOP].mean())
        torch.testing.assert_close(slots[row], -log_slots.mean())


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("settings", [{"loss": "uniform"}, {"tau": 0.6}, {"joint": True}], ids=lambda one: str(*one))
def test_the_loss_is_what_it_is_slot_by_slot_and_word_by_word(settings, smoothing):
    case = case_of(**settings)
    tau = None if "loss" in settings else settings.get("tau", 1.0)
    for step in range(3):
        total, keep = 0.0, sample_canvas_mask(case.batch, RNG.fork(step))
        for row, length in enumerate(case.batch.length.tolist()):
            batch = one_row(case.batch, row)
            mean = slowly(case.model, batch, keep[row, :length], tau, smoothing, "joint" in settings)
            total += length * mean
        loss = loss_of(case, step=step, smoothing=smoothing)
        assert loss.value.item() == pytest.approx(total.item() / loss.weight.item(), rel=1e-9)


def slowly(model, batch, keep, tau, smoothing, joint):
    """Return the mean over the slots of one canvas."""
    gold = batch.gold[0, :-1].tolist()
    slots, vectors = model.refine(model.begin(batch), *canvas(batch.gold, keep[None]))
    log_probs, cost, slot, span = model.fill(vectors), 0.0, 0, []
    for place in range(len(gold) + 1):
        if place < len(gold) and not keep[place]:
            span.append(place)
            continue
        middle = sum(span) / max(1, len(span))
        near = torch.tensor([0.0 if tau is None else -abs(middle - one) / tau for one in span]).softmax(0).tolist()
        for weight, word in zip(near, [gold[one] for one in span], strict=True) if span else [(1, STOP)]:
            cost += weight * cross_entropy(log_probs[0, slot], torch.tensor(word), label_smoothing=smoothing)
        cost -= slots[0, slot] if joint else 0.0
        slot, span = slot + 1, []
    return cost / slot


def test_uniform_weights_are_those_of_a_tau_beyond_all_bounds():
    uniform, far = (case_of(**settings) for settings in ({"loss": "uniform"}, {"tau": 1e12}))
    torch.testing.assert_close(loss_of(uniform).value, loss_of(far).value)
    assert not torch.allclose(loss_of(case_of()).value, loss_of(uniform).value)


def test_losses_of_batches_add_up():
    case = case_of()
    parts = [loss_of(case, case.batch.select(torch.tensor(rows))) for rows in ([0, 3], [1], [2, 4])]
    whole = loss_of(case)
    torch.testing.assert_close(sum(part.value * part.weight for part in parts), whole.value * whole.weight)


@pytest.mark.parametrize("joint", [True, False])
def test_only_a_joint_loss_teaches_which_slot(joint):
    case = case_of(joint=joint)
    with torch.enable_grad():
        loss = loss_of(case)
        loss.value.backward()
    for weights in (case.model.query, case.model.place.weight):
        assert joint == (weights.grad is not None and bool(weights.grad.any()))
    assert case.model.gather.weight.grad.any()
    if joint:
        torch.testing.assert_close(loss.parts["words"] + loss.parts["slots"], loss.value)


def test_it_learns_from_another_part_of_a_target_at_every_update():
    case = case_of()
    assert len({loss_of(case, step=step).value.item() for step in range(5)}) == 5


def test_a_bag_gives_the_same_whatever_its_order():
    info = tiny_info(Source.BAG)
    batch = replace(
        tiny_batch([(1, 2, 3)] * 2, prefix=0),
        source=torch.tensor([[1, 2, 3, 2], [2, 3, 2, 1]]),
        source_length=torch.tensor([4, 4]),
    )
    for given, alike in ((info, True), (tiny_info(Source.TOKENS), False)):
        case = Case.of(InsertionTransformerConfig(**SMALL), info=given, batch=batch, source=Source.BAG)
        _, vectors = case.model.refine(case.model.begin(batch), *canvas(batch.gold, batch.gold == 2))
        words = case.model.fill(vectors)
        assert torch.allclose(words[0], words[1], rtol=1e-9) == alike


def test_a_prefix_is_refused():
    case = case_of()
    batch = tiny_batch(source=Source.TOKENS, prefix=2)
    for use in (lambda: loss_of(case, batch), lambda: case.model.begin(batch)):
        with pytest.raises(SuiteError, match=r"insertion-transformer .* takes no prompt"):
            use()


def test_a_tau_without_a_tree_is_refused():
    with pytest.raises(ValidationError, match="`tau` applies only to `loss: binary`"):
        InsertionTransformerConfig(loss="uniform", tau=2)
    assert InsertionTransformerConfig(loss="uniform").spread is None
    assert InsertionTransformerConfig().spread == 1
