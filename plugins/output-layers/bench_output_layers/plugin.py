"""The settings and parts that this plugin provides; does not import torch."""

from collections.abc import Set
from pathlib import Path
from typing import Literal, Self

from pydantic import PositiveInt, model_validator

from bench_core import MetricConfig, Scorer, hookimpl
from bench_output_layers.settings import FullOutputLayer, Hierarchical, OutputLayer, vector_files

__all__ = ["ClosenessConfig", "FullOutputLayer", "Hierarchical", "OutputLayer", "vector_files"]


class ClosenessConfig(MetricConfig):
    """Mean cosine between the target and wrong predictions (the most probable token after the gold tokens).

    Vectors are read from a file, or learned from a text: never those of the model under test.
    """

    name, target = "closeness", "bench_output_layers.closeness:Closeness"
    needs = Scorer
    range = -1, 1
    libraries = frozenset({"gensim"})

    vectors: Path | None = None  #: word vector file in word2vec or GloVe format
    text: Path | None = None  #: text to learn skip-gram vectors from, such as that of the training split
    size: PositiveInt = 100  #: dimensions of learned vectors
    of: Literal["predictions", "unigrams"] = (
        "predictions"  #: `unigrams`: in place of each, a token sampled by frequency
    )
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood

    @model_validator(mode="after")
    def _has_vectors(self) -> Self:
        if (self.vectors is None) == (self.text is None):
            raise ValueError("closeness needs word vectors: set either `vectors`, a file, or `text`, to learn them")
        return self

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if vectors are learned."""
        return {"vectors"} if self.text is not None else set()


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metric of closeness."""
    return [ClosenessConfig]
