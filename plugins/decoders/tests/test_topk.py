"""The k highest values: ties go to the lower index."""

from __future__ import annotations

import pytest
import torch

from bench_decoders.api import topk_stable


@pytest.mark.parametrize("k", [1, 3, 10, 30, 50])
def test_the_best_of_equal_values_have_the_lowest_places(k):
    """Small integers tie everywhere, across the border of the k best too."""
    values = torch.randint(0, 4, (200, 30), generator=torch.Generator().manual_seed(k)).double()
    values[values == 0] = -torch.inf
    found, places = topk_stable(values, k)
    for row, numbers, chosen in zip(values.tolist(), found.tolist(), places.tolist(), strict=True):
        wanted = sorted(range(30), key=lambda place: (-row[place], place))[:k]
        assert chosen == wanted
        assert numbers == [row[place] for place in wanted]
