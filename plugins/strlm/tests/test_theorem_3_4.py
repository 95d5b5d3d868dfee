"""Theorem 3.4 of Welleck et al. (2020) as code: a recurrent network that greedy choice and its like never end.

The construction needs two conditions more than the paper states: the top units must not die out, which takes a spectral
radius of W_h above 1, and they must outweigh what the slot of stop begins with.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt, tanh

import pytest
import torch
from torch import Tensor

from bench_authors.testing import catches
from bench_core import STOP, Batch, Loss, Rng, State, Stepper, TaskInfo, Training
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    TopKConfig,
)
from bench_strlm.consistency import Consistency
from bench_strlm.plugin import ConsistencyConfig, ConstructionConfig

A, B = 1, 2  # the words
LEAST, MOST = 0.0046, 0.06338  # of p(stop), whatever is generated


@dataclass(frozen=True)
class Units(State):
    top: Tensor  # [N, 2]
    slots: Tensor  # [N, 3] one for each token


class Construction(Stepper[Units]):
    """h = (top | slots) becomes tanh(blockdiag(W, I) h + (0 | one-hot y)); a token's logit is u . top + its slot."""

    def __init__(self, weight: float = 1.0, sight: float = 1.0, slots: tuple[float, ...] = (0.5, 0.5, 0.5)) -> None:
        self.weight = torch.full((2, 2), weight, dtype=torch.float64)
        self.sight = torch.tensor([[-sight] * 2, [sight] * 2, [sight] * 2], dtype=torch.float64)  # u of stop, a, b
        self.slots = torch.tensor(slots, dtype=torch.float64)

    def start(self, batch: Batch) -> tuple[Tensor, Units]:
        number = len(batch)
        return self._look(Units(self.slots.new_full((number, 2), 0.5), self.slots.expand(number, 3)))

    def step(self, state: Units, actions: Tensor) -> tuple[Tensor, Units]:
        assert (actions > 0).all()
        read = torch.eye(3, dtype=torch.float64)[actions]
        return self._look(Units((state.top @ self.weight).tanh(), (state.slots + read).tanh()))

    def _look(self, state: Units) -> tuple[Tensor, Units]:
        return self.logits(state).log_softmax(1), state

    def logits(self, state: Units) -> Tensor:
        return state.top @ self.sight.T + state.slots

    def loss(self, batch: Batch, training: Training) -> Loss:
        raise NotImplementedError


def contexts(rows):
    ids = torch.arange(rows)
    return Batch(ids, ids[:, None] * 0, ids[:, None] * 0, torch.ones_like(ids))


def decoded(decoder, rows=1, model=None):
    found = decoder.load()(decoder).decode(model or Construction(), contexts(rows), Rng(1))
    return [one for (one,) in found]


def greedily(model, steps):
    """Return logits [3] and probabilities [3] before each step of greedy choice."""
    log_probs, state = model.start(contexts(1))
    seen = [(model.logits(state)[0], log_probs[0].exp())]
    for _ in range(steps - 1):
        log_probs, state = model.step(state, log_probs.argmax(1))
        seen.append((model.logits(state)[0], log_probs[0].exp()))
    return seen


# mistakes: each is handed the construction, and returns one that takes its place

OTHER_SLOTS = (0.9, 0.1, 0.1)


def lets_the_top_units_die_out(build):
    """W of .25, so that d w is 1/2: the paper does not ask for a spectral radius above 1."""
    return lambda: build(weight=0.25, slots=OTHER_SLOTS)


def lets_the_slot_of_stop_outweigh_the_top_units(build):
    """Nor does it ask for |u of stop . top| above what the slot of stop begins with."""
    return lambda: build(sight=0.01, slots=OTHER_SLOTS)


def reads_before_it_predicts(build):
    """h0 goes through tanh before the first prediction."""

    class Wrong(build):
        def start(self, batch):
            _, state = super().start(batch)
            return self._look(Units((state.top @ self.weight).tanh(), state.slots.tanh()))

    return Wrong


def adds_what_is_read_outside_of_tanh(build):
    class Wrong(build):
        def step(self, state, actions):
            read = torch.eye(3, dtype=torch.float64)[actions]
            return self._look(Units((state.top @ self.weight).tanh(), state.slots.tanh() + read))

    return Wrong


# laws


@catches(reads_before_it_predicts, adds_what_is_read_outside_of_tanh, lets_the_top_units_die_out)
def the_first_steps_have_the_numbers_worked_out_by_hand(build):
    (logits, probs), (after, then) = greedily(build(), 2)
    assert logits.tolist() == pytest.approx([-0.5, 1.5, 1.5], abs=1e-12)
    assert probs.tolist() == pytest.approx([0.06338, 0.46831, 0.46831], abs=1e-5)
    assert after.tolist() == pytest.approx([-1.0611, 2.4283, 1.9853], abs=1e-4)
    assert then.tolist() == pytest.approx([0.01825, 0.59787, 0.38388], abs=1e-5)


@catches(lets_the_top_units_die_out)
def the_top_units_settle_where_the_notes_say(build):
    model = build()
    _, state = model.start(contexts(1))
    for _ in range(60):
        _, state = model.step(state, torch.tensor([A]))
    assert state.top[0].tolist() == pytest.approx([0.9575] * 2, abs=1e-4)


@catches(lets_the_top_units_die_out, lets_the_slot_of_stop_outweigh_the_top_units)
def stop_is_ranked_last_for_300_000_steps_whatever_is_generated(build):
    """Of words the one that is never read has the lowest slot: three numbers tell all."""
    model = build()
    _, state = model.start(contexts(1))
    weight, sight = 2 * model.weight[0, 0].item(), 2 * model.sight[A, 0].item()  # of two top units
    top, stop, word = 0.5, model.slots[STOP].item(), model.slots[B].item()
    for step in range(300_000):
        if step < 40:  # the three numbers are those of the network
            logits = model.logits(state)[0, [STOP, B]].tolist()
            assert logits == pytest.approx([stop - sight * top, word + sight * top], abs=1e-12)
            _, state = model.step(state, torch.tensor([A]))
        assert stop - sight * top < word + sight * top
        top, stop, word = tanh(weight * top), tanh(stop), tanh(word)
    assert top == tanh(weight * top), "it has settled for good"


@pytest.mark.parametrize(
    ("choose", "most_words"),
    [(lambda step, slots: slots.index(max(slots)), False), (lambda step, slots: step % 2, True)],
)
def test_the_probability_of_stop_stays_within_its_interval_for_300_000_steps(choose, most_words):
    """Of greedy choice, which repeats one word, and of two words in turn, than which nothing leaves stop less."""
    top, stop, slots, least, most = 0.5, 0.5, [0.5, 0.5], 1.0, 0.0
    for step in range(300_000):
        probability = exp(stop - 2 * top) / (exp(stop - 2 * top) + exp(2 * top) * (exp(slots[0]) + exp(slots[1])))
        least, most = min(least, probability), max(most, probability)
        chosen = choose(step, slots)
        top, stop, slots = tanh(2 * top), tanh(stop), [tanh(slot + (n == chosen)) for n, slot in enumerate(slots)]
    assert LEAST < least < most < MOST
    assert (least < LEAST + 1e-4) == most_words, "the interval is no wider than it must be"


@catches(lets_the_top_units_die_out, lets_the_slot_of_stop_outweigh_the_top_units)
def the_probability_of_stop_stays_within_its_interval_whatever_is_generated(build):
    words = 1 + (Rng(2).uniform(torch.arange(40), 0, 300) < 0.5).long()
    model = build()
    log_probs, state = model.start(contexts(40))
    for chosen in words.T:
        assert (log_probs[:, STOP].exp() > LEAST).all()
        assert (log_probs[:, STOP].exp() < MOST).all()
        assert (log_probs.argmin(1) == STOP).all()
        log_probs, state = model.step(state, chosen)


LAWS = (
    the_first_steps_have_the_numbers_worked_out_by_hand,
    the_top_units_settle_where_the_notes_say,
    stop_is_ranked_last_for_300_000_steps_whatever_is_generated,
    the_probability_of_stop_stays_within_its_interval_whatever_is_generated,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_construction_keeps_its_laws(law):
    law(Construction)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(Construction))


# decoders

PLAIN = {ConsistentTopKConfig: TopKConfig, ConsistentNucleusConfig: NucleusConfig}
CONSISTENT = {plain: kind for kind, plain in PLAIN.items()}
INCOMPLETE = [
    GreedyConfig(max_tokens=300),
    BeamConfig(max_tokens=300, width=2, finish="first"),
    BeamConfig(max_tokens=300, width=2, finish="k"),
    TopKConfig(max_tokens=300, k=2),
    NucleusConfig(max_tokens=300, mass=0.2),
    NucleusConfig(max_tokens=300, mass=0.93),
]
COMPLETE = [
    AncestralConfig(max_tokens=2000),
    ConsistentTopKConfig(max_tokens=2000, k=1),
    ConsistentTopKConfig(max_tokens=2000, k=2),
    ConsistentNucleusConfig(max_tokens=2000, mass=0.2),
]


def settings(decoder):
    return "-".join(map(str, [decoder.name, *decoder.model_dump().values()]))


def never_ends(decoder, build=Construction):
    found = decoded(decoder, 20 if isinstance(decoder, TopKConfig | NucleusConfig) else 1, build())
    assert {(one.finished, len(one.tokens)) for one in found} == {(False, 300)}


def always_ends(decoder):
    lengths = torch.tensor([len(one.tokens) + one.finished for one in decoded(decoder, rows=100)]).double()
    assert lengths.max() < decoder.max_tokens
    assert lengths.mean() < 1 / LEAST + 4 * lengths.std() / sqrt(100)


@pytest.mark.parametrize("decoder", INCOMPLETE, ids=settings)
def test_incomplete_decoding_never_ends(decoder):
    never_ends(decoder)
    with pytest.raises(AssertionError):
        never_ends(decoder, lets_the_slot_of_stop_outweigh_the_top_units(Construction))


@pytest.mark.parametrize("decoder", INCOMPLETE[3:], ids=settings)
def test_a_set_that_stop_may_join_ends(decoder):
    opens_stop = CONSISTENT[type(decoder)](**decoder.model_dump())
    with pytest.raises(AssertionError):
        never_ends(opens_stop)


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize("decoder", COMPLETE, ids=settings)
def test_the_model_itself_and_consistent_decoding_always_end(decoder):
    always_ends(decoder)


@pytest.mark.parametrize("decoder", COMPLETE[1:], ids=settings)
def test_a_set_that_stop_cannot_join_does_not(decoder):
    leaves_stop_out = PLAIN[type(decoder)](**decoder.model_dump() | {"max_tokens": 300})
    with pytest.raises(AssertionError):
        always_ends(leaves_stop_out)


def test_a_nucleus_is_covered_only_while_words_alone_hold_more_than_its_mass():
    """At first p(stop) is .0634: with a mass of .94 stop is in the set (footnote 1 of the paper)."""
    found = decoded(NucleusConfig(max_tokens=30, mass=0.94), rows=200)
    ended = [len(one.tokens) for one in found if one.finished]
    assert 0 < len(ended) < 40
    assert set(ended) == {0}, "at no later step"


def test_without_a_spectral_radius_above_one_the_top_units_die_out():
    """W of .25, so that d w is 1/2: stop rises above zero at once, and is not last after two steps."""
    seen = greedily(Construction(weight=0.25, slots=OTHER_SLOTS), 3)
    ranks = [int((logits < logits[STOP]).sum()) for logits, _ in seen]
    assert seen[0][0][STOP] < 0 < seen[1][0][STOP]
    assert ranks[:2] == [0, 0]
    assert ranks[2] > 0


def test_where_the_slot_of_stop_outweighs_the_top_units_stop_is_first():
    ((logits, probs),) = greedily(Construction(sight=0.01, slots=OTHER_SLOTS), 1)
    assert logits.argmax() == STOP
    assert probs[STOP].item() == pytest.approx(0.5217, abs=1e-4)
    (found,) = decoded(GreedyConfig(max_tokens=300), model=Construction(sight=0.01, slots=OTHER_SLOTS))
    assert (found.tokens, found.finished) == ([], True)


def test_the_same_slots_do_not_help_stop_where_both_conditions_hold():
    (found,) = decoded(GreedyConfig(max_tokens=300), model=Construction(slots=OTHER_SLOTS))
    assert not found.finished


# the model of the plugin, which suites run


@pytest.mark.parametrize(("radius", "sight"), [(2.0, 1.0), (0.5, 1.0), (2.0, 0.01)])
def test_the_model_of_the_plugin_is_the_construction(radius, sight):
    """Of the same three tokens, after the stop that every opening begins with, and after any words."""
    model = ConstructionConfig(radius=radius, sight=sight)
    found = model.load()(model, TaskInfo(["</s>", "a", "b"])).eval()
    own = Construction(weight=radius / 2, sight=sight, slots=OTHER_SLOTS)
    words = 1 + (Rng(3).uniform(torch.arange(8), 0, 60) < 0.5).long()
    with torch.no_grad():
        log_probs, state = found.start(contexts(8))
        expected, units = own.start(contexts(8))
        for chosen in words.T:
            assert torch.allclose(log_probs.double(), expected, atol=1e-5)
            log_probs, state = found.step(state, chosen)
            expected, units = own.step(units, chosen)


def test_the_probe_knows_its_own_samples_and_nothing_of_greedy_choice():
    model = ConstructionConfig()
    found = model.load()(model, TaskInfo(["</s>", "a", "b"])).eval()
    probe = Consistency(ConsistencyConfig(limit=3000))
    with torch.no_grad():
        complete = probe.statement(found, ConsistentTopKConfig(k=1, max_tokens=3000), [contexts(8)])
        incomplete = probe.statement(found, GreedyConfig(max_tokens=3000), [contexts(8)])
    assert complete.source.startswith("Theorem 4.1")
    assert complete.holds
    assert incomplete.says.startswith("nothing is proven: some models of this kind never emit EOS")
