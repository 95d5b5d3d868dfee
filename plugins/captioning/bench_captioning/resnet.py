"""Features of a frozen ResNet, computed once (He et al., 2016)."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import ResNetConfig, ResNetModel
from transformers.utils import logging

from bench_captioning.corpus import CaptionCorpus, feature_files
from bench_captioning.drawing import Pixels
from bench_captioning.feature_files import CHUNK, FeatureInfo, open_features
from bench_captioning.images import load_square
from bench_captioning.settings import ResNet
from bench_core import DataError, Split, diverged
from bench_text.api import corpora

# statistics of ImageNet, on which the published weights were trained
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def compute_features(settings: ResNet, form: str, corpus: CaptionCorpus, data: Path, folder: Path) -> FeatureInfo:
    """Write the features of each split's images; raise DataError that names broken images or weights.

    Features of a random network are standardized per channel to mean 0 and variance 1 on the training images.
    """
    network, about = _random(settings) if settings.path is None else _load_pretrained(settings, data)
    corpus.check_images()
    shape: tuple[int, ...] = ()
    for split in corpus.splits:
        chunks = _chunks(network, settings.pixels, form, corpus, split)
        first = next(chunks)
        shape = first.shape[1:]
        table = open_features(folder, split, (len(corpus.splits[split]), *shape))
        start = 0
        for chunk in chain([first], chunks):
            table[start : start + len(chunk)] = chunk
            start += len(chunk)
    about = f"{about}, {settings.pixels} pixels"
    if settings.path:
        return FeatureInfo(shape, about)
    _standardize(folder, list(corpus.splits))
    return FeatureInfo(shape, about, f"Image features of {corpus.name} are from {about}, which is untrained.")


def _random(settings: ResNet) -> tuple[Any, str]:
    depths = settings.depths or (1,) * len(settings.widths)
    config = ResNetConfig(
        embedding_size=settings.widths[0],
        hidden_sizes=list(settings.widths),
        depths=list(depths),
        layer_type="basic",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed % 2**63)
        network = ResNetModel(config).float().eval()
    widths, layers = ("-".join(map(str, each)) for each in (settings.widths, depths))
    return network, f"a random ResNet (widths {widths}, depths {layers}, seed {settings.seed})"


def _load_pretrained(settings: ResNet, data: Path) -> tuple[Any, str]:
    """Load a network from a folder; raise DataError if it is not a ResNet or its weights are incomplete."""
    about, weights = feature_files(settings, data)
    try:
        kind = json.loads(corpora.read_text(about)).get("model_type")
    except (ValueError, AttributeError):
        kind = None
    if kind != "resnet":
        raise DataError(f"{about} is for a model of type {kind!r}, not 'resnet'. Provide a ResNet of transformers.")
    progress_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        network, report = ResNetModel.from_pretrained(
            about.parent, local_files_only=True, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # any error in the files
        raise DataError(
            f"the ResNet in {about.parent} cannot be loaded: {' '.join(str(error).split())}. Download it again."
        ) from None
    finally:
        if progress_bar:
            logging.enable_progress_bar()
    if report["missing_keys"]:
        raise DataError(f"{weights} lacks {len(report['missing_keys'])} of the ResNet's weights. Download it again.")
    wrong = diverged(network)
    if wrong:
        raise DataError(f"{weights}: {wrong}. Download it again.")
    return network.eval(), f"the ResNet {about.parent.name} ({corpora.digest(weights)[:8]})"


def _chunks(network: Any, size: int, form: str, corpus: CaptionCorpus, split: Split) -> Iterator[NDArray[Any]]:
    """Yield features [N, D] or [N, S, D] of a split's images, in order."""
    pictures = corpus.splits[split]
    for start in range(0, len(pictures), CHUNK):
        images = np.stack(
            [_pixels(load_square(corpus, split, each, size)) for each in pictures[start : start + CHUNK]]
        )
        with torch.no_grad():
            features: Tensor = network(torch.from_numpy(images)).last_hidden_state  # [N, D, H, W]
        yield (features.mean((2, 3)) if form == "vector" else features.flatten(2).transpose(1, 2)).numpy()


def _pixels(image: Pixels) -> NDArray[Any]:
    """Normalize an image [size, size, 3] like the published weights [3, size, size]."""
    normalized: NDArray[Any] = ((image.astype(np.float32) / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)
    return normalized


def _standardize(folder: Path, splits: list[Split]) -> None:
    """Standardize every channel on the training images; a constant channel becomes 0."""
    train = open_features(folder, "train")
    axes = tuple(range(train.ndim - 1))
    mean = train.mean(axes, dtype=np.float64)
    deviation = train.std(axes, dtype=np.float64)
    deviation[deviation < 1e-6] = 1
    for split in splits:
        table = np.load(folder / f"{split}.features.npy", mmap_mode="r+", allow_pickle=False)
        for start in range(0, len(table), CHUNK):
            table[start : start + CHUNK] = (table[start : start + CHUNK] - mean) / deviation
        table.flush()
