"""The codebook of the paper: a Gray code for the rank of a token, followed by check bits.

Section 2 of the paper gives frequent tokens more error checks; how many, and which, is our interpretation. Rank r
gets

    n_r = min(e, max(1, floor(e / (2 r) + 1/2)))        for r >= 1, and n_0 = 0

of the e = d - b check bits, chosen at random; in these bits, its codeword differs from the codeword of rank r - 1.
"""

import numpy as np
import torch
from torch import Tensor

from bench_core import Rng
from bench_output_layers import orders
from bench_output_layers.packed_codes import CHUNK_BITS, base_bits
from bench_output_layers.vectors import Vectors

VECTOR_ORDERS = {"embedding": orders.by_similarity, "tour": orders.by_tour}


def walk(order: str, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
    """Return the codeword of every token, uint8 [V, d], whose ranks follow an order."""
    codes = torch.empty(len(counts), bits, dtype=torch.uint8)
    codes[_ordered(order, counts, rng, vectors)] = codewords(len(counts), bits, rng.fork("checks"))
    return codes


def ranks(codes: Tensor) -> Tensor:
    """Return the rank of each codeword [V], decoded from its base bits."""
    base = base_bits(len(codes))
    binary = codes[:, :base].long().cumsum(1) % 2
    return binary @ (2 ** torch.arange(base - 1, -1, -1))


def _ordered(order: str, counts: Tensor, rng: Rng, vectors: Vectors | None) -> Tensor:
    if order == "random":
        return orders.at_random(len(counts), rng.fork("order"))
    if vectors is None:
        return orders.by_count(counts)
    return VECTOR_ORDERS[order](vectors.values, vectors.known, counts)


def gray(tokens: int, bits: int) -> Tensor:
    """Return the reflected Gray code of every rank, uint8 [V, b], most significant bit first."""
    ranks = torch.arange(tokens)
    codes = ranks ^ (ranks >> 1)
    return (codes[:, None] >> torch.arange(bits - 1, -1, -1) & 1).to(torch.uint8)


def allotment(tokens: int, checks: int) -> Tensor:
    """Return n_r, the number of check bits of each rank [V], out of `checks`."""
    ranks = torch.arange(tokens)
    allotted = (checks + ranks) // (2 * ranks).clamp(min=1)  # floor(e / (2 r) + 1/2)
    return allotted.clamp(min=1).clamp(max=checks).where(ranks > 0, 0)


def flips(tokens: int, checks: int, rng: Rng) -> Tensor:
    """Return the check bits in which each rank differs from the previous rank, uint8 [V, e]: n_r ones in row r."""
    allotted = allotment(tokens, checks)
    differences = torch.zeros(tokens, checks, dtype=torch.uint8)
    if not checks:
        return differences
    single = (allotted == 1).nonzero()[:, 0]
    differences[single, (rng.uniform(single) * checks).long()] = 1
    several = (allotted > 1).nonzero()[:, 0]
    for ranks in torch.split(several, max(1, CHUNK_BITS // checks)):
        uniform = rng.uniform(ranks, 1, checks)
        last = uniform.sort(1).values.gather(1, allotted[ranks, None] - 1)
        differences[ranks] = (uniform <= last).to(torch.uint8)
    return differences


def codewords(tokens: int, bits: int, rng: Rng) -> Tensor:
    """Return the codeword of every rank, uint8 [V, d]: Gray code, then check bits.

    Codewords depend only on V, d and the rng, so all orders of the tokens share them. Requires d >= ceil(log2 V);
    V may be smaller than d.
    """
    base = base_bits(tokens)
    checks = flips(tokens, bits - base, rng)
    rows = checks.numpy()
    for rank in range(1, tokens):
        np.bitwise_xor(rows[rank], rows[rank - 1], out=rows[rank])
    return torch.cat([gray(tokens, base), checks], 1)


def own_checks(codes: Tensor, most: int) -> Tensor:
    """Return the columns [V, most] of the first `most` check bits of each rank; -1 if a rank has fewer.

    `codes` [V, d] are the codewords of all ranks.
    """
    tokens, bits = codes.shape
    base = base_bits(tokens)
    columns = torch.full((tokens, most), -1)
    if bits == base or not most:
        return columns
    for ranks in torch.split(torch.arange(1, tokens), max(1, CHUNK_BITS // bits)):
        flipped = codes[ranks, base:] != codes[ranks - 1, base:]
        number = flipped.cumsum(1)
        for turn in range(most):
            selected = flipped & (number == turn + 1)
            columns[ranks, turn] = (selected.to(torch.uint8).argmax(1) + base).where(selected.any(1), -1)
    return columns
