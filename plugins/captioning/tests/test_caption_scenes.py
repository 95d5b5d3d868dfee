from __future__ import annotations

import re

import numpy as np
import pytest

from bench_captioning.drawing import PAINTS, render
from bench_captioning.scenes import COLOURS, RELATION_PHRASES, SHAPES, Scene, Thing, relations, scenes
from bench_captioning.settings import Scenes

SETTINGS = Scenes(name="scenes", images=400, seed=3)
THING = rf"an? (?:(small|large) )?({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}


@pytest.fixture(scope="module")
def made():
    return scenes(SETTINGS)


def every(made):
    return [scene for found in made.values() for scene in found]


def named(scene, size, colour, shape):
    (found,) = [each for each in scene.things if (each.colour, each.shape) == (colour, shape)]
    assert size in ("", found.size)
    return found


def false(scene, relations=relations):
    """Return the captions that say something untrue of a scene."""
    wrong = []
    for caption in scene.captions:
        text = caption.lower()
        things = [named(scene, *match) for match in re.findall(THING, text)]
        said = [
            name for name, sayings in RELATION_PHRASES.items() if any(f" {saying} a" in text for saying in sayings)
        ]
        if said and said[0] not in relations(*things):
            wrong.append(caption)
        if (place := re.search(r"(at the|in the) .*(?=\.)", text)) and not said and place[0] != things[0].place:
            wrong.append(caption)
        if (number := re.match("(two|three|four) shapes", text)) and number[1] != {
            2: "two",
            3: "three",
            4: "four",
        }[len(scene.things)]:
            wrong.append(caption)
        if " and " in text and things != [*scene.things]:
            wrong.append(caption)
    return wrong


def test_captions_are_five_different_truths(made):
    assert all(len(set(scene.captions)) == 5 for scene in every(made))
    assert not [wrong for scene in every(made) for wrong in false(scene)]


def test_every_kind_of_saying_occurs(made):
    text = " ".join(caption.lower() for scene in every(made) for caption in scene.captions)
    sayings = [saying for each in RELATION_PHRASES.values() for saying in each]
    assert all(
        phrase in text for phrase in [*sayings, "shapes", " and ", "in the middle", "at the top left", "an or"]
    )


def test_the_mutant_that_confuses_sides_is_caught(made):
    def confused(one, other):
        return [OPPOSITE[relation] for relation in relations(one, other)]

    assert sum(len(false(scene, confused)) for scene in every(made)) > 300


def test_no_scene_is_there_twice_in_whatever_split(made):
    assert [len(found) for found in made.values()] == [400, 40, 40]
    contents = [frozenset(scene.things) for scene in every(made)]
    assert len(set(contents)) == len(contents)


def test_a_seed_decides_the_scenes(made):
    assert scenes.__wrapped__(SETTINGS) == made
    other = scenes(SETTINGS.model_copy(update={"seed": 4}))
    assert not {frozenset(scene.things) for scene in every(made)} & {frozenset(s.things) for s in other["train"][:50]}


def test_things_of_a_scene_stand_apart_and_have_names_of_their_own(made):
    for scene in every(made):
        assert 2 <= len(scene.things) <= 4
        assert len({(each.row, each.column) for each in scene.things}) == len(scene.things)
        assert len({(each.colour, each.shape) for each in scene.things}) == len(scene.things)


@pytest.mark.parametrize("pixels", [32, 64, 100])
def test_a_thing_is_drawn_where_and_as_large_as_it_is_said_to_be(pixels):
    for shape in SHAPES:
        small, large = (
            render(Scene((Thing(size, "red", shape, 2, 0),), ((0.0, 0.0),), 200, ()), pixels)
            for size in ("small", "large")
        )
        areas = []
        for image in (small, large):
            rows, columns = np.nonzero((image == PAINTS["red"]).all(2))
            assert abs(rows.mean() / pixels - 5 / 6) < 0.05
            assert abs(columns.mean() / pixels - 1 / 6) < 0.05
            areas.append(len(rows))
        assert areas[1] > 2 * areas[0] > 0


def test_no_two_scenes_look_alike(made):
    images = {render(scene, 64).tobytes() for scene in every(made)[:100]}
    assert len(images) == 100
    assert all(render(scene, 64).shape == (64, 64, 3) for scene in every(made)[:3])
