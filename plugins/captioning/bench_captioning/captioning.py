"""The captioning task: image features in, captions out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bench_captioning.annotations import Picture
from bench_captioning.corpus import Captioned, captioned
from bench_captioning.feature_files import Described, opened
from bench_captioning.plugin import CaptioningConfig
from bench_captioning.settings import Precomputed, Scenes
from bench_captioning.words import words
from bench_core import STOP, Batch, DataError, Noise, Purpose, Size, Split, Task, TaskInfo
from bench_text.api import Encoder, Ragged, Words, bucketed, cut, join, learn, padded, shuffled

Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """The captions of one split, those of an image next to each other."""

    tokens: Ragged  # of each caption, ended by stop
    images: Numbers  # [R] the image of each, counted from 0
    ids: Numbers  # [R]
    trained: Numbers  # [M] the captions to train on

    @classmethod
    def load(cls, folder: Path, split: Split) -> Examples:
        """Open what `save` left."""
        arrays = [
            np.load(folder / f"{split}.{name}.npy", allow_pickle=False) for name in ("images", "ids", "trained")
        ]
        return cls(Ragged.load(folder, split), *arrays)

    def save(self, folder: Path, split: Split) -> None:
        """Write arrays into a folder."""
        self.tokens.save(folder, split)
        for name in ("images", "ids", "trained"):
            np.save(folder / f"{split}.{name}.npy", getattr(self, name), allow_pickle=False)

    @property
    def first(self) -> Numbers:
        """Return the first caption of each image [I]."""
        return np.flatnonzero(np.diff(self.images, prepend=-1))


class Captioning(Task):
    """An image's features, and a caption; rows to train and to score are captions, rows to decode images.

    The n-th caption of image i of a split has the id i * w + n, both counted from 0, where w is the least power of 10
    that is no smaller than the number of captions of any image, and 10 at least. An image to decode has the id and
    the target of its first caption, and all of its captions as references.
    """

    config: CaptioningConfig

    def prepare(self, data: Path) -> TaskInfo:
        corpus = captioned(self.config.corpus, data)
        spaced = {split: [_spaced(picture) for picture in found] for split, found in corpus.splits.items()}
        encoder = self._encoder(corpus.name, spaced["train"])
        statistics = {}
        for split, pictures in corpus.splits.items():
            rows = _examples(spaced[split], encoder, self._longest if split == "train" else np.inf)
            rows.save(self.folder, split)
            self._keep(f"{split}.captions", [list(picture.captions) for picture in pictures])
            self._keep(f"{split}.names", [picture.name or str(picture.id) for picture in pictures])
            statistics[split] = _statistics(rows, pictures, encoder)
        self._keep("vocabulary", encoder.vocabulary)
        features = self._features(corpus, data)
        counts = _counts(Examples.load(self.folder, "train"), len(encoder.vocabulary))
        about = {
            "corpus": corpus.name,
            "embedded": isinstance(self.config.corpus, Scenes),
            "features": features.about,
        }
        notice = {"notice": features.notice} if features.notice else {}
        documents = {split: self._kept(f"{split}.captions") for split in self.config.documents}
        extras = {**about, **notice, "statistics": statistics, **({"documents": documents} if documents else {})}
        return TaskInfo(encoder.vocabulary, counts, source_shape=features.shape, extras=extras)

    @property
    def _longest(self) -> float:
        return self.config.longest or np.inf

    def _encoder(self, name: str, captions: Sequence[Sequence[str]]) -> Encoder:
        """Learn the vocabulary from the captions to train on; raise DataError if nothing is left of them."""
        lines = [line for each in captions for line in each if len(line.split()) <= self._longest]
        if not lines:
            raise DataError(f"all captions of {name} have more than `longest: {self._longest}` words. Raise it.")
        most = None if self.config.vocab_size is None else self.config.vocab_size - 2
        encoder = learn(Words(min_count=self.config.min_count, most_words=most), lines, [])
        if not encoder.ordinary:
            raise DataError(
                f"no word stands in the {len(lines):,} captions to train on {self.config.min_count} times. Set a "
                "smaller `min_count`."
            )
        return encoder

    def _features(self, corpus: Captioned, data: Path) -> Described:
        settings, form = self.config.features, self.config.form
        if isinstance(settings, Precomputed):
            from bench_captioning.precomputed import copied

            return copied(settings, form, corpus, data, self.folder)
        from bench_captioning.resnet import computed

        return computed(settings, form, corpus, data, self.folder)

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield a caption a row, or an image a row to decode; sizes in tokens count captions with padding."""
        examples, features = Examples.load(self.folder, split), opened(self.folder, split)
        rows = examples.first if purpose == Purpose.DECODE else np.arange(len(examples.ids))
        rows = examples.trained if purpose == Purpose.TRAIN else rows
        lengths = examples.tokens.lengths[rows]
        if noise and purpose == Purpose.TRAIN:
            groups = bucketed(lengths, size, noise)
        else:
            order = shuffled(len(rows), noise)
            groups = cut(order, lengths[order], size)
        edges = examples.tokens.edges
        for group in groups:
            chosen = rows[group]
            yield Batch(
                ids=torch.from_numpy(examples.ids[chosen]),
                opening=torch.full((len(chosen), 1), STOP),
                gold=padded(examples.tokens.tokens, edges[chosen], edges[chosen + 1]),
                length=torch.from_numpy(lengths[group]),
                source=torch.from_numpy(np.asarray(features[examples.images[chosen]])),
            )

    @cached_property
    def _vocabulary(self) -> list[str]:
        return list(self._kept("vocabulary"))

    def text(self, tokens: list[int]) -> str:
        """Join words by spaces, as the captions were cut: the metrics of captions cut them again, and alike."""
        return join("word", [self._vocabulary[token] for token in tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return all captions of each image, by the id of its row to decode, as they stand in the annotations."""
        return dict(zip(self._decoded(split), self._kept(f"{split}.captions"), strict=True))

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the file of each image, or what a generated scene holds, by the id of its row to decode."""
        return dict(zip(self._decoded(split), self._kept(f"{split}.names"), strict=True))

    def _decoded(self, split: Split) -> list[int]:
        examples = Examples.load(self.folder, split)
        found: list[int] = examples.ids[examples.first].tolist()
        return found

    def _keep(self, name: str, value: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

    def _kept(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))


def _spaced(picture: Picture) -> list[str]:
    """Return the captions of an image with spaces between their words."""
    return [" ".join(words(caption)) for caption in picture.captions]


def _examples(captions: Sequence[Sequence[str]], encoder: Encoder, longest: float) -> Examples:
    """Return the captions of a split as tokens, of which those of at most `longest` words are trained on."""
    width = next(10**n for n in count(1) if 10**n >= max(map(len, captions)))
    lines = [line for each in captions for line in each]
    tokens = Ragged.of([*row, STOP] for row in encoder.encode(lines))
    images = np.repeat(np.arange(len(captions)), [len(each) for each in captions])
    places = np.concatenate([np.arange(len(each)) for each in captions])
    return Examples(tokens, images, images * width + places, np.flatnonzero(tokens.lengths - 1 <= longest))


def _counts(examples: Examples, size: int) -> list[int]:
    """Return how often each token of the vocabulary stands in the captions to train on."""
    edges = examples.tokens.edges
    used = np.zeros(int(edges[-1]) + 1, np.int64)  # +1 where a caption to train on begins, -1 where it ends
    np.add.at(used, edges[examples.trained], 1)
    np.add.at(used, edges[examples.trained + 1], -1)
    inside = used.cumsum()[:-1] > 0
    found: list[int] = np.bincount(examples.tokens.tokens[inside], minlength=size).tolist()
    return found


def _statistics(examples: Examples, pictures: Sequence[Picture], encoder: Encoder) -> dict[str, int | float]:
    """Return how many images, captions, tokens (without stop), types and unknown tokens there are."""
    lengths, numbers = examples.tokens.lengths - 1, [len(picture.captions) for picture in pictures]
    return {
        "images": len(pictures),
        "captions": len(lengths),
        "fewest_captions": min(numbers),
        "most_captions": max(numbers),
        "tokens": int(lengths.sum()),
        "types": len(np.unique(examples.tokens.tokens)) - 1,
        "unknown": int((examples.tokens.tokens == encoder.unknown).sum()),
        "mean_length": round(float(lengths.mean()), 2),
        "max_length": int(lengths.max()),
        "left_out_empty": sum(picture.empty for picture in pictures),
        "left_out_long": len(lengths) - len(examples.trained),
    }
