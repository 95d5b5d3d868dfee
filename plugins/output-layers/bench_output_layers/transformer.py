"""A decoder-only Transformer with a choice of output layer."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from bench_core import TaskInfo
from bench_core.kit import Cache
from bench_output_layers.building import output_layer
from bench_output_layers.language_model import OutputLayerLM
from bench_output_layers.plugin import TransformerLMConfig

INITIAL_SCALE = 0.02  # standard deviation of initial matrices (Radford et al., 2019)


class TransformerLM(OutputLayerLM):
    """p(y) = prod_t p(y_t | h_t), with h_t from pre-norm Transformer layers over y_<t and learned positions.

    Dropout applies to embeddings and to the output of every sublayer. Windows of a stream are independent.
    """

    def __init__(self, config: TransformerLMConfig, info: TaskInfo) -> None:
        super().__init__()
        tokens, width = len(info.vocabulary), config.d_model
        self.info, self.context_length = info, config.context
        self.embed = nn.Embedding(tokens, width, sparse=bool(config.sparse))
        self.positions = nn.Embedding(config.context, width)
        self.layers = nn.ModuleList(PreNormLayer(config) for _ in range(config.layers))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(config.dropout)
        self.head = output_layer(config.output, width, tokens, bool(config.sparse), config.reading)
        self.apply(_initialize)
        if config.tied:
            self.head.tie(self.embed)

    def forward(self, tokens: Tensor, past: Cache | None = None) -> tuple[Tensor, Cache]:
        """Return h [N, K, d] after each of `tokens` [N, K], and the keys and values of all tokens so far."""
        cache = Cache.after(past)
        states = self.dropout(self.embed(tokens) + self.positions(cache.positions(tokens)))
        for layer in self.layers:
            states = layer(states, cache)
        return self.norm(states), cache


class PreNormLayer(nn.Module):
    """h + Attention(LN(h)), then h + FeedForward(LN(h)) (pre-norm: Xiong et al., 2020, arXiv:2002.04745)."""

    def __init__(self, config: TransformerLMConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.feed_forward
        self.heads = config.heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.read, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, cache: Cache) -> Tensor:
        """Return the states after this layer [N, K, d], given the states before it."""
        read = self.read(self.norms[0](states)).unflatten(2, (3, self.heads, -1))  # [N, K, 3, heads, e]
        attended = cache.attend(*read.permute(2, 0, 3, 1, 4)).transpose(1, 2).flatten(2)
        states = states + self.dropout(self.join(attended))
        states = states + self.dropout(self.shrink(gelu(self.expand(self.norms[1](states)))))
        return states


@torch.no_grad()
def _initialize(module: nn.Module) -> None:
    """Sample matrices from a normal distribution; set biases to 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_SCALE)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
