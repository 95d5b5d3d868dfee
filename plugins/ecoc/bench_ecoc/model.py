"""Recurrent language models with a choice of output layer, source and training inputs."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bench_captioning.api import image_encoder
from bench_core import Batch, Loss, Scoring, TaskInfo, Training, to_device
from bench_core.kit import LanguageModelState
from bench_ecoc.inputs import MIXTURE, Method, Mix, ReplacedPositions, method
from bench_ecoc.plugin import ECOCLMConfig, RecurrentConfig, SoftmaxLMConfig
from bench_ecoc.variational import VariationalLayers
from bench_output_layers.api import OutputLayerLM, ScoringHead, chunks, code_layer, output_layer
from bench_rnn.api import Units


class ConditionalLM(OutputLayerLM):
    """p(y | x) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    A linear map of the source vector [N, D], or of the mean of a source grid [N, S, D] over S, initializes the hidden
    units of all layers; an `ImageEncoder` turns images into vectors. Without a source, hidden units start at 0; cells
    always start at 0.

    In training only, tokens after the prompt may be replaced by model predictions. A window of a stream starts with
    the memory of the previous window, a gold token, and new dropout masks.
    """

    def __init__(self, config: RecurrentConfig, info: TaskInfo, head: ScoringHead) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.embedding, sparse=config.sparse_embedding)
        self.rnn = VariationalLayers(config.cell, config.embedding, config.hidden, config.layers, config.dropout)
        self.head = head
        width = config.layers * config.hidden
        encoder, size = image_encoder(config.image_channels, info, pooled=True)
        self.source = nn.Linear(size, width) if size else None
        self.method: Method | None = method(config.inputs, head, self.embed)
        self.info = info
        _initialize(self, config.initial_scale)
        self.image_encoder = encoder  # has an initialization of its own

    def loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        """Add the probability of replacements, and the share of inputs from tokens other than the gold tokens."""
        mix = self._mix(training)
        if mix is None:
            return super().loss(batch, training, **more)
        changed: list[Tensor] = []
        loss = super().loss(batch, training, changed=changed, **more)
        inputs = (batch.length - 1).sum().clamp(min=1)  # the first input of a row is never replaced
        share = sum((each.sum() for each in changed), torch.zeros_like(loss.value)) / inputs
        return replace(loss, parts={"p_mix": torch.full_like(loss.value, mix.share), "mixed": share})

    def begin(self, batch: Batch) -> LanguageModelState:
        """Return initial hidden units computed from the source, and zero cells; an empty state without a source."""
        if self.source is None:
            return LanguageModelState()
        assert batch.source is not None
        source = self.image_encoder(batch.source) if self.image_encoder else batch.source
        vectors = source.mean(1) if source.dim() == 3 else source
        hidden = self.source(vectors.to(self.source.weight.dtype)).unflatten(1, (len(self.rnn.layers), -1))
        return LanguageModelState((hidden, torch.zeros_like(hidden)) if self.rnn.cells else (hidden,))

    def forward(self, tokens: Tensor, past: Units | None = None) -> tuple[Tensor, Units]:
        """Return the top layer's units [N, K, H] after each of `tokens`, and the last units of all layers."""
        inputs = self.embed(tokens)
        return self.rnn(inputs, past, self.rnn.masks(inputs, len(inputs)))  # type: ignore[no-any-return]

    def _values(self, hidden: Tensor, batch: Batch, scoring: Scoring) -> dict[str, Tensor]:
        """Add `mixed` to the reported values [N] of each row.

        It is the share of inputs that the method of training inputs would take from other tokens than gold, with its
        parameters at the end of training.
        """
        values = super()._values(hidden, batch, scoring)
        if self.method is None:
            return values
        return {**values, "mixed": self._mixed(self.method, hidden, batch, scoring)}

    def _mixed(self, method: Method, hidden: Tensor, batch: Batch, scoring: Scoring) -> Tensor:
        """Return the share of the inputs of each row [N] that come from other tokens than gold, after gold inputs."""
        mix, width = method.mix_after(1.0, scoring.rng), max(self.head.tokens, MIXTURE * method.latents)
        rows, steps = batch.mask[:, 1:].nonzero(as_tuple=True)  # the first input of a row is never replaced
        positions = hidden[rows, steps], batch.gold[rows, steps], batch.ids[rows], steps
        changed = torch.cat([method.changed(mix, *some) for some in chunks(width, *positions)])
        total = changed.new_zeros(len(batch), dtype=torch.float64).index_add(0, rows, changed.double())
        return total / (batch.length - 1).clamp(min=1)

    def _mix(self, given: Training | Scoring) -> Mix | None:
        """Return the mixing parameters of an update; None if no tokens are replaced."""
        if self.method is None or not self.training or not isinstance(given, Training):
            return None
        return self.method.mix(given)

    def predict(
        self, batch: Batch, given: Training | Scoring, changed: list[Tensor] | None = None, **more: Any
    ) -> tuple[Tensor, LanguageModelState]:
        """Read the inputs in pieces, each up to the next replacement in any row.

        Appends to `changed` the shares of replaced inputs that come from other tokens than gold.
        """
        mix = self._mix(given)
        if mix is None:
            return super().predict(batch, given, **more)
        inputs, before = self.embed(batch.inputs), batch.prompt.shape[1]
        masks = self.rnn.masks(inputs, len(batch))
        state = given.memory or self.begin(batch)
        units = state.past
        replaced = self._replacements(batch, mix)  # by position
        pieces: list[Tensor] = []
        for first, last in pairwise([0, *replaced, inputs.shape[1]]):
            piece = inputs[:, first:last]
            if first in replaced:
                rows, coins = replaced[first]
                step = first - before
                places = ReplacedPositions(pieces[-1][rows, -1], batch.gold[rows, step], coins, batch.ids[rows], step)
                piece = torch.cat([self._replace(piece[:, 0], rows, places, mix, changed)[:, None], piece[:, 1:]], 1)
            hidden, units = self.rnn(piece, units, masks)
            pieces.append(hidden)
        states = torch.cat(pieces, 1)
        head = state.head if given.memory else self.head.start(states[:, : before - 1])
        return states[:, before - 1 :], LanguageModelState(units, head=head)

    def _replace(
        self, gold: Tensor, rows: Tensor, places: ReplacedPositions, mix: Mix, changed: list[Tensor] | None
    ) -> Tensor:
        """Return the embeddings [N, E] read at one step: `gold`, replaced in `rows`."""
        assert self.method is not None
        read = self.method.read(places, mix)
        if changed is not None:
            changed.append(read.changed)
        return gold.index_copy(0, rows, read.embeddings.to(gold.dtype))

    def _replacements(self, batch: Batch, mix: Mix) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the rows [M] and coins [M, C] of replacements, by input position."""
        assert self.method is not None
        replacements, host, device = {}, batch.on_host, batch.ids.device
        for step in range(batch.gold.shape[1] - 1):
            coins = self.method.coins(host.ids, step, mix)
            rows = (coins.any(1) & (step + 1 < host.length)).nonzero()[:, 0]
            if len(rows):
                replacements[batch.prompt.shape[1] + step] = to_device(rows, device), to_device(coins[rows], device)
        return replacements


class ECOCLM(ConditionalLM):
    """A language model whose tokens are codewords, trained bit by bit."""

    def __init__(self, config: ECOCLMConfig, info: TaskInfo) -> None:
        sizes, exact = (config.hidden, len(info.vocabulary), config.bits, config.group), config.loss == "exact"
        head = code_layer(config.codes, *sizes, exact, config.gain, config.reading)
        super().__init__(config, info, head)


class SoftmaxLM(ConditionalLM):
    """A language model with a softmax over tokens, or an approximation of it."""

    def __init__(self, config: SoftmaxLMConfig, info: TaskInfo) -> None:
        head = output_layer(config.output, config.hidden, len(info.vocabulary), config.sparse_embedding)
        super().__init__(config, info, head)
        if config.tied:
            head.tie(self.embed)


def _initialize(model: nn.Module, scale: float) -> None:
    """Sample matrices from U(-scale, scale); set biases to 0, forget gate biases to 1."""
    for weights in model.parameters():
        if weights.dim() > 1:
            nn.init.uniform_(weights, -scale, scale)
        else:
            nn.init.zeros_(weights)
    for layer in model.modules():
        if isinstance(layer, nn.LSTM):
            _, forget, _, _ = layer.all_weights[0][2].detach().chunk(4)
            nn.init.ones_(forget)
