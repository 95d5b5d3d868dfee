"""The codebook probe: how many wrong bits a codebook corrects, and whether similar tokens have similar codewords."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from bench_core import Batch, DecoderConfig, Finding, Model, Probe, Rng, Statement
from bench_output_layers.codes import Ecoc
from bench_output_layers.hybrid import HybridSoftmax
from bench_output_layers.orders import by_count
from bench_output_layers.plugin import CodebookProbeConfig
from bench_output_layers.vectors import Vectors, read

CHUNK_DISTANCES = 2**22  # distances per chunk
PAIRS = 20_000  # pairs of tokens whose distance is compared with their similarity
SHARE = 0.9  # share of the variance of codewords


class CodebookProbe(Probe):
    """Measures the distances and the variance of codewords, by frequency band."""

    config: CodebookProbeConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        head = getattr(model, "head", None)
        if not isinstance(head, Ecoc | HybridSoftmax) or len(head.coded) < 2:
            return Finding(statements=(Statement("", "the model has fewer than two codewords"),))
        vectors = self._vectors(model, head.coded)
        return Finding(
            {
                f"{band}: {name}": number
                for band, rows in frequency_bands(head.counts, head.coded, self.config.bands).items()
                for name, number in measure(head.codebook, rows, vectors).items()
            }
        )

    def _vectors(self, model: Model, tokens: Tensor) -> Vectors | None:
        """Return the vectors of tokens from the file of the settings or of the model; None without a file."""
        info = getattr(model, "info", None)
        path = self.config.vectors or (info.files.get("vectors") if info else None)
        return read(path, info.vocabulary).of(tokens) if info and path else None


def frequency_bands(counts: Tensor, coded: Tensor, ends: Sequence[int]) -> dict[str, Tensor]:
    """Return the rows of `coded` [R] in each band of frequency ranks that contains any, and in all bands."""
    ranks = by_count(counts).argsort()[coded] + 1
    limits = [0, *(end for end in ends if end < len(counts)), len(counts)]
    bands = {f"ranks {low + 1:,} to {high:,}": (ranks > low) & (ranks <= high) for low, high in pairwise(limits)}
    rows = {name: inside.nonzero()[:, 0] for name, inside in bands.items() if inside.any()}
    return {"all": torch.arange(len(coded)), **rows}


def measure(codes: Tensor, rows: Tensor, vectors: Vectors | None) -> dict[str, float]:
    """Return the properties of some rows of a codebook [R, d] of at least two rows.

    Distances are to the nearest of all other codewords. Any floor((smallest - 1) / 2) wrong bits are corrected.
    """
    nearest = nearest_distances(codes, rows)
    smallest, (rank, directions) = int(nearest.min()), spectrum(codes[rows])
    numbers = {
        "smallest distance": smallest,
        "mean distance": float(nearest.double().mean()),
        "corrected bits": (smallest - 1) // 2,
        "rank": rank,
        "directions with 90 % of variance": directions,
    }
    correlation = None if vectors is None else similarity_correlation(codes, rows, vectors)
    return numbers if correlation is None else {**numbers, "correlation with vectors": correlation}


def nearest_distances(codes: Tensor, rows: Tensor) -> Tensor:
    """Return the Hamming distance of some rows of `codes` [R, d] to the nearest other row, int64 [M]."""
    bits = codes.shape[1]
    signs = 2 * codes.float() - 1
    smallest = []
    for some in torch.split(rows, max(1, CHUNK_DISTANCES // len(codes))):
        products = signs[some] @ signs.T
        products[torch.arange(len(some)), some] = -bits - 1.0
        smallest.append((bits - products.amax(1)) / 2)
    return torch.cat(smallest).round().long()


def spectrum(codes: Tensor) -> tuple[int, int]:
    """Return the rank of centred codewords [M, d], and the number of directions that hold 90 % of their variance."""
    mean = codes.double().mean(0)
    covariance = torch.zeros(codes.shape[1], codes.shape[1], dtype=torch.float64)
    for some in torch.split(codes, max(1, CHUNK_DISTANCES // codes.shape[1])):
        covariance += (some.double() - mean).T @ (some.double() - mean)
    variances = torch.linalg.eigvalsh(covariance).flip(0).clamp(min=0)
    rank = int((variances > 1e-9 * variances[0].clamp(min=1e-30)).sum())
    return rank, int((variances.cumsum(0) < SHARE * variances.sum()).sum()) + 1 if rank else 0


def similarity_correlation(codes: Tensor, rows: Tensor, vectors: Vectors) -> float | None:
    """Return the correlation of Hamming and cosine distance over pairs of a row and any row, both with vectors.

    None if it is undefined.
    """
    first, second = rows[vectors.known[rows]], vectors.known.nonzero()[:, 0]
    if not len(first):
        return None
    uniform = Rng(0).shared("pairs", (2, PAIRS))
    one, other = first[(uniform[0] * len(first)).long()], second[(uniform[1] * len(second)).long()]
    one, other = one[one != other], other[one != other]
    pairs = torch.stack(
        [
            (codes[one] != codes[other]).sum(1).double(),
            1 - cosine_similarity(vectors.values[one].double(), vectors.values[other].double()),
        ]
    )
    correlation = float(torch.corrcoef(pairs)[0, 1]) if len(one) > 1 else math.nan
    return correlation if math.isfinite(correlation) else None
