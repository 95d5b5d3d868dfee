"""The codewords of all tokens as buffers, with their products."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from bench_output_layers.packed_codes import CHUNK_BITS, pack, unpack
from bench_output_layers.scan import Scan

T = TypeVar("T")

CHUNK_SCORES = 2**21  # scores per chunk
MAX_MATMUL_BITS = 2**20  # bits of a codebook up to which a matrix product is as fast as a scan


class BufferCache:
    """Results that depend on buffers; computed again after the buffers were changed or moved."""

    def __init__(self) -> None:
        self.state: Any = None
        self.results: dict[str, Any] = {}

    def get(self, name: str, make: Callable[[], T], buffers: Sequence[Tensor]) -> T:
        """Return the cached result of `make`, which reads `buffers`."""
        state = [(each.device, each.data_ptr(), _version(each)) for each in buffers]
        if self.state != state:
            self.state, self.results = state, {}
        if name not in self.results:
            with torch.inference_mode(False), torch.no_grad():  # the result may be used with gradients later
                self.results[name] = make()
        value: T = self.results[name]
        return value


class CodeTable(nn.Module):
    """The codewords of R tokens, each with a rank; products of tokens with the same value go to the lowest rank.

    If codewords of consecutive ranks are `neighbours`, which differ in few bits, products are computed as a scan.
    """

    packed: Tensor  # uint8 [R, ceil(d / 8)], by token
    ranks: Tensor  # [R]
    own_checks: Tensor  # [R, K - 1] columns of the bits to flip for a token's other codewords; -1 for none

    def __init__(self, tokens: int, bits: int, neighbours: bool, identity: bool, group: int = 1) -> None:
        super().__init__()
        self.tokens, self.bits, self.neighbours, self.identity = tokens, bits, neighbours, identity
        self.register_buffer("packed", torch.zeros(tokens, -(-bits // 8), dtype=torch.uint8))
        self.register_buffer("ranks", torch.zeros(tokens, dtype=torch.int64))
        self.register_buffer("own_checks", torch.zeros(tokens, group - 1, dtype=torch.int64))
        self._cache = BufferCache()

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of `make`, which is called again after the buffers were changed or moved."""
        return self._cache.get(name, make, (self.packed, self.ranks, self.own_checks))

    def fill(self, codes: Tensor, ranks: Tensor) -> None:
        """Store codewords [R, d] and ranks [R]."""
        self.packed.copy_(pack(codes))
        self.ranks.copy_(ranks)

    @property
    def codes(self) -> Tensor:
        """Return all codewords, uint8 [R, d]; cached, so do not modify them."""
        return self.cached("codes", lambda: unpack(self.packed, self.bits))

    @property
    def order(self) -> Tensor:
        """Return the tokens by rank [R]."""
        return self.cached("order", self.ranks.argsort)

    @property
    def chunk(self) -> int:
        """Return the number of positions per chunk, so that intermediate results fit into the processor's cache."""
        return max(1, CHUNK_SCORES // self.tokens)

    def products(self, z: Tensor) -> Tensor:
        """Return C_w . z of every token [*, R], for `z` [*, d]."""
        if self.identity:
            return z
        if self._scans(z):
            return self._scan(z.dtype)(z.reshape(-1, self.bits)).view(*z.shape[:-1], self.tokens)
        return z @ self.numbers(z.dtype).T

    def products_by_rank(self, z: Tensor) -> Tensor:
        """Return C_r . z by rank [N, R], for `z` [N, d]."""
        if not self.identity and self._scans(z):
            return self._scan(z.dtype).by_rank(z)
        return self.products(z)[:, self.order]

    def frequencies(self, counts: Tensor) -> Tensor:
        """Return how often each bit is 1 in the training split [d], float64; strictly between 0 and 1."""
        packed, weights = self.packed.cpu(), counts.cpu().double()
        total, ones = weights.sum().clamp(min=1), torch.zeros(self.bits, dtype=torch.float64)
        for rows in torch.split(torch.arange(self.tokens), max(1, CHUNK_BITS // self.bits)):
            ones += weights[rows] @ unpack(packed[rows], self.bits).double()
        least = 0.5 / (total + 1)
        return (ones / total).clamp(float(least), float(1 - least))

    def _scans(self, z: Tensor) -> bool:
        learns = z.requires_grad and torch.is_grad_enabled()
        large = self.tokens * self.bits > MAX_MATMUL_BITS
        return self.neighbours and large and not learns and z.device.type == "cpu"

    def numbers(self, dtype: torch.dtype) -> Tensor:
        """Return all codewords as numbers 0 and 1 [R, d]; cached, so do not modify them."""
        return self.cached(str(dtype), lambda: self.codes.to(dtype))

    def _scan(self, dtype: torch.dtype) -> Scan:
        return self.cached(f"scan {dtype}", lambda: Scan(self.packed, self.ranks, self.bits, dtype))


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
