"""Decoders on the insertion model and on the plain Transformer."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, permutations, product

import pytest
import torch

from bench_authors.testing import Case, check_decoder, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row
from bench_core import STOP, Rng, Source, TaskInfo
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
)
from bench_indigo.plugin import IndigoConfig, TransformerConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
INDIGO = IndigoConfig(**SMALL, order="l2r")
DECODERS = [
    GreedyConfig(max_tokens=5),
    AncestralConfig(max_tokens=5),
    TemperatureConfig(max_tokens=5, temperature=0.8),
    TopKConfig(max_tokens=5, k=2),
    NucleusConfig(max_tokens=5, mass=0.7),
    ConsistentTopKConfig(max_tokens=5, k=1),
    ConsistentNucleusConfig(max_tokens=5, mass=0.3),
    BeamConfig(max_tokens=5, width=3, finish="first"),
    BeamConfig(max_tokens=5, width=3, outputs=3, alpha=0.6),
    BeamConfig(max_tokens=4, width=2, candidates="all_prefixes", alpha=1, count_stop=False, outputs=2),
]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


@pytest.mark.quick(3, 5)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.parametrize("config", [INDIGO, TransformerConfig(**SMALL)], ids=lambda config: config.name)
def test_decoders_keep_their_contracts(config, decoder):
    check_decoder(Case.of(config, decoder, source=Source.TOKENS))


def test_beam_search_keeps_its_contracts_where_keys_are_chosen():
    config = IndigoConfig(**SMALL, order="l2r", raw_keys=True)
    check_decoder(Case.of(config, BeamConfig(max_tokens=4, width=3, outputs=2), source=Source.TOKENS))


def decoded(case, decoder):
    return replace(case, decoder=decoder.load()(decoder)).decoded()


def test_a_beam_of_one_is_greedy():
    case = Case.of(INDIGO, source=Source.TOKENS, scale=1.5)
    greedy, beam = (decoded(case, one) for one in (GreedyConfig(max_tokens=6), BeamConfig(max_tokens=6, width=1)))
    assert [row[0].actions for row in greedy] == [row[0].actions for row in beam]


def few_words():
    """Return a case of two words, whose targets end soon."""
    info = TaskInfo(["<stop>", "a", "b"], source_vocabulary=tiny_info(Source.TOKENS).source_vocabulary)
    case = Case.of(INDIGO, info=info, batch=tiny_batch([(1,)] * 4, source=Source.TOKENS), scale=1)
    return case


def test_a_beam_that_is_wide_enough_finds_the_best_sequence():
    case = few_words()
    width, limit = 64, 3
    found = decoded(case, BeamConfig(max_tokens=limit, width=width, finish="exhausted", outputs=1))
    targets = [target for number in range(limit) for target in product((1, 2), repeat=number)]
    for row, (best,) in enumerate(found):
        batch = one_row(case.batch, row)
        ranked = []
        for target in targets:
            for order in permutations(range(len(target))):
                chain = []
                for turn, place in enumerate(order):
                    chain += [target[place], 1 + sum(earlier < place for earlier in order[:turn])]
                ranked.append((cost(case.model, batch, [*chain, STOP]), chain))
        assert best.actions == max(ranked)[1]
        assert best.log_prob == pytest.approx(max(ranked)[0])


def cost(model, batch, chain):
    log_probs, state = model.start(batch)
    total = 0.0
    for number, action in enumerate(chain):
        total += log_probs[0, action].item()
        if number + 1 < len(chain):
            log_probs, state = model.step(state, torch.tensor([action]))
    return total


def next_log_probs(model, batch, chain):
    """Return log-probabilities [A] after a chain, from the beginning."""
    log_probs, state = model.start(batch)
    for action in chain:
        log_probs, state = model.step(state, torch.tensor([action]))
    return log_probs[0].tolist()


def two_step_beam(model, batch, width, most):
    """Return the best finished chain: words of all live beams, then slots (Gu et al., 2019, section 4.3)."""
    live, finished = [(0.0, [])], []
    for length in count(1):
        pairs = [
            (total + gain, chain, word)
            for total, chain in live
            for word, gain in enumerate(next_log_probs(model, batch, chain))
        ]
        pairs = sorted(pairs, key=lambda one: -one[0])[:width]
        finished += [(total / length**0.6, chain) for total, chain, word in pairs if word == STOP]
        placing = [(total, [*chain, word]) for total, chain, word in pairs if word != STOP]
        if not placing or length == most:
            return max(finished)[1]
        slots = [
            (total + gain, [*chain, slot])
            for total, chain in placing
            for slot, gain in enumerate(next_log_probs(model, batch, chain))
            if slot
        ]
        live = sorted(slots, key=lambda one: -one[0])[:width]
        if finished and max(finished)[0] > live[0][0] / most**0.6:
            return max(finished)[1]
    raise AssertionError("it ends")


@pytest.mark.parametrize("width", [1, 2, 3])
def test_beam_search_over_actions_is_the_search_of_the_paper_in_two_steps(width):
    case = few_words()
    found = decoded(case, BeamConfig(max_tokens=5, width=width, alpha=0.6, finish="exhausted"))
    ended = 0
    for row, (best, *_) in enumerate(found):
        if best.finished:
            ended += 1
            assert best.actions == two_step_beam(case.model, one_row(case.batch, row), width, 5)
    assert ended >= width, "the case must bite"


def test_decoding_from_scratch_and_from_what_is_remembered_agree():
    case = Case.of(INDIGO, source=Source.TOKENS, seed=2)
    for row, (best, *_) in enumerate(decoded(case, BeamConfig(max_tokens=6, width=4))):
        chain = [*best.actions, *[STOP] * best.finished]
        assert best.log_prob == pytest.approx(cost(case.model, one_row(case.batch, row), chain), abs=1e-9)


def test_draws_differ_between_rows():
    case = Case.of(INDIGO, source=Source.TOKENS, scale=1)
    found = case.model.sample(case.batch.select(torch.zeros(8, dtype=torch.long)), 6, Rng(3))
    assert len({tuple(one.tokens) for one in found}) == 1  # one example draws alike
    ids = replace(case.batch.select(torch.zeros(8, dtype=torch.long)), ids=torch.arange(8))
    assert len({tuple(one.tokens) for one in case.model.sample(ids, 6, Rng(3))}) > 3
