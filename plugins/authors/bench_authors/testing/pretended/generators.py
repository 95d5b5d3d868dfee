"""Random numbers of the simulated GPU: its generators, including the default generator."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from bench_authors.testing.pretended.placement import CPU, GPU

RANDOM = re.compile(
    "rand|normal|uniform|bernoulli|binomial|multinomial|exponential|geometric|cauchy|poisson|dropout|orthogonal|attention"
    "|gumbel|rrelu|standard_gamma|dirichlet|fractional_max|^random_$|^sparse_$|^(lstm|gru|rnn_tanh|rnn_relu)$"
)


@cache
def is_random(name: str) -> bool:
    """Return whether a function of torch may use random numbers."""
    return bool(RANDOM.search(name))


class Generator(torch._C.Generator):
    """A generator of torch, possibly on the GPU."""

    of_gpu: set[Any] = set()

    def __new__(cls, device: Any = "cpu") -> Any:
        generator = super().__new__(cls)
        if torch.device(device).type == "cuda":
            cls.of_gpu.add(generator)
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU if self in self.of_gpu else CPU


@contextmanager
def random_source(on_gpu: bool, generator: Any, gpu_default: torch.Generator) -> Iterator[None]:
    """Use the default generator of the GPU for random numbers on the GPU, unless another generator is given.

    Raises RuntimeError, as torch does, if `generator` belongs to the other device.
    """
    if generator is not None and (generator in Generator.of_gpu) != on_gpu:
        expected, actual = ("cuda", "cpu") if on_gpu else ("cpu", "cuda")
        raise RuntimeError(f"Expected a '{expected}' device type for generator but found '{actual}'")
    if not on_gpu or generator is not None:
        yield
        return
    default = torch.default_generator
    before = default.get_state()
    default.set_state(gpu_default.get_state())
    try:
        yield
    finally:
        gpu_default.set_state(default.get_state())
        default.set_state(before)
