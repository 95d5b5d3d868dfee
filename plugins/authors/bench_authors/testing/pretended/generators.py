"""Random numbers of the pretended GPU: generators that belong to it, and the double of its default one."""

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
    """Return whether a function of torch may draw random numbers."""
    return bool(RANDOM.search(name))


class Generator(torch._C.Generator):
    """torch's generator, which may be one of the GPU."""

    of_gpu: set[Any] = set()

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls)
        if torch.device(device).type == "cuda":
            cls.of_gpu.add(made)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU if self in self.of_gpu else CPU


@contextmanager
def drawing(on_gpu: bool, given: Any, default_of_gpu: torch.Generator) -> Iterator[None]:
    """Let random numbers on the GPU come from its default generator, unless another of it is given.

    Raises RuntimeError, as torch does, if the generator that is given belongs to the other device.
    """
    if given is not None and (given in Generator.of_gpu) != on_gpu:
        due, found = ("cuda", "cpu") if on_gpu else ("cpu", "cuda")
        raise RuntimeError(f"Expected a '{due}' device type for generator but found '{found}'")
    if not on_gpu or given is not None:
        yield
        return
    default = torch.default_generator
    before = default.get_state()
    default.set_state(default_of_gpu.get_state())
    try:
        yield
    finally:
        default_of_gpu.set_state(default.get_state())
        default.set_state(before)
