"""The codebooks of this plugin; does not import torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import NonNegativeInt, model_validator

from bench_core import Rng
from bench_output_layers.codebooks import CodebookConfig, RestCodes, VectorCodebookConfig

if TYPE_CHECKING:
    from torch import Tensor

    from bench_output_layers.vectors import Vectors

SIMILARITY_ORDERS = ("embedding", "tour")


class GrayWalkConfig(VectorCodebookConfig):
    """A Gray code for the rank of a token, followed by check bits; neighbours in rank differ in few bits."""

    cites = ["order=embedding: mikolov2013", "order=tour: mikolov2013"]
    allows_constant_bits = True  # a check bit that no rank flips
    without_vector = "come last, by count"

    order: Literal["random", "unigram", "embedding", "tour"] = "unigram"  #: order of tokens, which sets their ranks

    @model_validator(mode="after")
    def _vectors_are_used(self) -> Self:
        if self.vectors is not None and not self.needs_vectors():
            raise ValueError(
                f"`vectors` are read for `order: embedding` and `order: tour`, not {self.order}. Leave them out, or "
                "choose one of these orders"
            )
        return self

    def needs_counts(self) -> bool:
        return self.order != "random"

    def needs_vectors(self) -> bool:
        return self.order in SIMILARITY_ORDERS

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        from bench_output_layers.gray_walk import walk

        return walk(self.order, counts, bits, rng, vectors)


class DenseConfig(CodebookConfig):
    """Random bits."""

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        from bench_output_layers.random_codes import dense

        return dense(len(counts), bits, rng)


class HashedConfig(VectorCodebookConfig):
    """Signs of random projections of centred word vectors: similar tokens have similar codewords."""

    cites = ["charikar2002", "mikolov2013"]
    without_vector = "have random codewords"

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        from bench_output_layers.random_codes import hashed

        assert vectors is not None
        return hashed(counts, vectors, bits, bits, rng)


class BlendConfig(HashedConfig):
    """Half of the bits as in `hashed`, the others random."""

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        from bench_output_layers.random_codes import hashed

        assert vectors is not None
        return hashed(counts, vectors, -(-bits // 2), bits, rng)


class IdentityConfig(CodebookConfig):
    """One bit per token; with `loss: exact`, a full softmax."""

    one_bit_per_token = True

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        import torch

        return torch.eye(len(counts), dtype=torch.uint8)


class HybridConfig(CodebookConfig):
    """A softmax over frequent tokens and "other", and codes for the other tokens (Oda et al., 2017)."""

    cites = ["oda2017"]

    frequent: NonNegativeInt = 1000  #: k, the number of most frequent tokens in the softmax; 0: all tokens have codes
    rest: RestCodes = DenseConfig.model_construct()  #: codebook of the other tokens

    @model_validator(mode="after")
    def _rest_is_plain(self) -> Self:
        if isinstance(self.rest, HybridConfig):
            raise ValueError(
                "`rest` of a hybrid codebook cannot be `hybrid`. Choose another codebook, or raise `frequent`"
            )
        return self

    def simplified(self) -> CodebookConfig:
        return self if self.frequent else self.rest

    def needs_counts(self) -> bool:
        return True

    def needs_vectors(self) -> bool:
        return self.rest.needs_vectors()

    def vector_file(self) -> Path | None:
        return self.rest.vector_file()

    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        """Return the codewords of the tokens outside the softmax."""
        return self.rest.codewords(counts, bits, rng, vectors)
