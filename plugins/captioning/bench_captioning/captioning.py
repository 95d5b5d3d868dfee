"""The captioning task: pixels or image features in, captions out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_captioning.corpus import load_corpus
from bench_captioning.feature_files import FeatureInfo, open_features
from bench_captioning.plugin import CaptioningConfig
from bench_captioning.settings import FeatureFolder, Pixels, Precomputed, Scenes
from bench_captioning.words import words
from bench_core import Batch, DataError, Purpose, Rng, Size, Split, TaskInfo
from bench_text.api import EncodedExamples, Encoder, Example, SequenceTask, Words, join, token_statistics


class Captioning(SequenceTask):
    """Images and captions: training and scoring rows are captions, decoding rows are images.

    The n-th caption of image i of a split has the id i * w + n, both counted from 0, where w is the smallest power of
    10, at least 10, that is not below the number of captions of any image. A decoding row has the id and target of
    the image's first caption, and all of its captions as references.
    """

    config: CaptioningConfig

    def prepare(self, data: Path) -> TaskInfo:
        self._corpus = load_corpus(self.config.corpus, data)
        self._features = self._prepare_features(data)
        return replace(super().prepare(data), source_shape=self._features.shape)

    def _prepare_features(self, data: Path) -> FeatureInfo:
        settings, form = self.config.features, self.config.form or "vector"
        if isinstance(settings, Pixels):
            from bench_captioning.images import store_pixels

            return store_pixels(settings.side(self.config.corpus), self._corpus, self.folder)
        if isinstance(settings, Precomputed | FeatureFolder):
            from bench_captioning.precomputed import copy_features

            return copy_features(settings, form, self._corpus, data, self.folder)
        from bench_captioning.resnet import compute_features

        return compute_features(settings, form, self._corpus, data, self.folder)

    def examples(self, split: Split, data: Path) -> Iterator[Example]:
        """Yield captions with spaces between words; long captions are scored, but not used in training."""
        pictures = self._corpus.splits[split]
        width = next(10**n for n in count(1) if 10**n >= max(len(picture.captions) for picture in pictures))
        for image, picture in enumerate(pictures):
            for place, caption in enumerate(picture.captions):
                spaced = words(caption)
                long = split == "train" and len(spaced) > (self.config.longest or np.inf)
                unused = {Purpose.TRAIN} if long else set()
                unused |= {Purpose.DECODE} if place else set()
                yield Example(
                    None,
                    " ".join(spaced),
                    picture.captions,
                    id=image * width + place,
                    source_text=picture.name or str(picture.id),
                    purposes=set(Purpose) - unused,
                    raw=caption,
                )

    def encoders(self, data: Path, examples: Mapping[Split, Sequence[Example]]) -> tuple[None, Encoder]:
        """Learn the vocabulary from the training captions; raise DataError if no captions are left."""
        lines = [example.target for example in examples["train"] if Purpose.TRAIN in example.purposes]
        if not lines:
            raise DataError(
                f"all captions of {self._corpus.name} have more than `longest: {self.config.longest}` words. "
                "Increase `longest`."
            )
        most = None if self.config.vocab_size is None else self.config.vocab_size - 2
        encoder = self.encoder(Words(min_count=self.config.min_count, most_words=most), data, lines)
        if not encoder.ordinary:
            raise DataError(
                f"no word occurs {self.config.min_count} times in the {len(lines):,} training captions. Decrease "
                "`min_count`."
            )
        return None, encoder

    def source_rows(self, examples: Sequence[Example], encoder: Encoder | None) -> None:
        """Return None: pixels or features are in separate files, one row per image."""

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Return all captions, and the numbers of captions excluded from the split and from training."""
        empty = sum(picture.empty for picture in self._corpus.splits[split])
        return encoded, {"left_out_empty": empty, "left_out_long": int((~encoded.trains).sum())}

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        captions = [len(example.references) for example in encoded.examples if Purpose.DECODE in example.purposes]
        return {
            "images": len(captions),
            "captions": len(encoded),
            "fewest_captions": min(captions),
            "most_captions": max(captions),
            **token_statistics(encoded.target),
        }

    def about(self, data: Path) -> dict[str, Any]:
        notice = {"notice": self._features.notice} if self._features.notice else {}
        documents = {
            split: [list(picture.captions) for picture in self._corpus.splits[split]]
            for split in self.config.documents
        }
        return {
            "corpus": self._corpus.name,
            "embedded": isinstance(self.config.corpus, Scenes),
            "features": self._features.about,
            **notice,
            **({"documents": documents} if documents else {}),
        }

    def text(self, tokens: list[int]) -> str:
        """Join words with spaces; the caption metrics tokenize texts again, with the same result."""
        return join("word", [self.vocabulary[token] for token in tokens])

    def groups(self, split: Split) -> Mapping[int, int]:
        """Return the image of each caption id, as captions of one image are not independent."""
        first = [*self.references(split)]
        ends = [*first[1:], first[-1] + max(map(len, self.references(split).values()))] if first else []
        pairs = enumerate(zip(first, ends, strict=True))
        return {number: image for image, (start, end) in pairs for number in range(start, end)}

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        """Yield batches of captions, or of images for decoding; sizes in tokens count captions with padding."""
        features, first = open_features(self.folder, split), np.array([*self.references(split)])
        for batch in super().batches(split, purpose, size, rng):
            images = first.searchsorted(batch.ids.numpy(), "right") - 1
            source = torch.from_numpy(np.asarray(features[images]))
            yield replace(batch, source=source / 255 if source.dtype is torch.uint8 else source)
