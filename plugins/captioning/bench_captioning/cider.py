"""CIDEr-D, as in the COCO evaluation (Vedantam et al., 2015)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from pycocoevalcap.cider.cider_scorer import CiderScorer, cook_refs, cook_test  # type: ignore[import-untyped]

from bench_captioning.captions import EXAMPLES_PER_START, CaptionMetric
from bench_captioning.plugin import CiderDConfig
from bench_core import Prediction, SuiteError, TaskInfo
from bench_metrics.api import blocks

NGram: TypeAlias = tuple[str, ...]
ORDER, SIGMA = 4, 6.0


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of images, and for each n-gram, the number of images with this n-gram in a reference."""

    images: int
    frequency: Mapping[NGram, float]

    @classmethod
    def of(cls, references: Iterable[Sequence[str]]) -> DocumentFrequencies:
        """Count the images whose references contain each n-gram."""
        frequency: dict[NGram, float] = defaultdict(float)
        images = 0
        for each in references:
            images += 1
            for ngram in {ngram for counts in cook_refs(each, ORDER) for ngram in counts}:
                frequency[ngram] += 1
        return cls(images, frequency)


class _SizedReferences(list[Any]):
    """References whose length is reported as the number of images: the scorer uses it as the number of documents."""

    def __init__(self, references: Iterable[Any], images: int) -> None:
        super().__init__(references)
        self.images = images

    def __len__(self) -> int:
        return self.images


class CiderD(CaptionMetric[float]):
    """100 times the mean CIDEr-D, which is 10 times a mean similarity, so the maximum is 1,000.

    The similarity of a text and a reference is the cosine of their n-gram vectors, with counts clipped to the
    reference and weighted by inverse document frequency, times a Gaussian penalty on the length difference; it is
    averaged over references and over n = 1 to 4. Undefined (nan) without examples.
    """

    label, factor = "CIDEr-D", 100.0
    config: CiderDConfig

    def __init__(self, config: CiderDConfig) -> None:
        super().__init__(config, f"order:{ORDER}|sigma:{SIGMA:g}")
        self.documents: DocumentFrequencies | None = None

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the document frequencies of the references, or of another split's captions.

        Raises SuiteError if the task did not store the captions of that split, or if there are fewer than two images.
        """
        metric = copy(super().prepare(info, references))
        split = self.config.documents
        if split is None:
            if not references:
                return metric
            known, whose = references.values(), "references"
        else:
            documents = info.extras.get("documents", {})
            if split not in documents:
                raise SuiteError(
                    f"cider-d needs the captions of {split} for document frequencies, which the task does not store. "
                    f"Set `documents: [{split}]` in the task, or remove `documents` from the metric."
                )
            known, whose = documents[split], split
        metric.documents = _check_images(DocumentFrequencies.of(metric.tokenize_groups(known)))
        metric.signature = f"{metric.signature}|documents:{whose} of {metric.documents.images} images"
        return metric

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield the score of each example, with document frequencies from `prepare`, or else from the references."""
        if self.documents is None and predictions:
            documents = _check_images(
                DocumentFrequencies.of(references for _, references in self.text_pairs(predictions))
            )
        else:
            documents = self.documents or DocumentFrequencies(0, {})
        for pairs in blocks(self.text_pairs(predictions), EXAMPLES_PER_START):
            yield from self._scores(pairs, documents)

    def _scores(self, pairs: Sequence[tuple[str, list[str]]], documents: DocumentFrequencies) -> list[float]:
        scorer = CiderScorer(n=ORDER, sigma=SIGMA)
        scorer.document_frequency = defaultdict(float, documents.frequency)
        scorer.ctest = [cook_test(text, ORDER) for text, _ in pairs]
        scorer.crefs = _SizedReferences((cook_refs(references, ORDER) for _, references in pairs), documents.images)
        return [float(score) for score in scorer.compute_cider()]


def _check_images(documents: DocumentFrequencies) -> DocumentFrequencies:
    """Raise SuiteError for a single image: all of its n-grams have weight 0."""
    if documents.images < 2:
        raise SuiteError(
            "cider-d weights words by inverse document frequency; with the references of one image all scores "
            "are 0. Use more examples (`limits.examples`), or leave this metric out."
        )
    return documents
