"""Orders of the vocabulary: which tokens are neighbours in the codebook."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bench_core import Rng

NEIGHBOURS = 64  # number of neighbours precomputed per token for a tour
SIMILARITIES = 2**24  # similarities per chunk


def at_random(tokens: int, rng: Rng) -> Tensor:
    """Return the tokens in a uniformly random order [V]."""
    return rng.uniform(torch.arange(tokens)).argsort()


def by_count(counts: Tensor) -> Tensor:
    """Return the tokens [V] by decreasing count; ties go to the lower id."""
    return counts.sort(descending=True, stable=True).indices


def by_similarity(vectors: Tensor, known: Tensor, counts: Tensor) -> Tensor:
    """Return the tokens [V] by decreasing cosine similarity to the most frequent token that has a vector.

    It comes first; tokens without a vector (False in `known` [V]) come last, by count. Ties go to the lower id.
    """
    query = _query(known, counts)
    directions = normalize(vectors.double(), dim=1)
    similarity = (directions @ directions[query]).masked_fill(~known, -torch.inf)
    similarity[query] = torch.inf
    ranked = similarity.sort(descending=True, stable=True).indices[: int(known.sum())]
    return torch.cat([ranked, _without_vector(known, counts)])


def by_tour(vectors: Tensor, known: Tensor, counts: Tensor) -> Tensor:
    """Return the tokens [V] in the order of a walk that always continues to the most similar unvisited token.

    The walk starts at the first token of `by_similarity`; tokens without a vector come last.
    """
    ids = known.nonzero()[:, 0]
    directions = normalize(vectors[ids].double(), dim=1).float()
    begin = int((ids == _query(known, counts)).nonzero())
    return torch.cat([ids[_walk(directions, begin)], _without_vector(known, counts)])


def _query(known: Tensor, counts: Tensor) -> int:
    return int(counts.masked_fill(~known, -1).argmax())


def _without_vector(known: Tensor, counts: Tensor) -> Tensor:
    ranked = by_count(counts)
    return ranked[~known[ranked]]


def _walk(directions: Tensor, begin: int) -> Tensor:
    """Return the greedy walk through unit vectors `directions` [M, D]; ties go to the first."""
    nearest = _nearest(directions)
    met = torch.zeros(len(directions), dtype=torch.bool)
    left = torch.arange(len(directions))
    walk, here = [begin], begin
    met[begin] = True
    while len(walk) < len(directions):
        around = nearest[here]
        around = around[~met[around]]
        if not len(around):  # all precomputed neighbours are visited: search the rest
            left = left[~met[left]]
            around = left[(directions[left] @ directions[here]).argmax()][None]
        here = int(around[0])
        met[here] = True
        walk.append(here)
    return torch.tensor(walk)


def _nearest(directions: Tensor) -> Tensor:
    """Return the indices [M, K] of the directions that are nearest to each direction, nearest first."""
    number = min(NEIGHBOURS, len(directions) - 1)
    nearest = []
    for rows in torch.split(torch.arange(len(directions)), max(1, SIMILARITIES // len(directions))):
        similarity = directions[rows] @ directions.T
        similarity[torch.arange(len(rows)), rows] = -torch.inf
        nearest.append(similarity.topk(number, 1).indices)
    return torch.cat(nearest)
