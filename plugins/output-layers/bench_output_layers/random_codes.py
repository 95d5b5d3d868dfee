"""Codebooks with random bits, and with bits hashed from word vectors.

Hashing (Charikar, 2002): bit c of a token is the sign of the product of its vector with a random direction, so the
codewords of two tokens at an angle t differ in d t / pi bits on average.
"""

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
import torch
from torch import Tensor

from bench_core import Rng
from bench_output_layers.orders import by_count
from bench_output_layers.packed_codes import CHUNK_BITS, constant_columns, pack
from bench_output_layers.vectors import Vectors


def dense(tokens: int, bits: int, rng: Rng) -> Tensor:
    """Return random codewords, uint8 [R, d], without equal rows or, for R > 1, constant columns."""
    return repaired(_uniform(tokens, bits, rng.fork("dense")) - 0.5, torch.arange(tokens))


def hashed(counts: Tensor, vectors: Vectors, hashes: int, bits: int, rng: Rng) -> Tensor:
    """Return codewords, uint8 [R, d], of which the first `hashes` bits are hashed, and the others random.

    Tokens without a vector have random bits only. Of tokens with equal rows, the most frequent keeps its codeword;
    the others change in as few bits as possible, the least certain first.
    """
    margins = _uniform(len(counts), bits, rng.fork("dense")) - 0.5
    margins[vectors.known, :hashes] = projections(vectors, hashes, rng.fork("directions"))
    return repaired(margins, by_count(counts))


def projections(vectors: Vectors, number: int, rng: Rng) -> Tensor:
    """Return the products [M, number] of centred known vectors with random directions, divided by their RMS."""
    values = vectors.values[vectors.known].double()
    values = values - values.mean(0)
    directions = rng.normal(torch.arange(values.shape[1]), step=0, size=number).double()
    products = values @ directions
    return products / products.square().mean().sqrt().clamp(min=1e-30)


def repaired(margins: Tensor, priority: Tensor) -> Tensor:
    """Return the signs of `margins` [R, d] as bits, with the fewest changes that make rows distinct and bits vary.

    Bits with small margins change first. Of equal rows, the first in `priority` [R] is unchanged.
    """
    codes = (margins > 0).to(torch.uint8)
    _separate(codes, margins.abs(), priority)
    for column in constant_columns(codes):  # the changed row then differs from all others
        row = int(margins[:, column].abs().argmin())
        codes[row, column] ^= 1
    return codes


def _separate(codes: Tensor, margins: Tensor, priority: Tensor) -> None:
    """Change the later ones of equal rows in place; requires R <= 2^d."""
    rows = pack(codes).numpy()
    keys = [row.tobytes() for row in rows]
    used, candidates = set(keys), dict[bytes, Iterator[tuple[int, ...]]]()
    first = set[bytes]()
    for token in priority.tolist():
        key = keys[token]
        if key not in first:
            first.add(key)
            continue
        if key not in candidates:
            candidates[key] = _changes(margins[token].argsort(stable=True).tolist())
        for columns in candidates[key]:
            row = codes[token].clone()
            row[list(columns)] ^= 1
            if (packed := np.packbits(row.numpy()).tobytes()) not in used:
                used.add(packed)
                codes[token] = row
                break


def _changes(columns: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield sets of columns to change: single columns first, then pairs, and so on."""
    return chain.from_iterable(combinations(columns, number) for number in range(1, len(columns) + 1))


def _uniform(tokens: int, bits: int, rng: Rng) -> Tensor:
    """Return uniform numbers in (0, 1), float64 [R, d]."""
    parts = torch.split(torch.arange(tokens), max(1, CHUNK_BITS // bits))
    return torch.cat([rng.uniform(ids, size=bits) for ids in parts])
