"""The recurrent network with fixed weights from the proof of Theorem 3.4 (Welleck et al., 2020)."""

import torch
from torch import nn

from bench_core import STOP, TaskInfo
from bench_rnn.api import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_strlm.plugin import ConstructionConfig

TOP = 2  # number of top units, shared by all tokens
TOP_START, STOP_START, WORD_START = 0.5, 0.9, 0.1  # values of units after EOS, the first token of every prompt


class Construction(RecurrentLM):
    """A network that updates its units h = (top | slot of each token) to tanh(blockdiag(W, I) h + (0 | one-hot y)).

    The logit of a word is its slot plus `sight` times the sum of the top units; for EOS, this product is subtracted.
    """

    def __init__(self, config: ConstructionConfig, info: TaskInfo) -> None:
        tokens = len(info.vocabulary)
        super().__init__(RNNLMConfig(cell="tanh", hidden=TOP + tokens, layers=1, embedding="one-hot"), info)
        assert isinstance(self.head, nn.Linear)
        weights = dict(self.rnn.layers.named_parameters())
        start = torch.full((TOP + tokens,), WORD_START)
        start[:TOP], start[TOP + STOP] = TOP_START, STOP_START
        with torch.no_grad():
            for weight in self.parameters():
                weight.zero_()
            weights["weight_hh_l0"][:TOP, :TOP] = config.radius / TOP
            weights["weight_hh_l0"][TOP:, TOP:] = torch.eye(tokens)
            weights["weight_ih_l0"][TOP:] = torch.eye(tokens)
            weights["weight_ih_l0"][:, STOP] = start.atanh()
            self.head.weight[:, :TOP] = config.sight
            self.head.weight[STOP, :TOP] = -config.sight
            self.head.weight[:, TOP:] = torch.eye(tokens)
