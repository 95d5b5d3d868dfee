"""The certificate: which theorem covers what, that its bounds bound, its premises fail where they should, and its report."""

from __future__ import annotations

import re
from copy import deepcopy
from math import exp, log1p, sqrt
from textwrap import dedent

import pytest
import torch

import bench_core
from bench_authors.testing import Case, patched, tiny_batch, toys
from bench_core import STOP, Batch, Rng, Statement
from bench_core.registry import extra
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    ExhaustiveConfig,
    GreedyConfig,
    MinPConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
    bench_decoders,
)
from bench_reports.render.report import write_report
from bench_rnn.plugin import RNNLMConfig
from bench_strlm import bounds
from bench_strlm.consistency import METRIC, Consistency, first_bounded_step, last_step
from bench_strlm.magnitudes import logits_of, magnitudes, min_log_stop
from bench_strlm.plugin import ConsistencyConfig, SelfTerminatingRNNLMConfig
from bench_strlm.survival import Survival

MOST = 100  # tokens of an output


def self_terminating(epsilon=0.01, **settings):
    return Case.of(SelfTerminatingRNNLMConfig(**{"cell": "lstm", "hidden": 6, "epsilon": epsilon} | settings)).model


def softmax(**settings):
    return Case.of(RNNLMConfig(**{"cell": "lstm", "hidden": 6} | settings)).model


def smoothed(model):
    """Return the model with an output layer so flat that stop cannot become improbable."""
    with torch.no_grad():
        logits_of(model).weight.mul_(0.2)
    return model


def late(epsilon, words=4, seed=0):
    """Return a self-terminating model that stops as late as it can and chooses words at random, its own each time."""
    config = SelfTerminatingRNNLMConfig(cell="tanh", hidden=4, epsilon=epsilon)
    model = Case.of(config, info=bench_core.TaskInfo(["</s>", *map(str, range(words))]), seed=seed, scale=3).model
    with torch.no_grad():
        logits_of(model).weight[STOP] = 0
        logits_of(model).bias[STOP] = 30
    return model


def checked(model, decoder, limit=MOST, batches=None):
    with torch.no_grad():
        return Consistency(ConsistencyConfig(limit=limit)).statement(model, decoder, batches or [contexts(5)])


def least_bound(model, temperature=1.0, tokens=MOST):
    with torch.no_grad():
        units = magnitudes(model, logits_of(model), tokens).units
        return min_log_stop(logits_of(model), units, temperature)


def holds(finding):
    return [premise.holds for premise in finding.premises]


def contexts(rows):
    ids = torch.arange(rows)
    return Batch(ids, torch.stack([ids * 0, 1 + ids % 4], 1), ids[:, None] * 0, torch.ones_like(ids))


def decoded(decoder, model, rows):
    with torch.no_grad():
        return [row[0] for row in decoder.load()(decoder).decode(model, contexts(rows), Rng(4))]


# which theorem


def endless(first):
    chance = bounds.log_no_stop(0.01, MOST, first, rounding=2 * (5 + 256) * 2.0**-52)
    return f"P(no EOS in 100) < {bounds.format_exp(chance, up=True)}"


PROMISED, ANY = (0.0, 0.0), None
SEARCHES = [
    (GreedyConfig(max_tokens=MOST), "Theorem 4.2", 69),
    (GreedyConfig(max_tokens=69), "Theorem 4.2", 69),
    (BeamConfig(max_tokens=MOST, width=3, finish="first"), "Theorem 4.3", 69),
    (BeamConfig(max_tokens=MOST, width=3, finish="k"), "Theorem 4.3", 71),
    (BeamConfig(max_tokens=MOST, width=3, finish="k", alpha=0.7, outputs=2), "Theorem 4.3", 71),
    (BeamConfig(max_tokens=MOST, width=32, finish="k"), "Theorem 4.3", 100),
]
TOO_SHORT = [
    (GreedyConfig(max_tokens=68), "Theorem 4.2", 68, 69),
    (BeamConfig(max_tokens=68, width=3, finish="first"), "Theorem 4.3", 68, 69),
    (BeamConfig(max_tokens=MOST, width=33, finish="k"), "Theorem 4.3", 100, 101),
]
OF_NO_THEOREM = [
    BeamConfig(max_tokens=MOST, width=3, finish="exhausted"),
    BeamConfig(max_tokens=MOST, width=3, finish="first", count_stop=False),
    BeamConfig(max_tokens=MOST, width=3, candidates="finished_and_alive"),
    BeamConfig(max_tokens=MOST, width=3, candidates="all_prefixes"),
    ExhaustiveConfig(max_tokens=MOST),
    TemperatureConfig(max_tokens=MOST, temperature=1.5),
    TopKConfig(max_tokens=MOST, k=2, temperature=1.5),
    ConsistentTopKConfig(max_tokens=MOST, k=2, temperature=1.5),
]
SAMPLERS = [
    (AncestralConfig(max_tokens=MOST), endless(1)),
    (ConsistentTopKConfig(max_tokens=MOST, k=1), endless(1)),
    (ConsistentNucleusConfig(max_tokens=MOST, mass=0.2), endless(1)),
    (ConsistentTopKConfig(max_tokens=MOST, k=1, temperature=0.5), endless(69)),
    (TopKConfig(max_tokens=MOST, k=2), endless(69)),
    (TopKConfig(max_tokens=MOST, k=2, temperature=0.5), endless(69)),
    (NucleusConfig(max_tokens=MOST, mass=0.4), endless(69)),
    (TemperatureConfig(max_tokens=MOST, temperature=0.7), endless(69)),
]
UNBOUNDED = [  # for a softmax: stop may be cut off
    GreedyConfig(),
    BeamConfig(width=2, finish="first"),
    BeamConfig(width=9, finish="exhausted"),
    TopKConfig(k=4),
    NucleusConfig(mass=0.999),
]
BOUNDED = [
    (AncestralConfig(), "Lemma 3.2", 1.0),
    (TopKConfig(k=5), "Lemma 3.2", 1.0),
    (TopKConfig(k=99, temperature=0.5), "Lemma 3.2", 0.5),
    (NucleusConfig(mass=1), "Lemma 3.2", 1.0),
    (TemperatureConfig(temperature=2), "Lemma 3.2", 2.0),
    (TemperatureConfig(temperature=0.25), "Lemma 3.2", 0.25),
    (ConsistentTopKConfig(k=1), "Theorem 4.1", 1.0),
    (ConsistentNucleusConfig(mass=0.1), "Theorem 4.1", 1.0),
    (ConsistentNucleusConfig(mass=0.1, temperature=3), "Lemma 3.2", 3.0),
    (ConsistentTopKConfig(k=2, temperature=0.3), "Lemma 3.2", 0.3),
]


def test_every_decoder_is_tried_with_both_kinds_of_model():
    every = {config.name for config in bench_decoders()}
    assert {one[0].name for one in (*SEARCHES, *SAMPLERS)} | {one.name for one in OF_NO_THEOREM} == every
    assert {one.name for one in UNBOUNDED} | {one[0].name for one in BOUNDED} == every - {"exhaustive"}


@pytest.mark.parametrize(("decoder", "theorem", "last"), SEARCHES)
def test_searches_over_a_self_terminating_model_end_by_a_step(decoder, theorem, last):
    found = checked(self_terminating(), decoder)
    assert found.source.partition(",")[0] == theorem
    assert (found.says, found.bound, found.promises) == ("every output ends", f"by step {last}", PROMISED)
    assert found.holds


@pytest.mark.parametrize(("decoder", "theorem", "most", "last"), TOO_SHORT)
def test_a_search_that_is_cut_off_before_it_must_end_is_promised_nothing(decoder, theorem, most, last):
    found = checked(self_terminating(), decoder)
    assert found.source.partition(",")[0] == theorem
    assert found.says == f"nothing is proven within {most} tokens, only by step {last}"
    assert (found.bound, found.promises) == ("", None)


@pytest.mark.parametrize("decoder", OF_NO_THEOREM, ids=lambda decoder: decoder.name)
def test_nothing_is_said_of_decoders_without_a_theorem(decoder):
    assert checked(self_terminating(), decoder) == Statement("", "no theorem covers this decoder", metric=METRIC)


@pytest.mark.parametrize("decoder", [SEARCHES[0][0], SAMPLERS[1][0], SAMPLERS[2][0], SAMPLERS[-1][0]])
@pytest.mark.parametrize(
    "model", [self_terminating, lambda: smoothed(softmax())], ids=["self-terminating", "softmax"]
)
def test_nothing_is_said_of_decoders_with_processors_which_may_exclude_stop(model, decoder):
    said = "no theorem covers decoders with processors"
    processed = decoder.model_copy(update={"processors": [MinPConfig()]})
    assert checked(model(), processed) == Statement("", said, metric=METRIC)
    assert checked(model(), decoder).says != said


@pytest.mark.parametrize(("decoder", "bound"), SAMPLERS)
def test_samples_of_a_self_terminating_model_end_with_a_probability(decoder, bound):
    found = checked(self_terminating(), decoder)
    assert found.source.startswith("Definition 4.3")
    assert found.says == "the probability that an output does not end is bounded"
    assert (found.bound, found.promises) == (bound, None)


@pytest.mark.parametrize("decoder", UNBOUNDED, ids=lambda decoder: decoder.name)
def test_nothing_is_promised_of_a_softmax_whose_stop_may_be_cut_off(decoder):
    """Theorem 3.4 is about the existence of another model: it is no theorem about this one."""
    found = checked(softmax(), decoder)
    assert found == Statement("", found.says, metric=METRIC)
    assert not found.holds
    assert found.says.startswith("nothing is proven: some models of this kind never emit EOS (Theorem 3.4")


def test_the_best_of_all_sequences_is_in_no_theorem_about_a_softmax():
    assert checked(softmax(), ExhaustiveConfig()) == Statement("", "no theorem covers this decoder", metric=METRIC)


@pytest.mark.parametrize(("decoder", "theorem", "temperature"), BOUNDED)
def test_a_softmax_whose_stop_stays_open_ends_with_a_probability(decoder, theorem, temperature):
    model = smoothed(softmax())
    found = checked(model, decoder)
    chance = MOST * log1p(-exp(least_bound(model, temperature, MOST + 2)))
    assert chance < -1e-2, "it says something"
    assert found.source.partition(",")[0] == theorem
    assert found.bound == f"P(no EOS in 100) < {bounds.format_exp(chance, up=True)}"
    assert found.says == "the probability that an output does not end is bounded"
    assert found.promises is None, "a finite number of samples may all be long"
    assert found.holds


@pytest.mark.parametrize(("decoder", "theorem", "temperature"), BOUNDED)
def test_a_stop_that_may_be_too_improbable_for_the_limit_proves_nothing(decoder, theorem, temperature):
    model = softmax()
    with torch.no_grad():
        logits_of(model).weight[STOP] -= 9 * temperature
    found = checked(model, decoder)
    assert found.source.partition(",")[0] == theorem
    assert (found.says, found.bound, found.promises) == ("nothing is proven within 100 tokens", "", None)


def test_a_promise_depends_on_the_limit_of_the_metric():
    found = [checked(self_terminating(), GreedyConfig(max_tokens=MOST), limit).promises for limit in (68, 69, 1500)]
    assert found == [None, (0.0, 0.0), (0.0, 0.0)]


def test_a_bound_is_about_as_many_tokens_as_are_decoded_and_waited_for():
    bound = {
        (most, limit): checked(self_terminating(), AncestralConfig(max_tokens=most), limit).bound
        for most, limit in ((9, 20), (20, 9), (20, 20))
    }
    assert bound[9, 20] == bound[20, 9] != bound[20, 20]
    assert bound[9, 20].startswith("P(no EOS in 9) < ")


def test_of_other_models_nothing_is_said():
    model = Case.of(toys.SelfTerminatingConfig()).model
    assert checked(model, GreedyConfig()) == Statement("", "no theorem covers this kind of model", metric=METRIC)


# that the bounds of self-terminating models bound


@pytest.mark.parametrize("decoder", [decoder for decoder, *_ in SEARCHES], ids=lambda d: d.name)
@pytest.mark.parametrize("epsilon", [0.6, 0.5, 0.1])
def test_no_search_goes_on_beyond_its_last_step(decoder, epsilon):
    last = last_step(epsilon, decoder)
    for seed in range(3):
        for found in decoded(decoder, late(epsilon, seed=seed), rows=4):
            assert found.finished
            assert len(found.tokens) + 1 <= last


def test_a_beam_that_does_not_count_stop_would_break_the_promise():
    """With epsilon 0.6 greedy choice stops at once; this beam passes over that output, which is empty."""
    decoder = BeamConfig(max_tokens=MOST, width=2, finish="first", count_stop=False)
    (found,) = decoded(decoder, late(0.6), rows=1)
    assert len(found.tokens) + 1 > bounds.greedy_steps(0.6)


@pytest.mark.parametrize("decoder", [decoder for decoder, _ in SAMPLERS], ids=lambda decoder: decoder.name)
def test_no_sampling_goes_on_more_often_than_certified(decoder):
    """Of a model that stops as late as it can, so that the bound is nearly met where nothing is cut off."""
    epsilon, rows = 0.1, 2000
    first = first_bounded_step(epsilon, decoder)
    lengths = torch.tensor([len(one.tokens) + one.finished for one in decoded(decoder, late(epsilon), rows)])
    for steps in (1, 3, 7, 9, 12):
        bound = exp(bounds.log_no_stop(epsilon, steps, first))
        share = (lengths > steps).double().mean().item()
        assert share <= bound + 4 * sqrt(bound * (1 - bound) / rows)
        if decoder.name == "ancestral":
            assert share >= bound - 4 * sqrt(bound * (1 - bound) / rows)


def test_a_higher_temperature_would_break_the_bound():
    lengths = [len(one.tokens) + one.finished for one in decoded(TemperatureConfig(temperature=5), late(0.1), 500)]
    share = sum(length > 9 for length in lengths) / 500
    assert share > 4 * exp(bounds.log_no_stop(0.1, 9))


# that Lemma 3.2 bounds


def least_seen(model, steps=12):
    """Return the least log p(stop) on random sequences and on all of one word."""
    batch, found = contexts(16), []
    log_probs, state = model.start(batch)
    for step in range(steps):
        found.append(log_probs[:, STOP].min())
        words = (1 + 4 * Rng(3).uniform(batch.ids, step)).long()
        words[:4] = torch.arange(1, 5)
        log_probs, state = model.step(state, words)
    return torch.stack(found).min()


@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
def test_lemma_3_2_bounds_stop_of_random_and_of_trained_weights(cell):
    """Trained to stop as seldom as can be, from all of its weights."""
    model = softmax(cell=cell, hidden=4, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    seen = []
    for _ in range(10):
        least = least_seen(model)
        seen.append((least.item(), least_bound(model)))
        optimizer.zero_grad()
        least.backward()
        optimizer.step()
    assert all(least > bound for least, bound in seen)
    assert seen[-1][0] < seen[0][0] - 5, "it has learnt not to stop"


@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_lemma_3_2_is_all_but_met_by_units_of_one(cell, temperature):
    """Biases drive every unit to 1, stop weighs them by -w, words by w."""
    model = softmax(cell=cell, hidden=4, layers=1)
    with torch.no_grad():
        for weights in model.rnn.parameters():
            weights.zero_()
        model.rnn.layers.bias_ih_l0.fill_(20)
        if cell == "gru":
            model.rnn.layers.bias_ih_l0[4:8] = -20  # keep nothing of the units before
        logits_of(model).weight.fill_(2.0)
        logits_of(model).weight[STOP] = -2.0
        logits_of(model).bias.fill_(0.3)
        logits_of(model).bias[STOP] = -0.3
        batch = contexts(1)
        log_probs, state = model.start(batch)
        for _ in range(20):
            log_probs, state = model.step(state, torch.tensor([1]))
        least = (log_probs / temperature).log_softmax(1)[0, STOP].item()
        bound = least_bound(model, temperature)
    assert bound < least
    assert least - bound == pytest.approx(0, abs=1e-3)


def test_lemma_3_2_says_nothing_of_units_without_a_bound():
    model = softmax(cell="relu", hidden=4, layers=1)
    with torch.no_grad():
        model.rnn.layers.bias_ih_l0.fill_(1e3)
        logits_of(model).weight[STOP] = -logits_of(model).weight[1:].abs().max()
        logits_of(model).weight[1:] = logits_of(model).weight[1:].abs()
        model.cell = "tanh"  # what would be proven if they were bounded
        claimed = least_bound(model)
        model.cell = "relu"
    assert least_seen(model) < claimed
    found = checked(model, AncestralConfig())
    assert holds(found) == [True, False]
    assert "between -1 and 1" in found.premises[1].text
    assert (found.bound, found.promises) == ("", None)


# premises


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("decoder", [GreedyConfig(max_tokens=MOST), AncestralConfig(), ConsistentTopKConfig(k=1)])
@pytest.mark.parametrize("make", [self_terminating, softmax])
def test_a_weight_that_is_no_number_leaves_nothing_of_a_theorem(make, decoder, value):
    model = make()
    with torch.no_grad():
        logits_of(model).weight[2, 1] = value
    found = checked(model, decoder)
    if found.premises:
        assert not found.premises[0].holds
        assert found.premises[0].text.startswith("every weight is finite")
        assert (found.bound, found.promises) == ("", None)
    else:
        assert (found.source, found.says[:17]) == ("", "nothing is proven")


def with_past(model, change):
    """Return the model with an output layer that goes on from `change` of what it should remember."""
    other = deepcopy(model)
    intact = model.head.log_probs
    other.head.log_probs = lambda hidden, past: intact(hidden, Survival(change(past.log_alpha)))
    return other


def starts_again_at_every_step(model):
    """Each step is the first."""
    return with_past(model, torch.zeros_like)


def forgets_half_of_it(model):
    """Some of what was survived is lost at every step."""
    return with_past(model, lambda log_alpha: log_alpha / 2)


def forgets_epsilon(model):
    """The sigmoid itself."""
    other = deepcopy(model)
    other.head.epsilon = 1e-12
    return other


def is_a_softmax(model):
    """The class says that it is self-terminating, and its output layer is not."""
    other = deepcopy(model)
    other.head.log_probs = lambda hidden, past: (logits_of(model)(hidden).log_softmax(2), past)
    return other


@pytest.mark.parametrize("mutant", [starts_again_at_every_step, forgets_half_of_it, forgets_epsilon, is_a_softmax])
@pytest.mark.parametrize(
    "decoder", [GreedyConfig(max_tokens=MOST), AncestralConfig()], ids=lambda decoder: decoder.name
)
def test_a_model_that_is_not_self_terminating_is_found_out_by_watching_it(mutant, decoder):
    model = late(0.01)
    assert holds(checked(model, decoder)) == [True, True]
    found = checked(mutant(model), decoder)
    assert holds(found) == [True, False]
    assert "p(EOS) grows and exceeds 1 - (1 - ε)^n" in found.premises[1].text
    assert (found.bound, found.promises) == ("", None)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 1e-2, 0.5, 0.99])
@pytest.mark.parametrize("stop", [0.0, 30.0, -30.0])
def test_no_model_that_keeps_the_definition_raises_an_alarm(epsilon, stop):
    """Rounding included, in float32 as trained."""
    for seed in range(2):
        config = SelfTerminatingRNNLMConfig(cell="tanh", hidden=4, epsilon=epsilon, st_context=seed % 2 == 1)
        model = Case.of(config, seed=seed, scale=3).model.float()
        with torch.no_grad():
            logits_of(model).bias[STOP] += stop
        assert holds(checked(model, GreedyConfig())) == [True, True]


def test_a_model_is_watched_no_longer_than_it_has_room():
    """Such as one with so many positions: the last token that fits is predicted, but not read."""
    steps = []

    def step(model, state, actions):
        steps.append(actions)
        return model.step(state, actions)

    model = patched(self_terminating(), limit=lambda model, batch: torch.full_like(batch.ids, 5), step=step)
    found = checked(model, GreedyConfig(max_tokens=MOST))
    assert found.premises[1].text.endswith("observed on 8 random sequences of 5 tokens")
    assert len(steps) == 4
    assert all((actions > 0).all() for actions in steps)
    says = "nothing is proven within 5 tokens (the model's limit), only by step 69"
    assert (found.says, found.bound, found.promises) == (says, "", None)


def test_the_watched_sequences_begin_with_the_longest_openings_that_are_decoded():
    seen = []

    def start(model, batch):
        seen.append(batch.prompt)
        return model.start(batch)

    batches = [tiny_batch(prefix=length) for length in (2, 6, 3)]
    checked(patched(self_terminating(), start=start), GreedyConfig(max_tokens=MOST), batches=batches)
    (prompt,) = seen
    assert prompt.tolist() == (batches[1].prompt.tolist() * 2)[:8]


def test_nothing_is_said_where_no_row_is_decoded_or_no_token_has_room():
    model = patched(self_terminating(), limit=lambda model, batch: torch.full_like(batch.ids, -3))
    found = checked(model, GreedyConfig(max_tokens=MOST))
    assert not found.source
    assert "no room for a token" in found.says
    with torch.no_grad():
        empty = Consistency(ConsistencyConfig()).statement(self_terminating(), GreedyConfig(), [])
    assert empty == Statement("", "no rows are decoded", metric=METRIC)


# in a run

SUITE = """
suite: tests/consistency
tasks:
  letters: {name: toy-letters}
models:
  vanilla: {name: rnn-lm, cell: tanh, hidden: 4, layers: 1}
  relu: {name: rnn-lm, cell: relu, hidden: 4, layers: 1}
  st: {name: self-terminating-rnn-lm, cell: tanh, hidden: 4, tied: true, epsilon: 0.1}
decoders:
  greedy: {name: greedy}
  beam: {name: beam, width: 2, finish: first}
  wide: {name: beam, width: 30}
  ancestral: {name: ancestral}
metrics:
  endless: {name: non-termination}
training: {updates: 2, lr: 0.01}
seeds: 2
limits: {max_tokens: 20}
hardware: {threads: 1, device: cpu}
tables:
  - {id: main, rows: [decoder], columns: [model], values: [endless]}
"""


@pytest.fixture
def report(tmp_path):
    """Run the suite and return its report's table of certificates, by cell, and what stands below it."""
    (tmp_path / "suite.yaml").write_text(dedent(SUITE))
    with extra(toys):
        run = bench_core.run(tmp_path / "suite.yaml", store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    assert {cell.status for cell in run.cells} == {"done"}
    write_report(run, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text().partition("## Probes")[2].partition("\n## ")[0]
    rows = [
        [word.strip() for word in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return {row[0]: row[1:] for row in rows[2:]}, [line for line in text.splitlines() if line.startswith("- ")]


@pytest.mark.slow
def test_the_report_of_a_run_says_what_is_proven_and_what_was_measured(report):
    rows, notes = report
    assert len(rows) == 3 * 4
    theorem, premises, says, bound, measured = rows["st/greedy"]
    assert theorem.startswith("Theorem 4.2")
    assert (premises, says, bound) == ("all hold", "every output ends", "by step 7")
    assert measured == "endless 0.00 %, as promised"
    assert rows["st/beam"][3:] == ["by step 7", "endless 0.00 %, as promised"]
    assert rows["st/wide"][2:4] == ["nothing is proven within 20 tokens, only by step 36", "–"]
    assert "as promised" not in rows["st/wide"][4], "beyond the limit of 20"
    assert rows["st/ancestral"][3] == "P(no EOS in 20) &lt; 2.5e-10"
    assert rows["vanilla/greedy"][0] == "none"
    assert rows["vanilla/greedy"][2].startswith("nothing is proven: some models of this kind never emit EOS")
    assert re.fullmatch(r"endless [\d.]+ %", rows["vanilla/greedy"][4])
    assert rows["relu/ancestral"][1:4] == ["1 of 2 hold", "nothing, as a premise does not hold", "–"]
    assert [note for note in notes if "does not hold" in note and "relu" in note]
    assert not [note for note in notes if "promises" in note]
