"""Codewords with eight bits per byte; checks codebooks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench_core import PluginError, SuiteError
from bench_output_layers.codebooks import CodebookConfig

CHUNK_BITS = 2**22  # bits per chunk
MAX_NAMES = 3  # columns or tokens in a message


def base_bits(tokens: int) -> int:
    """Return b = ceil(log2 V), the fewest bits that distinguish V tokens; at least 1."""
    return max(1, (tokens - 1).bit_length())


def pack(codes: Tensor) -> Tensor:
    """Pack codes [V, d] with eight bits per byte, uint8 [V, ceil(d / 8)]."""
    return torch.from_numpy(np.packbits(codes.numpy(), axis=1))


def unpack(packed: Tensor, bits: int) -> Tensor:
    """Unpack codes, uint8 [*, d]."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return (packed[..., None] >> shifts & 1).flatten(-2)[..., :bits]


def code_length(codebook: CodebookConfig, tokens: int, bits: int | None, vocabulary: int) -> int:
    """Return the codeword length for `tokens` of the `vocabulary`; raise SuiteError if it is impossible."""
    least = base_bits(tokens)
    most = max(least, vocabulary)
    if codebook.one_bit_per_token:
        if bits not in (None, tokens):
            raise SuiteError(
                f"`codes: {codebook.name}` has a bit for each of {tokens:,} tokens, so `bits` cannot be {bits:,}. "
                "Omit it."
            )
        return tokens
    length = least if bits is None else bits
    if length < least:
        raise SuiteError(
            f"codes of {length:,} bits cannot distinguish {tokens:,} tokens. Set `bits` to {least} or more, or leave "
            "it out."
        )
    if length > most:
        raise SuiteError(
            f"codes of {length:,} bits are longer than the number of tokens, {vocabulary:,}. Set `bits` to a number "
            f"from {least} to {most:,}, or use `codes: identity`."
        )
    return length


def check_codewords(codes: Any, codebook: CodebookConfig, bits: int, tokens: Sequence[str]) -> Tensor:
    """Return the codewords of `tokens`; raise PluginError if they are not a codebook."""
    name, shape = f"the codebook {codebook.name!r}", (len(tokens), bits)
    if not isinstance(codes, Tensor) or codes.dtype != torch.uint8 or codes.shape != shape:
        returned = f"{codes.dtype} {list(codes.shape)}" if isinstance(codes, Tensor) else type(codes).__name__
        raise PluginError(
            f"{name} returned {returned}. Return a uint8 tensor {list(shape)}, a row of bits per token."
        )
    codes = codes.cpu().contiguous()
    if codes.numel() and int(codes.max()) > 1:
        raise PluginError(f"{name} returned the value {int(codes.max())}. Codewords consist of 0 and 1.")
    if equal := equal_rows(pack(codes)):
        names = ", ".join(repr(tokens[token]) for token in equal[:MAX_NAMES])
        more = f" and {len(equal) - MAX_NAMES:,} others" if len(equal) > MAX_NAMES else ""
        raise PluginError(
            f"{name} assigned the same codeword to the tokens {names}{more}. Make all codewords differ."
        )
    if columns := [] if codebook.allows_constant_bits else constant_columns(codes):
        names = ", ".join(map(str, columns[:MAX_NAMES])) + (", ..." if len(columns) > MAX_NAMES else "")
        raise PluginError(
            f"{name} has {len(columns):,} of {bits:,} bits with the same value in all codewords (columns {names}). "
            "Vary or omit them."
        )
    checked: Tensor = codes
    return checked


def equal_rows(packed: Tensor) -> list[int]:
    """Return the first rows that are equal, in increasing order; none if all rows differ."""
    rows = np.ascontiguousarray(packed.numpy())
    _, inverse, number = np.unique(
        rows.view(np.dtype((np.void, rows.shape[1]))).ravel(), return_inverse=True, return_counts=True
    )
    repeated = np.flatnonzero(number[inverse] > 1)
    return np.flatnonzero(inverse == inverse[repeated[0]]).tolist() if len(repeated) else []


def constant_columns(codes: Tensor) -> list[int]:
    """Return the columns with one value only; none if there are fewer than two rows."""
    if len(codes) < 2:
        return []
    return (codes == codes[0]).all(0).nonzero()[:, 0].tolist()
