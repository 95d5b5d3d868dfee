"""Recurrent encoder-decoders."""

from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from bench_core import Batch, SuiteError, TaskInfo, by_host
from bench_core.kit import EncoderDecoder, Head, LanguageModelState, SourceStates
from bench_rnn.attention import Attention
from bench_rnn.cells import Recurrent, Units
from bench_rnn.encoder import RecurrentEncoder
from bench_rnn.lm import tie
from bench_rnn.plugin import Seq2SeqConfig

Context: TypeAlias = Tensor | SourceStates  # c [N, H] for all steps, or the states to attend to


class Bridge(nn.Module):
    """Joins the states of both directions, with a linear map for each part of the state and each layer."""

    def __init__(self, hidden: int, layers: int, parts: int) -> None:
        super().__init__()
        self.joins = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(parts * layers))

    def forward(self, units: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return [N, L, H] for each part [N, L, 2 H]."""
        joins = iter(self.joins)
        return tuple(torch.stack([next(joins)(unit) for unit in part.unbind(1)], 1) for part in units)


class Seq2Seq(EncoderDecoder):
    """p(y | x) = prod_t p(y_t | s~_t), with states h_s of a recurrent encoder, and s_t, s~_t of a recurrent decoder:

        h_s = encoder(x_s, h_{s-1}), or [f_s, g_s] if bidirectional
        s_0 = h_S in each layer, with the LSTM's cell states; or a learned projection of [f_S, g_1]
        s_t = decoder([y_{t-1}, c], s_{t-1}) and s~_t = s_t, where y_0 is EOS and c is s_0 of the top layer
        s_t = decoder(y_{t-1}, s_{t-1}) and s~_t = tanh(W_c [s_t, c_t]) with attention, see `Attention`

    If the encoder is bidirectional, [f_s, g_s] are projected to the size of s_t for attention. The head maps s~_t to
    probabilities; by default, it is a linear layer with a softmax.
    """

    def __init__(self, config: Seq2SeqConfig, info: TaskInfo, head: Head | None = None) -> None:
        super().__init__()
        layers, hidden = config.layers, config.hidden
        tokens, width = len(info.vocabulary), config.embedding or hidden
        self.embed = nn.Embedding(tokens, width)
        self.source = _shared(self.embed, info) if config.shared else nn.Embedding(len(info.source_vocabulary), width)
        self.encoder = RecurrentEncoder(
            config.cell, width, hidden, layers, config.dropout, config.bidirectional, config.variant
        )
        self.bridge = Bridge(hidden, layers, 1 + (config.cell == "lstm")) if config.bidirectional else nn.Identity()
        self.attention = None if config.attention == "none" else Attention(config.attention, hidden)
        self.join = nn.Linear(2 * hidden, hidden) if self.attention and config.bidirectional else nn.Identity()
        inputs = width if self.attention else width + hidden
        self.decoder = Recurrent(config.cell, inputs, hidden, layers, config.dropout, config.variant)
        self.head = head or nn.Linear(hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)
        if config.tied:
            tie(self.head, self.embed)

    def encode(self, source: Tensor, mask: Tensor) -> tuple[Units, Context]:
        """Return the initial state of the decoder, and its context."""
        hidden, units = self.encoder(self.dropout(self.source(source)), by_host(lambda mask: mask.sum(1), mask))
        units = self.bridge(units)
        return units, self.attention.read(self.join(hidden), mask) if self.attention else units[0][:, -1]

    def begin(self, batch: Batch) -> LanguageModelState:
        state = super().begin(batch)
        units, context = state.source
        return replace(state, past=units, source=context)

    def forward(self, tokens: Tensor, context: Context, past: Units) -> tuple[Tensor, Units]:
        """Return s~ [N, K, H] after each of `tokens`, and the decoder's final state."""
        read = self.dropout(self.embed(tokens))
        if isinstance(context, Tensor):
            read = torch.cat([read, context[:, None].expand(-1, tokens.shape[1], -1)], 2)
        hidden, units = self.decoder(read, past)
        return self.dropout(self.attention(hidden, context) if self.attention else hidden), units


def _shared(embed: nn.Embedding, info: TaskInfo) -> nn.Embedding:
    """Return the target embedding, to share it with the source; raise SuiteError if their vocabularies differ."""
    source, target = list(info.source_vocabulary), list(info.vocabulary)
    if source != target:
        pairs = zip(source, target, strict=False)
        where = next(
            (f"; token {n} is {left!r} and {right!r}" for n, (left, right) in enumerate(pairs) if left != right), ""
        )
        raise SuiteError(
            "source and target can only share an embedding if they have the same vocabulary, but they have "
            f"{len(source):,} and {len(target):,} tokens{where}. Tokenize both together, or set `shared: false`."
        )
    return embed
