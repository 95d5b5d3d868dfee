"""Recurrent encoder-decoders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import (
    STOP,
    Batch,
    Loss,
    Noise,
    Scorer,
    Scores,
    Scoring,
    State,
    Stepper,
    SuiteError,
    TaskInfo,
    Training,
)
from bench_rnn.attention import Attention, Sources
from bench_rnn.cells import Recurrent
from bench_rnn.encoder import Encoder
from bench_rnn.output import Output, Softmax

if TYPE_CHECKING:
    from bench_rnn.plugin import Seq2SeqConfig

Context: TypeAlias = Tensor | Sources  # c [N, H], the same at every step, or what is attended to


@dataclass(frozen=True)
class Progress(State):
    """What is known of the source, and what is left of the target tokens read so far."""

    units: tuple[Tensor, ...]  # [N, L, H] of the decoder: hidden units, and for the LSTM its cells
    context: Context
    output: State  # what the output layer remembers


class Bridge(nn.Module):
    """Joins the units of both directions, by a linear map for every layer of every part of a state."""

    def __init__(self, hidden: int, layers: int, parts: int) -> None:
        super().__init__()
        self.joins = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(parts * layers))

    def forward(self, units: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return [N, L, H] of each part [N, L, 2 H]."""
        joins = iter(self.joins)
        return tuple(torch.stack([next(joins)(unit) for unit in part.unbind(1)], 1) for part in units)


class Seq2Seq(nn.Module, Stepper[Progress], Scorer):
    """p(y | x) = prod_t p(y_t | s~_t), with h_s of a recurrent encoder, and s_t and s~_t of a recurrent decoder:

        h_s = encoder(x_s, h_{s-1}), or [f_s, g_s] of both directions
        s_0 = h_S, layer by layer, for the LSTM its cells too; or a learned projection of [f_S, g_1]
        s_t = decoder([y_{t-1}, c], s_{t-1}) and s~_t = s_t, where y_0 is stop and c is s_0 of the top layer
        s_t = decoder(y_{t-1}, s_{t-1}) and s~_t = tanh(W_c [s_t, c_t]) with attention, see `Attention`

    With both directions, what is attended to is a learned projection of [f_s, g_s] to the size of s_t. How s~_t
    becomes a probability is up to the output layer, which another model hands over as `output`.
    """

    def __init__(self, config: Seq2SeqConfig, info: TaskInfo, output: Output | None = None) -> None:
        super().__init__()
        layers, hidden = config.encoder_layers or config.layers, config.encoder_hidden or config.hidden
        tokens, width = len(info.vocabulary), config.embedding or hidden
        self.embed = nn.Embedding(tokens, width)
        self.source = _shared(self.embed, info) if config.shared else nn.Embedding(len(info.source_vocabulary), width)
        self.encoder = Encoder(
            config.cell, width, hidden, layers, config.dropout, config.bidirectional, config.variant
        )
        self.bridge = Bridge(hidden, layers, 1 + (config.cell == "lstm")) if config.bidirectional else nn.Identity()
        self.attention = None if config.attention == "none" else Attention(config.attention, hidden)
        self.join = nn.Linear(2 * hidden, hidden) if self.attention and config.bidirectional else nn.Identity()
        inputs = width if self.attention else width + hidden
        self.decoder = Recurrent(config.cell, inputs, hidden, layers, config.dropout, config.variant)
        self.output = output or Softmax(hidden, tokens)
        self.dropout = nn.Dropout(config.dropout)
        if config.tied:
            self.output.tie(self.embed)

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        self.output.setup(info, noise)

    def loss(self, batch: Batch, training: Training) -> Loss:
        hidden, past = self._read(batch, batch.inputs, batch.gold.shape[1])
        costs, _ = self.output.loss(hidden, batch, past.output, training)  # [M] real tokens
        return Loss(costs.mean(), batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden, past = self._read(batch, batch.inputs, batch.gold.shape[1])
        real, _ = self.output.score(hidden, batch, past.output, scoring.by)  # [M] real tokens
        mask = batch.mask
        return Scores(real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double()).sum(1))

    def start(self, batch: Batch) -> tuple[Tensor, Progress]:
        hidden, past = self._read(batch, batch.opening, 1)
        log_probs, output = self.output.log_probs(hidden, past.output)
        return log_probs[:, 0], replace(past, output=output)

    def step(self, state: Progress, actions: Tensor) -> tuple[Tensor, Progress]:
        context = state.context.compacted() if isinstance(state.context, Sources) else state.context
        hidden, units = self._decode(actions[:, None], state.units, context)
        log_probs, output = self.output.log_probs(hidden, state.output)
        return log_probs[:, 0], Progress(units, context, output)

    def _read(self, batch: Batch, tokens: Tensor, last: int) -> tuple[Tensor, Progress]:
        """Return s~ after the `last` of `tokens` [N, last, H], and a state that the output layer has yet to see."""
        units, context = self._encode(batch)
        hidden, units = self._decode(tokens, units, context)
        return hidden[:, -last:], Progress(units, context, self.output.start(hidden[:, :-last]))

    def _encode(self, batch: Batch) -> tuple[tuple[Tensor, ...], Context]:
        """Return the state that the decoder begins with, and its context; an empty source is read as a lone stop."""
        assert batch.source is not None, "the Config says that it takes tokens"
        assert batch.source_length is not None, "sources of tokens come with their lengths"
        source, length = pad(batch.source, (0, not batch.source.shape[1])), batch.source_length
        tokens = source.where(torch.arange(source.shape[1], device=source.device) < length[:, None], STOP)
        length = length.clamp(min=1)
        hidden, units = self.encoder(self.dropout(self.source(tokens)), length)
        units = self.bridge(units)
        return units, self.attention.read(self.join(hidden), length) if self.attention else units[0][:, -1]

    def _decode(
        self, tokens: Tensor, units: tuple[Tensor, ...], context: Context
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return s~ after each of `tokens` [N, K, H], and the decoder's state after the last."""
        read = self.dropout(self.embed(tokens))
        if isinstance(context, Tensor):
            read = torch.cat([read, context[:, None].expand(-1, tokens.shape[1], -1)], 2)
        hidden, units = self.decoder(read, units)
        return self.dropout(self.attention(hidden, context) if self.attention else hidden), units


def _shared(embed: nn.Embedding, info: TaskInfo) -> nn.Embedding:
    """Return the target's embedding for the source too; raise SuiteError where their vocabularies differ."""
    source, target = list(info.source_vocabulary), list(info.vocabulary)
    if source != target:
        pairs = zip(source, target, strict=False)
        where = next(
            (f"; token {n} is {one!r} and {other!r}" for n, (one, other) in enumerate(pairs) if one != other), ""
        )
        raise SuiteError(
            "source and target can share an embedding only if they have the same vocabulary; theirs have "
            f"{len(source):,} and {len(target):,} tokens{where}. Tokenise both together, or set `shared: false`."
        )
    return embed
