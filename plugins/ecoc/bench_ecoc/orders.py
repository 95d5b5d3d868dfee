"""Orders of the vocabulary: which tokens are neighbours in the codebook."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bench_core import Noise

NEIGHBOURS = 64  # of each token, found ahead of a tour
SIMILARITIES = 2**24  # computed at a time


def at_random(tokens: int, noise: Noise) -> Tensor:
    """Return the tokens in an order that is uniformly random [V]."""
    return noise.uniform(torch.arange(tokens)).argsort()


def by_count(counts: Tensor) -> Tensor:
    """Return the tokens by falling count [V], ties by id."""
    return counts.sort(descending=True, stable=True).indices


def by_similarity(vectors: Tensor, known: Tensor, counts: Tensor) -> Tensor:
    """Return the tokens by falling cosine similarity to the most frequent one that has a vector [V].

    It comes first; tokens without a vector (False in `known` [V]) come last, by falling count. Ties go by id.
    """
    query = _query(known, counts)
    directions = normalize(vectors.double(), dim=1)
    similarity = (directions @ directions[query]).masked_fill(~known, -torch.inf)
    similarity[query] = torch.inf
    ranked = similarity.sort(descending=True, stable=True).indices[: int(known.sum())]
    return torch.cat([ranked, _unknown(known, counts)])


def by_tour(vectors: Tensor, known: Tensor, counts: Tensor) -> Tensor:
    """Return the tokens as a walk meets them that always goes on to the most similar one not yet met [V].

    It begins as `by_similarity` does, and ends with the tokens without a vector.
    """
    ids = known.nonzero()[:, 0]
    directions = normalize(vectors[ids].double(), dim=1).float()
    begin = int((ids == _query(known, counts)).nonzero())
    return torch.cat([ids[_walk(directions, begin)], _unknown(known, counts)])


def _query(known: Tensor, counts: Tensor) -> int:
    return int(counts.masked_fill(~known, -1).argmax())


def _unknown(known: Tensor, counts: Tensor) -> Tensor:
    ranked = by_count(counts)
    return ranked[~known[ranked]]


def _walk(directions: Tensor, begin: int) -> Tensor:
    """Return the greedy walk through `directions` [M, D] of unit length; ties go to the one that comes first."""
    nearest = _nearest(directions)
    met = torch.zeros(len(directions), dtype=torch.bool)
    left = torch.arange(len(directions))
    walk, here = [begin], begin
    met[begin] = True
    while len(walk) < len(directions):
        around = nearest[here]
        around = around[~met[around]]
        if not len(around):  # all its neighbours are met: look at whatever is left
            left = left[~met[left]]
            around = left[(directions[left] @ directions[here]).argmax()][None]
        here = int(around[0])
        met[here] = True
        walk.append(here)
    return torch.tensor(walk)


def _nearest(directions: Tensor) -> Tensor:
    """Return the most similar others of each direction [M, K], the most similar first."""
    number = min(NEIGHBOURS, len(directions) - 1)
    found = []
    for rows in torch.split(torch.arange(len(directions)), max(1, SIMILARITIES // len(directions))):
        similarity = directions[rows] @ directions.T
        similarity[torch.arange(len(rows)), rows] = -torch.inf
        found.append(similarity.topk(number, 1).indices)
    return torch.cat(found)
