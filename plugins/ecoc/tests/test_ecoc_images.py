"""Captioners of pixels: the image decides the caption, and the encoder is trained with the captioner."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from bench_authors.testing import Case, check_model
from bench_captioning.drawing import render
from bench_captioning.scenes import COLOURS, SHAPES, Scene, Thing
from bench_core import Batch, Rng, Scoring, Source, TaskInfo, Training
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig

SMALL = {"embedding": 6, "hidden": 6, "sparse": False, "initial_scale": 0.4, "image_channels": (3, 4)}
RNG = Rng(5)
CONFIGS = [ECOCLMConfig.model_validate(SMALL), SoftmaxLMConfig.model_validate(SMALL)]


def named(config):
    return config.name


@pytest.mark.quick(1)
@pytest.mark.parametrize("config", CONFIGS, ids=named)
def test_a_captioner_of_pixels_keeps_the_contracts(config):
    check_model(Case.of(config, source=Source.IMAGE))


@pytest.mark.parametrize("config", CONFIGS, ids=named)
def test_captions_depend_on_all_of_their_own_image_alone(config):
    case = Case.of(config, source=Source.IMAGE)
    scores = case.model.score(case.batch, Scoring("exact", RNG)).log_probs
    for changed in (case.batch.source.flip(1), case.batch.source.flip(2), case.batch.source.flip(3)):
        others = case.model.score(replace(case.batch, source=changed), Scoring("exact", RNG)).log_probs
        assert ((others - scores).abs() > 1e-6).all()
    source = case.batch.source.clone()
    source[2] = source[2].flip(2)
    others = case.model.score(replace(case.batch, source=source), Scoring("exact", RNG)).log_probs
    torch.testing.assert_close(others[[0, 1, 3, 4]], scores[[0, 1, 3, 4]])


@pytest.mark.parametrize("config", CONFIGS, ids=named)
def test_the_loss_reaches_the_first_convolution_as_finite_differences_say(config):
    case = Case.of(config.model_copy(update={"dropout": config.dropout.model_copy()}), source=Source.IMAGE)
    lm = case.model.eval()
    weight = lm.image_encoder.stages[0].convolution.weight
    direction = torch.randn_like(weight)

    def value(step):
        with torch.no_grad():
            weight.add_(step * direction)
            result = lm.loss(case.batch, Training(0, 1, 0, 1, RNG)).value
            weight.sub_(step * direction)
        return result

    lm.loss(case.batch, Training(0, 1, 0, 1, RNG)).value.backward()
    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    assert slope.abs() > 1e-7
    torch.testing.assert_close((weight.grad * direction).sum(), slope, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS, ids=named)
def test_saved_weights_give_the_same_captions(config):
    case, other = (Case.of(config, source=Source.IMAGE, seed=seed) for seed in (1, 2))
    first, _ = case.model.start(case.batch)
    assert not torch.equal(other.model.start(case.batch)[0], first)
    other.model.load_state_dict(load(save(case.model.state_dict())))
    assert torch.equal(other.model.start(case.batch)[0], first)


# known truth: scenes of one shape, whose caption is its colour and its shape

WORDS = ["<stop>", *COLOURS, *SHAPES]
UPDATES = 400
INFO = TaskInfo(WORDS, source=Source.IMAGE, source_shape=(3, 32, 32))


def single_things(seed, number):
    """Return captions of scenes with one shape of random size, place and offset, with their pixels."""
    random = torch.Generator().manual_seed(seed)

    def draw(limit):
        return int(torch.randint(limit, (), generator=random))

    images, gold = [], []
    for _ in range(number):
        colour, shape = draw(len(COLOURS)), draw(len(SHAPES))
        thing = Thing(("small", "large")[draw(2)], COLOURS[colour], SHAPES[shape], draw(3), draw(3))
        scene = Scene((thing,), ((draw(9) / 200 - 0.02, draw(9) / 200 - 0.02),), 190 + draw(60), ())
        images.append(torch.from_numpy(render(scene, 32)).permute(2, 0, 1) / 255)
        gold.append([1 + colour, 1 + len(COLOURS) + shape, 0])
    ids = torch.arange(number)
    return Batch(ids, torch.zeros(number, 1, dtype=torch.long), torch.tensor(gold), ids * 0 + 3, torch.stack(images))


def share_of_colours(shuffled):
    """Train a captioner, perhaps with images of other rows; return the share of correct colours of new scenes."""
    torch.manual_seed(1)
    settings = {
        "embedding": 16,
        "hidden": 32,
        "layers": 1,
        "dropout": 0.0,
        "image_channels": (16, 32),
        "sparse": False,
    }
    lm = SoftmaxLMConfig.model_validate(settings)
    lm = lm.load()(lm, INFO)
    optimizer = torch.optim.Adam(lm.train().parameters(), 5e-3)
    rows = single_things(0, 1000)
    if shuffled:
        rows = replace(rows, source=rows.source.roll(1, 0))
    for step in range(UPDATES):
        optimizer.zero_grad()
        some = torch.randint(len(rows), (40,))
        lm.loss(rows.select(some), Training(step, UPDATES, 0, 1, RNG.fork(step))).value.backward()
        optimizer.step()
    test = single_things(1, 300)
    hidden, _ = lm.eval().predict(test, Scoring("exact", RNG))
    correct = lm.head.logits(hidden).argmax(2) == test.gold
    return correct.double().mean(0)[0].item()


@pytest.mark.slow
def test_an_encoder_learns_the_colour_of_a_scene_and_with_other_images_it_does_not():
    assert share_of_colours(shuffled=False) > 0.9
    assert share_of_colours(shuffled=True) < 0.35  # by chance 0.17
