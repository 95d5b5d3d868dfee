"""Star graphs: the path to a goal is easy to find from the goal, and a guess among the arms from the centre."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from bench_core import Batch, Purpose, Rng, Size, Split, TaskInfo
from bench_order_controls.control import OrderControl, Puzzle, shuffled
from bench_order_controls.plugin import StarGraphsConfig
from bench_text.api import Encoder, Example

SCALE = 5.0  # of features, which are 0 or SCALE


class StarGraphs(OrderControl):
    """A target has the nodes of one arm, from the centre to the goal; all nodes have random names.

    A source [S, D] has one row per edge, in random order: both ends, one-hot, and whether the edge leads to the goal.
    Rows of graphs with fewer edges are padded with 0.
    """

    config: StarGraphsConfig

    def prepare(self, data: Path) -> TaskInfo:
        config = self.config
        return replace(super().prepare(data), source_shape=(config.arms * config.most, 2 * config.nodes + 1))

    @property
    def words(self) -> tuple[Sequence[str], Sequence[str]]:
        return [], [str(node) for node in range(self.config.nodes)]

    def encoders(self, data: Path, found: object) -> tuple[None, Encoder]:
        """Return the vocabulary of node names."""
        return None, self.encoder(self.config.tokenizer, data, [" ".join(self.words[1])])

    def source_rows(self, examples: Sequence[Example], encoder: Encoder | None) -> None:
        """Return None: `batches` derives sources from extras."""

    def puzzle(self, rng: Random, length: int) -> Puzzle:
        names = shuffled(rng, self.config.nodes)
        centre, arms = names[0], [names[1 + arm * length :][:length] for arm in range(self.config.arms)]
        edges = [edge for arm in arms for edge in pairwise([centre, *arm])]
        mixed = [edges[index] for index in shuffled(rng, len(edges))]
        source = " ".join([*(f"{tail}>{head}" for tail, head in mixed), "to", str(arms[0][-1])])
        numbers = [arms[0][-1], *(node for edge in mixed for node in edge)]
        return Puzzle(source, [*map(str, arms[0])], range(length)[::-1], {"edges": numbers})

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        for batch in super().batches(split, purpose, size, rng):
            extras = {name: value for name, value in batch.extras.items() if name != "edges"}
            yield replace(batch, source=self._features(batch.extras["edges"]), extras=extras)

    def _features(self, numbers: Tensor) -> Tensor:
        """Return features [N, S, D] of goals and edges [N, 1 + 2 S'], padded with -1."""
        config = self.config
        ends = torch.full((len(numbers), 2 * config.arms * config.most), -1)
        ends[:, : numbers.shape[1] - 1] = numbers[:, 1:]
        nodes = one_hot(ends.view(len(ends), -1, 2) + 1, config.nodes + 1)[..., 1:]  # [N, S, 2, nodes]
        is_goal = ends[:, 1::2] == numbers[:, :1]
        return SCALE * torch.cat([nodes.flatten(2), is_goal[:, :, None]], 2).float()
