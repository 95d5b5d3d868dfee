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

CHUNK_CODES = 2000  # codewords per chunk
PAIRS = 20_000  # pairs of tokens whose distance is compared with their similarity
SHARE = 0.9  # share of the variance of codewords


class CodebookProbe(Probe):
    """Measures the distances and the variance of codewords, by frequency band."""

    config: CodebookProbeConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        head = getattr(model, "head", None)
        if not isinstance(head, Ecoc | HybridSoftmax) or len(head.coded) < 2:
            return Finding(statements=(Statement("", "the model has fewer than two codewords"),))
        codes, vectors = head.codebook.cpu(), self._vectors(model, head.coded)
        nearest, numbers = nearest_distances(codes), dict[str, float]()
        for band, rows in frequency_bands(head.counts, head.coded, self.config.bands).items():
            properties = measure(codes, rows, nearest[rows], vectors)
            numbers |= {f"{band}: {name}": number for name, number in properties.items()}
        return Finding(numbers)

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


def measure(codes: Tensor, rows: Tensor, nearest: Tensor, vectors: Vectors | None) -> dict[str, float]:
    """Return the properties of some rows of a codebook [R, d], with distances to the `nearest` other codewords.

    Any floor((smallest - 1) / 2) wrong bits are corrected.
    """
    smallest, (rank, directions) = int(nearest.min()), spectrum(codes[rows])
    numbers = {
        "smallest nearest distance": smallest,
        "mean nearest distance": float(nearest.double().mean()),
        "corrected bits": (smallest - 1) // 2,
        "rank": rank,
        "directions with 90 % of variance": directions,
    }
    correlation = None if vectors is None else similarity_correlation(codes, rows, vectors)
    return numbers if correlation is None else {**numbers, "correlation with vectors": correlation}


def nearest_distances(codes: Tensor) -> Tensor:
    """Return the Hamming distance of each row of `codes` [R, d] to the nearest other row, int64 [R]."""
    smallest, bits = torch.full((len(codes),), codes.shape[1] + 1.0), codes.shape[1]
    for rows in torch.split(torch.arange(len(codes)), CHUNK_CODES):
        signs = 2 * codes[rows].float() - 1
        for others in torch.split(torch.arange(len(codes)), CHUNK_CODES):
            distances = (bits - signs @ (2 * codes[others].float() - 1).T) / 2
            distances[rows[:, None] == others] = torch.inf
            smallest[rows] = torch.minimum(smallest[rows], distances.amin(1))
    return smallest.round().long()


def spectrum(codes: Tensor) -> tuple[int, int]:
    """Return the rank of centred codewords [M, d], and the number of directions that hold 90 % of their variance."""
    mean = codes.double().mean(0)
    covariance = torch.zeros(codes.shape[1], codes.shape[1], dtype=torch.float64)
    for some in torch.split(codes, CHUNK_CODES):
        covariance += (some.double() - mean).T @ (some.double() - mean)
    variances = torch.linalg.eigvalsh(covariance).flip(0).clamp(min=0)
    rank = int((variances > 1e-9 * variances[0].clamp(min=1e-30)).sum())
    return rank, int((variances.cumsum(0) < SHARE * variances.sum()).sum()) + 1 if rank else 0


def similarity_correlation(codes: Tensor, rows: Tensor, vectors: Vectors) -> float | None:
    """Return the correlation of Hamming and cosine distance over pairs of a row and any row, both with vectors.

    None if it is undefined.
    """
    starts, ends = rows[vectors.known[rows]], vectors.known.nonzero()[:, 0]
    if not len(starts):
        return None
    uniform = Rng(0).shared("pairs", (2, PAIRS))
    first, second = starts[(uniform[0] * len(starts)).long()], ends[(uniform[1] * len(ends)).long()]
    first, second = first[first != second], second[first != second]
    pairs = torch.stack(
        [
            (codes[first] != codes[second]).sum(1).double(),
            1 - cosine_similarity(vectors.values[first].double(), vectors.values[second].double()),
        ]
    )
    correlation = float(torch.corrcoef(pairs)[0, 1]) if len(first) > 1 else math.nan
    return correlation if math.isfinite(correlation) else None
