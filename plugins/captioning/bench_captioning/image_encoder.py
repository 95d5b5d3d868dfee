"""A convolutional encoder of images, trained with the model that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad

from bench_core import Source, TaskInfo

PATCH = 4  # width and height of a patch in pixels
REACH = 0.1  # largest coordinate: larger ones hide small things from an untrained encoder
SLOPE = 0.1  # of leaky rectifiers


def image_encoder(channels: Sequence[int], info: TaskInfo, pooled: bool = False) -> tuple[ImageEncoder | None, int]:
    """Return an encoder, if the source is an image, and the size of a feature vector; 0 without features."""
    if info.source != Source.IMAGE:
        return None, info.source_shape[-1] if info.source_shape else 0
    return ImageEncoder(channels, pooled), channels[-1] * (2 if pooled else 1)


class ImageEncoder(nn.Module):
    """A linear map of patches of 4 x 4 pixels, then convolutions that halve the sides, over images [N, 3, H, W].

    The coordinates of each pixel are two further input channels (Liu et al., 2018), so pooled features tell where
    things are. Stages are normalized per image, so a row does not depend on its batch.

    Pooled features are the mean and the maximum over positions: means of an untrained encoder are nearly equal for
    all images, so training on them alone suppresses features before it learns from them.
    """

    def __init__(self, channels: Sequence[int], pooled: bool) -> None:
        super().__init__()
        self.pooled = pooled
        patches = nn.Conv2d(5, channels[0], PATCH, stride=PATCH)
        halves = (nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(channels))
        self.stages = nn.Sequential(*map(_Stage, [patches, *halves]))

    def forward(self, images: Tensor) -> Tensor:
        """Return features [N, S, C], row by row, or pooled [N, 2 C], of images with values from 0 to 1."""
        dtype = next(self.parameters()).dtype
        states: Tensor = self.stages(_in_patches(_with_coordinates(4 * images.to(dtype) - 2)))
        if self.pooled:
            return torch.cat([states.mean((2, 3)), states.amax((2, 3))], 1)
        return states.flatten(2).transpose(1, 2)


class _Stage(nn.Module):
    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.normalize = nn.GroupNorm(1, convolution.out_channels)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")

    def forward(self, states: Tensor) -> Tensor:
        return leaky_relu(self.normalize(self.convolution(states)), SLOPE)


def _with_coordinates(images: Tensor) -> Tensor:
    """Append the vertical and horizontal position of each pixel, from -REACH to REACH [N, 5, H, W]."""
    height, width = images.shape[2:]
    down, right = (
        torch.linspace(-REACH, REACH, side, dtype=images.dtype, device=images.device) for side in (height, width)
    )
    position = torch.stack([down[:, None].expand(-1, width), right.expand(height, -1)])
    return torch.cat([images, position.expand(len(images), -1, -1, -1)], 1)


def _in_patches(images: Tensor) -> Tensor:
    """Pad images [N, C, H, W] at the bottom and on the right to whole patches."""
    return pad(images, (0, -images.shape[3] % PATCH, 0, -images.shape[2] % PATCH))
