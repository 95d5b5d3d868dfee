"""The recurrent network of the proof of Theorem 3.4 (Welleck et al., 2020), whose weights are known."""

import torch
from torch import nn

from bench_core import STOP, TaskInfo
from bench_rnn.api import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_strlm.plugin import ConstructionConfig

TOP = 2  # units that all tokens share
TOP_START, STOP_START, WORD_START = 0.5, 0.9, 0.1  # units after stop, which every opening begins with


class Construction(RecurrentLM):
    """h = (top | a slot for each token) becomes tanh(blockdiag(W, I) h + (0 | one-hot y)).

    The logit of a word is its slot plus `sight` times the sum of the top units; that of stop is its slot less that.
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
