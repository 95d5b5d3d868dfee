"""The plain Transformer, and what it has in common with an insertion model that goes from left to right."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench_authors.testing import Case, check_model, float64, tiny_batch, tiny_info
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Rng, Scoring, Source, Training
from bench_indigo import network
from bench_indigo.plugin import IndigoConfig, TransformerConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 2, "feed_forward": 12}
RNG = Rng(7)
SLOW = ("samples_occur_as_often_as_their_score_says", "eight_examples_can_be_learnt_by_heart")
QUICK = [contract for contract in MODEL_CONTRACTS if str(contract) not in SLOW]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def case_of(**settings):
    return Case.of(TransformerConfig(**{**SMALL, **settings}), source=Source.TOKENS)


def test_the_model_keeps_all_contracts():
    check_model(case_of(dropout=0.2, layers=1))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "settings",
    [{"positions": "relative"}, {"cross_attention": "forward", "tied": False, "source_positions": "sinusoidal"}],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_model_keeps_the_quick_contracts(settings):
    assert len(check(QUICK, case_of(**settings))) >= 15


@pytest.mark.quick(1)
@pytest.mark.parametrize("source", [Source.BAG, Source.GRID, Source.VECTOR])
def test_the_model_keeps_the_quick_contracts_with_every_source(source):
    bag = {"source_positions": "none"} if source is Source.BAG else {}
    assert len(check(QUICK, Case.of(TransformerConfig(**SMALL, **bag), source=source))) >= 15


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_it_goes_on_from_a_prefix(positions):
    batch = tiny_batch(source=Source.TOKENS, prefix=3)
    case = Case.of(TransformerConfig(**SMALL, positions=positions), batch=batch, source=Source.TOKENS)
    assert len(check(QUICK, case)) >= 14


@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_a_token_is_predicted_without_those_that_follow(positions):
    case = case_of(positions=positions)
    early = replace(case.batch, gold=case.batch.gold[:, :1], length=torch.ones_like(case.batch.length))
    other = replace(early, gold=early.gold * 0 + 1)
    longer = replace(case.batch, gold=torch.cat([other.gold, case.batch.gold], 1)[:, :2], length=early.length)
    score = lambda rows: case.model.score(rows, Scoring("exact", RNG)).log_probs  # noqa: E731
    torch.testing.assert_close(score(other), score(longer))


def test_the_loss_is_the_score_where_nothing_is_smoothed():
    case = case_of()
    loss = case.model.loss(case.batch, Training(0, 1, 0, 1, RNG))
    torch.testing.assert_close(loss.value * loss.weight, -case.scored("exact").sum())
    smooth = Training(0, 1, 0, 1, RNG, label_smoothing=0.3)
    assert case.model.loss(case.batch, smooth).value > loss.value


@pytest.mark.parametrize(
    "config", [TransformerConfig(**SMALL), IndigoConfig(**SMALL, beam=3)], ids=lambda one: one.name
)
def test_logits_are_computed_in_parts_where_there_are_many(config, monkeypatch):
    case = Case.of(config, source=Source.TOKENS)
    by = next(iter(config.likelihoods))
    whole = case.scored(by)
    monkeypatch.setattr(network, "LOGITS", 11)
    torch.testing.assert_close(case.scored(by), whole)


@pytest.mark.parametrize("cross_attention", ["last", "forward"])
def test_from_left_to_right_the_insertion_model_has_the_same_layers(cross_attention):
    """Up to its pointer, the map F of its word head, and the second boundary."""
    info, batch = tiny_info(Source.TOKENS), tiny_batch(source=Source.TOKENS)
    shape = {**SMALL, "cross_attention": cross_attention}
    plain = Case.of(TransformerConfig(**shape, positions="relative"), info=info, batch=batch)
    config = IndigoConfig(**shape, order="l2r")
    indigo = Case.of(config, info=info, batch=batch, source=Source.TOKENS, seed=5).model
    wanted, found = plain.model.state_dict(), indigo.state_dict()
    assert {name: tensor.shape for name, tensor in wanted.items() if name != "embed.weight"} == {
        name: tensor.shape
        for name, tensor in found.items()
        if name not in ("embed.weight", "words.map.weight", "pointer.weight")
    }
    indigo.load_state_dict({
        **found,
        **{name: tensor for name, tensor in wanted.items() if name != "embed.weight"},
        "words.map.weight": torch.eye(8),
        "embed.weight": torch.cat([wanted["embed.weight"], wanted["embed.weight"][:1], found["embed.weight"][6:]]),
    })  # fmt: skip
    indigo.stack.begin = without_the_second_boundary(indigo)
    log_probs, state = plain.model.start(batch)
    others, canvas = indigo.start(batch)
    torch.testing.assert_close(log_probs, others)
    for turn in range(4):
        word = torch.full((len(batch),), 1 + turn % 4)
        log_probs, state = plain.model.step(state, word)
        others, canvas = indigo.step(indigo.step(canvas, word)[1], torch.full_like(word, turn + 1))
        torch.testing.assert_close(log_probs, others)


def without_the_second_boundary(model):
    """Return a beginning that reads `<s>` alone, so that words follow it with nothing on their right."""
    begin = model.stack.begin

    def alone(states, sources, note):
        found, trail = begin(states[:, :1], sources, note)
        return torch.cat([found, found], 1), trail

    return alone


@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_it_reads_as_it_writes(positions):
    info = tiny_info(Source.TOKENS)
    model = TransformerConfig(**SMALL, positions=positions).load()(
        TransformerConfig(**SMALL, positions=positions), info
    )
    assert model.encoder.positions == positions
    bag = TransformerConfig(**SMALL, positions=positions)
    assert bag.load()(bag, tiny_info(Source.BAG)).encoder.positions == "none"


def test_it_needs_no_more_weights_than_the_insertion_model_but_for_these():
    info = tiny_info(Source.TOKENS)
    settings = TransformerConfig(**SMALL, positions="sinusoidal", source_positions="relative")
    plain = settings.load()(settings, info)
    config = IndigoConfig(**SMALL)
    indigo = config.load()(config, info)
    count = lambda model: sum(weights.numel() for weights in model.parameters())  # noqa: E731
    relations = 3 * 4 * 2  # of every layer of the decoder
    assert count(indigo) - count(plain) == 4 * 8**2 + relations + 2 * 8
