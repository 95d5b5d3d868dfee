"""The interfaces hold every family of models that they are meant for, and decoders each that they can use."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from pydantic import PositiveInt
from torch import nn
from torch.nn.functional import pad

from bench_authors.testing import Case, check_decoder, check_model, float64, tiny_batch, tiny_info, toys
from bench_authors.testing.cases import costs, one_row
from bench_core import (
    STOP,
    Decoder,
    DecoderConfig,
    Hypothesis,
    Loss,
    Model,
    ModelConfig,
    Rng,
    Sampler,
    Scorer,
    Scoring,
    Source,
    Stepper,
    Training,
    to_device,
)
from bench_core.suites.check import misfit

try:
    from bench_decoders import plugin as installed
except ImportError:  # the core's tests need no plugin
    installed = None


class Refiner(Model):
    """A capability that the core does not know: rereads a canvas and says a word for every gap."""

    @abstractmethod
    def refine(self, batch, canvas):
        """Return log p(word | gap) [N, C + 1, V] of a canvas [N, C], padded with stop; word 0 closes a gap."""


class CanvasConfig(ModelConfig):
    """Inserts into all gaps at once (Stern et al., 2019)."""

    name, target = "canvas", f"{__name__}:Canvas"
    capabilities = {Refiner}
    hidden: PositiveInt = 6


class InsertParallelConfig(DecoderConfig):
    """The likeliest word of every gap, round after round."""

    name, target = "insert-parallel", f"{__name__}:InsertParallel"
    needs = Refiner


class Canvas(nn.Module, Refiner):
    def __init__(self, config, info):
        super().__init__()
        self.left = nn.Embedding(len(info.vocabulary), config.hidden)
        self.right = nn.Embedding(len(info.vocabulary), config.hidden)
        self.word = nn.Linear(config.hidden, len(info.vocabulary))

    def refine(self, batch, canvas):
        neighbours = self.left(pad(canvas, (1, 0))) + self.right(pad(canvas, (0, 1)))
        return self.word(torch.tanh(neighbours + self.left(batch.prompt[:, -1:]))).log_softmax(2)

    def loss(self, batch, training):
        """Weigh the first missing word of every gap that is left when words are kept at random."""
        host, device = batch.on_host, batch.ids.device
        keep = training.rng.uniform(host.ids, 0, batch.gold.shape[1]) < 0.5
        canvas, wanted = zip(
            *map(self._thinned, host.gold.tolist(), host.length.tolist(), keep.tolist()), strict=True
        )
        width = batch.gold.shape[1]
        canvas = torch.tensor([[*row, *[STOP] * (width - len(row))] for row in canvas])
        log_probs = self.refine(batch, to_device(canvas, device))
        wanted = [to_device(torch.tensor(words)[:, None], device) for words in wanted]
        costs = [-log_probs[n, : len(words)].gather(1, words).mean() for n, words in enumerate(wanted)]
        return Loss(torch.stack(costs).mean(), batch.mask.sum())

    def _thinned(self, gold, length, keep):
        kept = [-1, *(place for place in range(length - 1) if keep[place]), length - 1]
        missing = [gold[left + 1] if right > left + 1 else STOP for left, right in pairwise(kept)]
        return [gold[place] for place in kept[1:-1]], missing


class InsertParallel(Decoder[Refiner]):
    def decode(self, model, batch, rng):
        rows, closed = [[] for _ in range(len(batch))], [False] * len(batch)
        most = self.config.max_tokens
        for _ in range(most):
            width = max(map(len, rows))
            canvas = torch.tensor([[*row, *[STOP] * (width - len(row))] for row in rows], dtype=torch.long)
            canvas = canvas.view(len(rows), -1).to(batch.ids.device)
            for n, words in enumerate(model.refine(batch, canvas).argmax(2).tolist()):
                gaps = words[: len(rows[n]) + 1]
                closed[n] = not any(gaps)
                woven = [word for pair in zip(gaps, [*rows[n], STOP], strict=True) for word in pair if word != STOP]
                rows[n] = woven[:most]
        return [[Hypothesis(row, done and len(row) < most)] for row, done in zip(rows, closed, strict=True)]


FAMILIES = [*(config() for config in toys.bench_models()), CanvasConfig()]
DECODERS = [
    toys.ToyGreedyConfig(max_tokens=4),
    toys.ToyAncestralConfig(max_tokens=4),
    toys.ToyExhaustiveConfig(max_tokens=2),
    InsertParallelConfig(max_tokens=4),
]
if installed:
    DECODERS += [
        installed.AncestralConfig(max_tokens=4),
        installed.GreedyConfig(max_tokens=4),
        installed.TopKConfig(max_tokens=4, k=2),
        installed.TopKConfig(max_tokens=4, k=50),
        installed.ConsistentTopKConfig(max_tokens=4, k=1),
        installed.NucleusConfig(max_tokens=4, mass=0.6),
        installed.ConsistentNucleusConfig(max_tokens=4, mass=0.3),
        installed.TemperatureConfig(max_tokens=4, temperature=0.7),
        installed.BeamConfig(max_tokens=4, width=3, outputs=3),
        installed.BeamConfig(max_tokens=4, width=2, finish="first"),
        installed.BeamConfig(max_tokens=4, width=3, finish="exhausted", candidates="finished_and_alive", alpha=0.7),
        installed.BeamConfig(max_tokens=4, width=2, candidates="all_prefixes", alpha=0.7, outputs=4),
        installed.ExhaustiveConfig(max_tokens=2, outputs=3, candidates="finished_and_alive"),
    ]
by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda config: config.name)
by_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=lambda config: config.name)


def fits(decoder, family):
    return any(issubclass(given, decoder.needs) for given in family.capabilities)


@pytest.mark.quick(2)
@by_family
def test_every_family_keeps_the_contracts(family):
    tried = check_model(Case.of(family))
    given = {capability for capability in (Sampler, Stepper, Scorer) if issubclass(family.load(), capability)}
    asked = {
        "eight_examples_can_be_learnt_by_heart": set(),
        "a_sample_depends_on_its_id_alone": {Sampler},
        "a_row_scores_alike_alone_and_in_a_batch": {Scorer},
        "samples_occur_as_often_as_their_score_says": {Sampler, Scorer},
        "the_score_is_the_sum_of_its_steps": {Stepper, Scorer},
        "selected_rows_go_on_as_they_would": {Stepper},
    }
    for name, capabilities in asked.items():
        assert (name in tried) == (capabilities <= given), name
    streaming = "windows_of_a_stream_score_as_the_whole_does" in tried
    assert streaming == (family.name in {"toy-recurrent", "toy-self-terminating", "toy-codes"})


@pytest.mark.quick(1, 5)
@by_family
@pytest.mark.parametrize("prefix", [0, 3])
def test_every_family_keeps_the_contracts_whatever_the_prefix(family, prefix):
    source = min(family.sources)
    check_model(Case.of(family, batch=tiny_batch(source=source, prefix=prefix), source=source, seed=1, scale=1.5))


@pytest.mark.quick(8, 40)
@by_decoder
@by_family
def test_every_decoder_keeps_the_contracts_with_every_family_that_fits(family, decoder):
    if fits(decoder, family):
        tried = check_decoder(Case.of(family, decoder))
        assert ("a_hypothesis_costs_what_its_chain_costs" in tried) == issubclass(decoder.needs, Stepper)
        assert misfit(decoder, family) is None
    else:
        told = misfit(decoder, family)
        assert told is not None
        assert f"{decoder.name} needs a {decoder.needs.__name__}" in told
        assert family.name in told


def test_every_family_has_a_decoder_and_every_decoder_a_family():
    assert all(any(fits(decoder, family) for decoder in DECODERS) for family in FAMILIES)
    assert all(any(fits(decoder, family) for family in FAMILIES) for decoder in DECODERS)


@pytest.mark.parametrize("family", [f for f in FAMILIES if Stepper in f.capabilities], ids=lambda config: config.name)
def test_all_chains_together_have_probability_one(family):
    case = Case.of(family, toys.ToyExhaustiveConfig(max_tokens=3, outputs=10**6))
    for row, found in enumerate(case.decoded()):
        assert math.isclose(sum(math.exp(one.log_prob) for one in found), 1)
        assert len({tuple(one.actions) + (STOP,) * one.finished for one in found}) == len(found)
        limit = case.model.limit(one_row(case.batch, row))
        longest = 3 if limit is None else min(3, int(limit))
        assert max(len(one.tokens) for one in found) == longest


def test_stop_becomes_ever_more_probable():
    """By hand, with epsilon 0.1 and a_t = 0, 2, -1: alpha = 0.45, 0.45 x 0.9 x 0.880797, ..."""
    case = Case.of(toys.SelfTerminatingConfig(epsilon=0.1, hidden=1))
    with float64(), torch.no_grad():
        case.model.logits.weight.copy_(torch.tensor([[1.0], [0], [0], [0], [0]]))
        case.model.logits.bias.zero_()
        hidden = torch.tensor([[[0.0], [2.0], [-1.0]]])
        log_probs, memory = case.model._log_probs(hidden, case.model._begin(one_row(case.batch, 0)))
    alpha = torch.tensor([0.45, 0.35672282, 0.08634379], dtype=torch.float64)
    torch.testing.assert_close(log_probs[0, :, STOP].exp(), 1 - alpha, rtol=0, atol=1e-7)
    torch.testing.assert_close(log_probs[0, :, 1].exp(), alpha / 4, rtol=0, atol=1e-7)
    torch.testing.assert_close(memory.log_alpha.exp(), alpha[-1:], rtol=0, atol=1e-7)


def test_greedy_choice_of_a_self_terminating_model_ends_by_its_bound():
    """log 2 / -log(1 - epsilon) is 6.58 for 0.1 (Welleck et al., 2020, theorem 4.2)."""
    for seed in range(4):
        case = Case.of(
            toys.SelfTerminatingConfig(epsilon=0.1), toys.ToyGreedyConfig(max_tokens=50), seed=seed, scale=6
        )
        for (one,) in case.decoded():
            assert one.finished
            assert len(one.tokens) + 1 <= 7


def test_bits_are_a_bound_that_is_met_when_no_other_code_is_likely():
    case = Case.of(toys.CodesConfig())
    assert (case.scored("bits") <= case.scored("exact")).all()
    codes = case.model.codebook
    assert len(codes.unique(dim=0)) == len(codes)
    with float64(), torch.no_grad():
        case.model.logits.weight.zero_()
        case.model.logits.bias.copy_(40 * (2 * codes[3] - 1))  # as good as certain of token 3
        rows = tiny_batch([[3, 3]])
        exact, bits = (case.scored(by, rows) for by in ("exact", "bits"))
    differing = (codes[3] != codes[STOP]).sum().item()
    torch.testing.assert_close(exact, torch.tensor([-40.0 * differing], dtype=torch.float64), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(bits, exact, rtol=1e-9, atol=1e-9)


def test_an_encoder_decoder_reads_its_source_and_not_the_padding():
    case = Case.of(toys.ToyEncoderDecoderConfig())
    batch = case.batch
    place = torch.arange(batch.source.shape[1])[None] >= batch.source_length[:, None]
    garbled = batch.source.masked_fill(place, 5)
    other = batch.source.where(place, batch.source % 6 + 1)
    with float64():
        as_is = case.scored("exact")
        torch.testing.assert_close(case.scored("exact", replace(batch, source=garbled)), as_is)
        assert (case.scored("exact", replace(batch, source=other)) - as_is).abs().min() > 1e-3


@pytest.mark.slow
def test_the_orders_of_an_insertion_add_up_to_its_target():
    """One chain is a bound; all chains that read alike are the whole, and as often as it is drawn."""
    case = Case.of(toys.InsertionConfig(), toys.ToyExhaustiveConfig(max_tokens=3, outputs=10**6))
    found = [one for one in case.decoded()[0] if one.finished]
    drawn = case.model.sample(_crowd(case, 20_000), 3, Rng(3))
    for target in ([1, 2], [3, 3], [2], []):
        chains = [one for one in found if one.tokens == target]
        assert len(chains) == len({tuple(one.actions) for one in chains}) == math.factorial(len(target))
        whole = sum(math.exp(one.log_prob) for one in chains)
        with float64():
            score = case.scored("order", tiny_batch([target])).item()
        assert any(math.isclose(score, one.log_prob, rel_tol=1e-9) for one in chains)
        share = sum(one.finished and one.tokens == target for one in drawn) / len(drawn)
        assert abs(share - whole) < 5 * math.sqrt(whole / len(drawn)) + 1e-9


def test_many_trajectories_close_the_gap_above_the_bound():
    case = Case.of(toys.LatentConfig(trajectories=20_000), scale=1.0)
    rows = tiny_batch([list(word) for length in range(3) for word in product(range(1, 5), repeat=length)])
    with float64(), torch.no_grad():
        estimate = case.scored("trajectories", rows)
        bounds = torch.stack([case.scored("elbo", rows, Rng(turn)) for turn in range(200)])
    error = 5 * bounds.std(0) / math.sqrt(len(bounds))
    assert (bounds.mean(0) - error <= estimate + 0.05).all()
    assert (estimate - bounds.mean(0)).max() > 0.05


def test_trajectories_are_shared_by_all_targets_of_all_batches():
    """So that the probabilities of all targets of one length add up, each in a batch of its own, without noise."""
    case = Case.of(toys.LatentConfig(trajectories=3))
    with float64(), torch.no_grad():
        words = [case.scored("trajectories", _unended(target)) for target in product(range(5), repeat=2)]
    torch.testing.assert_close(torch.cat(words).exp().sum(), torch.tensor(1.0, dtype=torch.float64))


def test_a_capability_from_elsewhere_needs_nothing_of_the_core():
    case = Case.of(CanvasConfig(), InsertParallelConfig(max_tokens=6), batch=tiny_batch([[1, 2, 3, 4]] * 4, prefix=0))
    optimizer = torch.optim.Adam(case.model.parameters(), 0.05)
    with float64():
        for step in range(150):
            optimizer.zero_grad()
            case.model.loss(case.batch, Training(step, 150, 0, 1, Rng(step))).value.backward()
            optimizer.step()
        found = case.decoded()
    assert all(one.finished and one.tokens for (one,) in found)
    assert {tuple(one.tokens) for (one,) in found} <= {(1, 2, 3, 4)}


def test_costs_of_a_chain_are_the_steps_of_its_score():
    case = Case.of(toys.ToyEncoderDecoderConfig())
    with float64():
        for row, gold in enumerate(case.batch.gold.tolist()):
            one = one_row(case.batch, row)
            chain = gold[: int(one.length)]
            choices = zip(costs(case.model, one, chain), chain, strict=True)
            total = sum(log_probs[action].item() for log_probs, action in choices)
            assert math.isclose(total, case.model.score(one, Scoring("exact", Rng(0))).log_probs.item())


def test_facts_and_batches_of_every_source_agree():
    for source in Source:
        info, batch = tiny_info(source), tiny_batch(source=source)
        if source in (Source.TOKENS, Source.BAG):
            assert 0 <= batch.source.min() <= batch.source.max() < len(info.source_vocabulary)
        elif source is not Source.NONE:
            assert batch.source.shape[1:] == info.source_shape


def _crowd(case, number):
    rows = case.batch.select(torch.zeros(number, dtype=torch.long))
    return replace(rows, ids=torch.arange(number))


def _unended(target):
    """Return a row whose target is cut short, and so has no stop."""
    return replace(tiny_batch([target]), gold=torch.tensor([target]), length=torch.tensor([len(target)]))
