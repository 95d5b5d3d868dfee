"""The encoder: tokens have an order, bags and features have none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench_authors.testing import Case, check_model, float64, tiny_batch, tiny_info
from bench_core import Batch, Rng, Scoring, Source, SuiteError, TaskInfo, Training
from bench_indigo.encoder import SourceEncoder
from bench_indigo.plugin import IndigoConfig, TransformerConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 2, "feed_forward": 12}
BAG = tiny_info(Source.BAG)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        torch.manual_seed(1)
        yield


def encoded(config, info, batch):
    states, mask = SourceEncoder(config, info, None).eval()(batch)
    return states[-1], mask


def batch_of(*sources):
    width = max(1, *map(len, sources))
    table = torch.tensor([[*source, *[0] * (width - len(source))] for source in sources])
    length = torch.tensor([len(source) for source in sources])
    return replace(tiny_batch([(1, 2)] * len(sources), prefix=0), source=table, source_length=length)


@pytest.mark.parametrize("info", [BAG, tiny_info(Source.TOKENS)], ids=["bag", "tokens"])
def test_a_bag_is_read_alike_in_any_order_and_tokens_are_not(info):
    torch.manual_seed(2)
    found, _ = encoded(IndigoConfig(**SMALL), info, batch_of([1, 2, 3, 2], [2, 3, 1, 2]))
    alike = torch.allclose(found[0], found[1][[2, 0, 1, 3]])
    assert alike == (info is BAG)


@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_tokens_know_their_positions(positions):
    config = IndigoConfig(**SMALL, source_positions=positions)
    found, _ = encoded(config, tiny_info(Source.TOKENS), batch_of([1, 2, 1]))
    assert not torch.allclose(found[0, 0], found[0, 2])


def test_without_positions_tokens_are_a_bag():
    config = IndigoConfig(**SMALL, source_positions="none")
    found, _ = encoded(config, tiny_info(Source.TOKENS), batch_of([1, 2, 1]))
    torch.testing.assert_close(found[0, 0], found[0, 2])


@pytest.mark.parametrize(
    "config", [IndigoConfig(**SMALL, beam=3), TransformerConfig(**SMALL)], ids=lambda one: one.name
)
def test_scores_of_a_bag_do_not_depend_on_its_order(config):
    case = Case.of(config, info=BAG, batch=batch_of([1, 2, 3, 2], [2, 3, 1, 2]))
    by = next(iter(config.likelihoods))
    found = case.model.score(case.batch, Scoring(by, Rng(1))).log_probs
    torch.testing.assert_close(found[0], found[1])


def test_an_empty_source_is_a_lone_stop():
    config = TransformerConfig(**SMALL)
    torch.manual_seed(2)
    found, mask = encoded(config, tiny_info(Source.TOKENS), batch_of([], [0]))
    torch.testing.assert_close(found[0], found[1])
    assert (mask == 0).all()
    torch.manual_seed(2)
    none = replace(batch_of([]), source=torch.zeros(1, 0, dtype=torch.long))
    torch.testing.assert_close(encoded(config, tiny_info(Source.TOKENS), none)[0], found[:1])


def test_padding_changes_nothing():
    torch.manual_seed(2)
    config, info = IndigoConfig(**SMALL), tiny_info(Source.TOKENS)
    encoder = SourceEncoder(config, info, None).eval()
    short, _ = encoder(batch_of([1, 2]))
    both, mask = encoder(batch_of([1, 2], [3, 3, 1, 2]))
    torch.testing.assert_close(both[-1][:1, :2], short[-1])
    assert (mask[0, 0, 0] == -torch.inf).tolist() == [False, False, True, True]


def test_a_vector_is_a_grid_of_one():
    vector, grid = tiny_batch(source=Source.VECTOR), tiny_batch(source=Source.VECTOR)
    grid = replace(grid, source=grid.source[:, None])
    torch.manual_seed(2)
    one, _ = encoded(IndigoConfig(**SMALL), TaskInfo(["<stop>", "a"], source_shape=(3,)), vector)
    torch.manual_seed(2)
    other, _ = encoded(IndigoConfig(**SMALL), TaskInfo(["<stop>", "a"], source_shape=(1, 3)), grid)
    assert torch.equal(one, other)


def test_features_have_no_order():
    batch = tiny_batch(source=Source.GRID)
    encoder = SourceEncoder(IndigoConfig(**SMALL), tiny_info(Source.GRID), None).eval()
    found = encoder(batch)[0][-1]
    turned = encoder(replace(batch, source=batch.source.flip(1)))[0][-1]
    torch.testing.assert_close(found, turned.flip(1))


@pytest.mark.parametrize(
    ("info", "what"), [(BAG, "a bag"), (tiny_info(Source.GRID), "features"), (tiny_info(Source.IMAGE), "an image")]
)
def test_positions_of_what_has_none_are_refused(info, what):
    with pytest.raises(SuiteError, match=f"`source_positions: relative`.*{what} has no order"):
        SourceEncoder(IndigoConfig(**SMALL, source_positions="relative"), info, None)


def test_every_layer_of_an_encoder_can_be_looked_at():
    config = IndigoConfig(**SMALL, cross_attention="forward", order="l2r")
    case = Case.of(config, source=Source.TOKENS)
    states, mask = case.model.encoder(case.batch)
    found = case.model.stack.read(states, mask)
    for layer, state, pair in zip(case.model.stack.layers, states, found.pairs, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(layer.cross.read(state), pair, strict=True))
    assert isinstance(case.batch, Batch)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "config", [TransformerConfig(**SMALL), IndigoConfig(**SMALL, beam=2)], ids=lambda one: one.name
)
def test_a_captioner_of_pixels_keeps_the_contracts(config):
    check_model(Case.of(config.model_copy(update={"image_channels": (4,)}), source=Source.IMAGE))


@pytest.mark.parametrize(
    "config", [IndigoConfig(**SMALL, beam=3), TransformerConfig(**SMALL)], ids=lambda one: one.name
)
def test_scores_depend_on_the_pixels_of_their_own_image_alone(config):
    case = Case.of(config, source=Source.IMAGE)
    by = next(iter(config.likelihoods))

    def scores(source):
        return case.model.score(replace(case.batch, source=source), Scoring(by, Rng(1))).log_probs

    expected, source = scores(case.batch.source), case.batch.source.clone()
    for changed in (source.flip(1), source.flip(2), source.flip(3)):
        assert ((scores(changed) - expected).abs() > 1e-7).all()
    source[2] = source[2].flip(2)
    others = [0, 1, 3, 4]
    torch.testing.assert_close(scores(source)[others], expected[others])


def test_gradients_reach_the_first_convolution():
    case = Case.of(TransformerConfig(**SMALL), source=Source.IMAGE)
    with torch.enable_grad():
        case.model.loss(case.batch, Training(0, 1, 0, 1, Rng(1))).value.backward()
    assert (case.model.encoder.image_encoder.stages[0].convolution.weight.grad != 0).any((2, 3)).all()
