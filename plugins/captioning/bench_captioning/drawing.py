"""Renders generated scenes as images."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_captioning.scenes import SIDE, Scene

Pixels: TypeAlias = NDArray[np.uint8]

RADII = {"small": 0.07, "large": 0.125}  # fraction of the image width
PAINTS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 80, 200),
    "yellow": (240, 210, 30),
    "purple": (130, 60, 170),
    "orange": (255, 127, 14),
}


def render(scene: Scene, pixels: int) -> Pixels:
    """Return the image of a scene [pixels, pixels, 3]."""
    canvas = np.full((pixels, pixels, 3), scene.shade, np.uint8)
    down, right = (np.mgrid[:pixels, :pixels] + 0.5) / pixels
    for thing, (lower, further) in zip(scene.things, scene.offsets, strict=True):
        radius = RADII[thing.size]
        y = (down - ((thing.row + 0.5) / SIDE + lower)) / radius
        x = (right - ((thing.column + 0.5) / SIDE + further)) / radius
        canvas[_inside(thing.shape, x, y)] = PAINTS[thing.colour]
    return canvas


def _inside(shape: str, x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which points are inside a shape centred at the origin, with extent 1 in every direction."""
    if shape == "circle":
        return np.asarray(x**2 + y**2 <= 1)
    box = np.maximum(abs(x), abs(y)) <= 1
    if shape == "square":
        return np.asarray(box)
    if shape == "triangle":
        return np.asarray(box & (abs(x) <= (1 + y) / 2))
    return np.asarray(box & (np.minimum(abs(x), abs(y)) <= 0.35))
