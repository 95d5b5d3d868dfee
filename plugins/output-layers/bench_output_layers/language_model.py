"""Language models with any of this package's output layers."""

from collections.abc import Callable, Iterator, Mapping

import torch

from bench_core import Batch, Rng, TaskInfo
from bench_core.kit import LanguageModel
from bench_output_layers.layer import ScoringHead


class OutputLayerLM(LanguageModel):
    """A language model whose output layer may learn from the training split before the first update."""

    head: ScoringHead
    info: TaskInfo

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], rng: Rng) -> None:
        if self.head.needs_statistics:
            self.head.fit_statistics([row for batch in batches() for row in _sentences(batch)], self.info, rng)

    def notes(self) -> Mapping[str, str]:
        return self.head.notes()


def _sentences(batch: Batch) -> list[list[int]]:
    """Return the tokens of each row, without the first token of the prompt."""
    rows = torch.cat([batch.prompt[:, 1:], batch.gold], 1).tolist()
    lengths = (batch.length + batch.prompt.shape[1] - 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
