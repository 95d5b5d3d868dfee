"""The encoder sees all of its image, and of no other."""

from __future__ import annotations

import pytest
import torch

from bench_authors.testing import float64
from bench_captioning.api import ImageEncoder, image_encoder
from bench_core import Source, TaskInfo

CHANNELS = (4, 6)


@pytest.fixture(autouse=True)
def double():
    with float64():
        torch.manual_seed(3)
        yield


def images(*shape):
    return torch.rand(*(shape or (3, 3, 12, 8)))


@pytest.mark.parametrize(
    ("sides", "cells"), [((8, 8), 1), ((16, 16), 4), ((12, 20), 6), ((1, 1), 1), ((9, 17), 6), ((64, 64), 64)]
)
def test_patches_are_of_4_pixels_and_each_further_stage_halves_the_sides(sides, cells):
    assert ImageEncoder(CHANNELS, pooled=False)(images(2, 3, *sides)).shape == (2, cells, 6)


def test_an_image_is_encoded_alike_alone_and_in_a_batch_and_in_training():
    encoder, batch = ImageEncoder(CHANNELS, pooled=False), images()
    together = encoder.train()(batch)
    alone = torch.cat([encoder.eval()(image[None]) for image in batch])
    torch.testing.assert_close(alone, together)


def test_every_pixel_and_every_channel_counts():
    batch = images(1, 3, 9, 10).requires_grad_()
    ImageEncoder((8, 8), pooled=False)(batch).square().sum().backward()
    assert (batch.grad != 0).all()


@pytest.mark.parametrize("change", ["pixels", "channels", "images"])
def test_shuffled_pixels_channels_or_images_are_encoded_differently(change):
    encoder, batch = ImageEncoder(CHANNELS, pooled=False), images()
    shuffled = {
        "pixels": batch.flatten(2)[:, :, torch.randperm(96)].view_as(batch),
        "channels": batch.flip(1),
        "images": batch.flip(0),
    }[change]
    means, others = encoder(batch).mean(1), encoder(shuffled).mean(1)
    assert (means - others).abs().amax(1)[0] > 1e-3
    if change == "images":
        torch.testing.assert_close(means.flip(0), others)


def test_pooled_features_are_means_and_maxima_and_tell_where_a_thing_is():
    left = torch.zeros(1, 3, 32, 32)
    left[:, :, 12:20, 8:16] = 1
    encoder, grid = ImageEncoder(CHANNELS, pooled=True), ImageEncoder(CHANNELS, pooled=False)
    grid.load_state_dict(encoder.state_dict())
    assert torch.equal(encoder(left), torch.cat([grid(left).mean(1), grid(left).amax(1)], 1))
    for part, other in zip(encoder(left).chunk(2, 1), encoder(left.roll(8, 3)).chunk(2, 1), strict=True):
        assert (part - other).abs().max() > 1e-4


def test_gradients_reach_the_first_convolution_and_are_those_of_finite_differences():
    encoder, batch = ImageEncoder(CHANNELS, pooled=False), images()
    weight, direction = encoder.stages[0].convolution.weight, torch.randn(4, 5, 4, 4)

    def value(step):
        with torch.no_grad():
            weight.add_(step * direction)
            result = encoder(batch).sin().sum()
            weight.sub_(step * direction)
        return result

    encoder(batch).sin().sum().backward()
    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    torch.testing.assert_close((weight.grad * direction).sum(), slope, rtol=1e-5, atol=1e-7)
    assert (weight.grad != 0).any((2, 3)).all()  # of each channel, coordinates included


def test_images_alone_have_an_encoder():
    def of(source, shape, pooled=False):
        encoder, size = image_encoder(CHANNELS, TaskInfo(["<stop>"], source=source, source_shape=shape), pooled)
        assert encoder is None or encoder(images()).shape[-1] == size
        return encoder is not None, size

    assert of(Source.IMAGE, (3, 12, 8)) == (True, 6)
    assert of(Source.IMAGE, (3, 12, 8), pooled=True) == (True, 12)
    assert of(Source.GRID, (2, 5)) == (False, 5)
    assert of(Source.VECTOR, (7,)) == (False, 7)
    assert of(Source.TOKENS, ()) == (False, 0)
