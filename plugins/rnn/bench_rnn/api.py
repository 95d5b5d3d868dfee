"""What other plugins may import, besides the Configs in `bench_rnn.plugin`."""

from __future__ import annotations

from bench_rnn.cells import Recurrent, Units
from bench_rnn.encoder import Encoder
from bench_rnn.lm import Memory, RecurrentLM
from bench_rnn.output import LOGITS, Output, Softmax
from bench_rnn.seq2seq import Progress, Seq2Seq

__all__ = [
    "LOGITS", "Encoder", "Memory", "Output", "Progress", "Recurrent", "RecurrentLM", "Seq2Seq", "Softmax", "Units",
]  # fmt: skip
