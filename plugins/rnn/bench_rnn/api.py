"""The public interface, besides the Configs in `bench_rnn.plugin`."""

from bench_rnn.cells import Recurrent, Units
from bench_rnn.encoder import RecurrentEncoder
from bench_rnn.lm import RecurrentLM
from bench_rnn.seq2seq import Seq2Seq

__all__ = ["Recurrent", "RecurrentEncoder", "RecurrentLM", "Seq2Seq", "Units"]
