"""Models in one method."""

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from bench_core.kit import BatchFirstRNN, Cache, EncoderDecoder, LanguageModel, SourceStates


class Bigram(LanguageModel):
    """Each token depends on the one before it."""

    def __init__(self, config, info):
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.size)
        self.head = nn.Linear(config.size, len(info.vocabulary))

    def forward(self, tokens):
        return self.embed(tokens)


class StackedLSTM(LanguageModel):
    """Stacked LSTM layers, whose state goes on from step to step and from window to window."""

    def __init__(self, config, info):
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.size)
        self.layers = BatchFirstRNN(nn.LSTM(config.size, config.size, config.layers, batch_first=True))
        self.head = nn.Linear(config.size, len(info.vocabulary))

    def forward(self, tokens, past=None):
        return self.layers(self.embed(tokens), past)


class SmallGPT(LanguageModel):
    """A GPT with a key-value cache."""

    context_length = 256

    def __init__(self, config, info):
        super().__init__()
        self.tokens, self.positions = (nn.Embedding(n, config.size) for n in (len(info.vocabulary), 256))
        self.blocks = nn.ModuleList(Block(config.size, config.heads) for _ in range(config.layers))
        self.norm, self.head = nn.LayerNorm(config.size), nn.Linear(config.size, len(info.vocabulary), bias=False)

    def forward(self, tokens, past=None):
        cache = Cache.after(past)
        states = self.tokens(tokens) + self.positions(cache.positions(tokens))
        for block in self.blocks:
            states = block(states, cache)
        return self.norm(states), cache


class Block(nn.Module):
    """Attention and a perceptron, each after a norm."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(size), nn.LayerNorm(size)
        self.read, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mix = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, states, cache):
        read = self.read(self.first(states)).unflatten(2, (3, self.heads, -1))  # [N, K, 3, heads, D]
        seen = cache.attend(*read.permute(2, 0, 3, 1, 4))  # [N, heads, K, D]
        states = states + self.join(seen.transpose(1, 2).flatten(2))
        return states + self.mix(self.second(states))


class MinGRU(LanguageModel):
    """h_t = (1 - z_t) h_{t-1} + z_t n_t, all steps at once, in logarithms (Feng et al., 2024, arXiv:2410.01201)."""

    def __init__(self, config, info):
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.size)
        self.gate, self.new = nn.Linear(config.size, config.size), nn.Linear(config.size, config.size)
        self.head = nn.Linear(config.size, len(info.vocabulary))

    def forward(self, tokens, past=None):
        gate, new = self.gate(self.embed(tokens)), self.new(self.embed(tokens))
        kept = logsigmoid(-gate).cumsum(1)  # what is left of the state before the first token
        given = (logsigmoid(gate) + logsigmoid(new) - kept).logcumsumexp(1)
        given = given if past is None else torch.logaddexp(given, past.log()[:, None])
        states = (kept + given).exp()
        return states, states[:, -1]


class Attentive(EncoderDecoder):
    """A recurrent decoder that attends to a bidirectional recurrent encoder."""

    def __init__(self, config, info):
        super().__init__()
        size, sources, words = config.size, len(info.source_vocabulary), len(info.vocabulary)
        self.source, self.embed = nn.Embedding(sources, size), nn.Embedding(words, size)
        self.encoder = BatchFirstRNN(nn.GRU(size, size // 2, batch_first=True, bidirectional=True))
        self.decoder = BatchFirstRNN(nn.GRU(size, size, batch_first=True))
        self.join, self.head = nn.Linear(2 * size, size), nn.Linear(size, words)

    def encode(self, source, mask):
        states, _ = self.encoder(self.source(source), mask=mask)
        return SourceStates(states, states, mask)

    def forward(self, tokens, source, past=None):
        states, past = self.decoder(self.embed(tokens), past)
        return self.join(torch.cat([states, source.attend(states)], 2)).tanh(), past


class AnySource(EncoderDecoder):
    """Begins with the mean of what is real in its source, tokens or numbers."""

    def __init__(self, config, info):
        super().__init__()
        shape, words = info.source_shape, len(info.source_vocabulary)
        channels = shape[0] if len(shape) == 3 else shape[-1] if shape else 0
        self.source = nn.Linear(channels, config.size) if shape else nn.Embedding(words, config.size)
        self.embed = nn.Embedding(len(info.vocabulary), config.size)
        self.layers = BatchFirstRNN(nn.GRU(config.size, config.size, batch_first=True))
        self.head = nn.Linear(config.size, len(info.vocabulary))

    def encode(self, source, mask):
        source = source.mean((2, 3)) if source.dim() == 4 else source
        states = self.source(source).view(*mask.shape, -1).masked_fill(~mask[:, :, None], 0)
        return (states.sum(1) / mask.sum(1)[:, None])[:, None]

    def forward(self, tokens, source, past=None):
        return self.layers(self.embed(tokens), (source,) if past is None else past)
