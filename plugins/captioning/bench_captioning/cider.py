"""CIDEr-D as the COCO evaluation computes it (Vedantam et al., 2015)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from pycocoevalcap.cider.cider_scorer import CiderScorer, cook_refs, cook_test  # type: ignore[import-untyped]

from bench_captioning.captions import SOME, CaptionMetric
from bench_captioning.plugin import CiderDConfig
from bench_core import Outcome, SuiteError, TaskInfo
from bench_metrics.api import blocks

NGram: TypeAlias = tuple[str, ...]
ORDER, SIGMA = 4, 6.0


@dataclass(frozen=True)
class Documents:
    """How many of so many images have an n-gram in a reference."""

    images: int
    frequency: Mapping[NGram, float]

    @classmethod
    def of(cls, references: Iterable[Sequence[str]]) -> Documents:
        """Count in the references of each image."""
        frequency: dict[NGram, float] = defaultdict(float)
        images = 0
        for each in references:
            images += 1
            for ngram in {ngram for counts in cook_refs(each, ORDER) for ngram in counts}:
                frequency[ngram] += 1
        return cls(images, frequency)


class _Among(list[Any]):
    """References that are as many as there are images; the scorer takes their number for that of the documents."""

    def __init__(self, references: Iterable[Any], images: int) -> None:
        super().__init__(references)
        self.images = images

    def __len__(self) -> int:
        return self.images


class CiderD(CaptionMetric[float]):
    """100 times the mean of CIDEr-D, which is 10 times a mean similarity, so that 1,000 is the most there can be.

    The similarity of text and reference is the cosine of their n-grams, each as often as in the reference at most and
    weighed by how few images it describes, less a Gaussian penalty on the difference in length; it is averaged over
    references and over n = 1 to 4. Undefined (nan) without examples.
    """

    label, factor = "CIDEr-D", 100.0
    config: CiderDConfig

    def __init__(self, config: CiderDConfig) -> None:
        super().__init__(config, f"order:{ORDER}|sigma:{SIGMA:g}")
        self.documents: Documents | None = None

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric with the document frequencies of the references, or of those of another split.

        Raises SuiteError where the task has kept no captions of that split, or where there are fewer than two images.
        """
        told = copy(super().prepare(info, references))
        split = self.config.documents
        if split is None:
            if not references:
                return told
            known, whose = references.values(), "references"
        else:
            kept = info.extras.get("documents", {})
            if split not in kept:
                raise SuiteError(
                    f"cider-d is to weigh words by the captions of {split}, which the task has not kept for metrics. "
                    f"Set `documents: [{split}]` in the task, or leave `documents` out of the metric."
                )
            known, whose = kept[split], split
        told.documents = _several(Documents.of(told.grouped(known)))
        told.signature = f"{told.signature}|documents:{whose} of {told.documents.images} images"
        return told

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[float]:
        """Yield the score of each example, by the documents that are known, else by the examples' references."""
        if self.documents is None and outcomes:
            documents = _several(Documents.of(references for _, references in self.compared(outcomes)))
        else:
            documents = self.documents or Documents(0, {})
        for pairs in blocks(self.compared(outcomes), SOME):
            yield from self._scores(pairs, documents)

    def _scores(self, pairs: Sequence[tuple[str, list[str]]], documents: Documents) -> list[float]:
        scorer = CiderScorer(n=ORDER, sigma=SIGMA)
        scorer.document_frequency = defaultdict(float, documents.frequency)
        scorer.ctest = [cook_test(text, ORDER) for text, _ in pairs]
        scorer.crefs = _Among((cook_refs(references, ORDER) for _, references in pairs), documents.images)
        return [float(score) for score in scorer.compute_cider()]


def _several(documents: Documents) -> Documents:
    """Refuse a single image: all that is said of it is said of every image, and so weighs nothing."""
    if documents.images < 2:
        raise SuiteError(
            "cider-d weighs words by how few images they describe, and with the references of one image all scores "
            "are 0. Take more examples (`limits.examples`), or leave this metric out."
        )
    return documents
