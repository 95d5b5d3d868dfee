"""What other plugins may build on, besides the Configs in `bench_rnn.plugin`."""

from __future__ import annotations

from bench_rnn.lm import Memory, RecurrentLM
from bench_rnn.output import LOGITS, Output, Softmax

__all__ = ["LOGITS", "Memory", "Output", "RecurrentLM", "Softmax"]
