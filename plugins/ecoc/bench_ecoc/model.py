"""Recurrent language models with a choice of output layer, source and training inputs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Noise, Scores, Scoring, TaskInfo, Training, to_device
from bench_core.kit import LanguageModel, LanguageModelState
from bench_ecoc import settings
from bench_ecoc.adaptive import Adaptive
from bench_ecoc.ecoc import Ecoc
from bench_ecoc.hierarchical import Hierarchical
from bench_ecoc.inputs import Method, Mix, Places, method
from bench_ecoc.layer import Full, Layer
from bench_ecoc.nce import NCE
from bench_ecoc.plugin import ECOCLMConfig, RecurrentConfig, SoftmaxLMConfig
from bench_ecoc.sampled import Sampled
from bench_ecoc.variational import VariationalLayers
from bench_rnn.api import Units


class ConditionalLM(LanguageModel):
    """p(y | x) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    A source vector [N, D] gives the hidden units of all layers before the first step, by one linear map; of a grid
    [N, S, D] it is the mean over S that does so. Without a source they begin at 0, as cells always do.

    In training, and there alone, tokens that follow the opening may be replaced by what the model predicts. A window
    of a stream begins with the memory of the one before, with a gold token, and with new masks of dropout.
    """

    head: Layer

    def __init__(self, config: RecurrentConfig, info: TaskInfo, head: Layer) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.embedding, sparse=config.sparse_embedding)
        self.rnn = VariationalLayers(config.cell, config.embedding, config.hidden, config.layers, config.dropout)
        self.head = head
        width = config.layers * config.hidden
        self.source = nn.Linear(info.source_shape[-1], width) if info.source_shape else None
        self.method: Method | None = method(config.inputs, head, self.embed)
        self.info = info
        _begin_small(self, config.initial_scale)

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], noise: Noise) -> None:
        if self.head.surveys:
            self.head.fit_statistics([row for batch in batches() for row in _sentences(batch)], self.info, noise)

    def notes(self) -> Mapping[str, str]:
        return self.head.notes()

    def loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        loss = super().loss(batch, training, **more)
        mix = self._mix(training)
        return replace(loss, parts={"p_mix": torch.full_like(loss.value, mix.share)}) if mix else loss

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        states, state = self.predict(batch, scoring)
        log_probs, head = self.head.score(states, batch, state.head, scoring.by)  # [M] real tokens
        total = _by_row(log_probs, batch).sum(1)
        return Scores(total, self._values(states, batch), self._memory(scoring.memory, state, head))

    def begin(self, batch: Batch) -> LanguageModelState:
        """Return the hidden units of all layers that the source gives, and cells of 0; nothing without a source."""
        if self.source is None:
            return LanguageModelState()
        assert batch.source is not None
        vectors = batch.source.mean(1) if batch.source.dim() == 3 else batch.source
        hidden = self.source(vectors.to(self.source.weight.dtype)).unflatten(1, (len(self.rnn.layers), -1))
        return LanguageModelState((hidden, torch.zeros_like(hidden)) if self.rnn.cells else (hidden,))

    def forward(self, tokens: Tensor, past: Units | None = None) -> tuple[Tensor, Units]:
        """Return the units after each of `tokens` [N, K, H], and those of all layers after the last."""
        inputs = self.embed(tokens)
        return self.rnn(inputs, past, self.rnn.masks(inputs, len(inputs)))  # type: ignore[no-any-return]

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return what is known of rows [N]: millions of parameters of the output layer, for all the same."""
        count = sum(weights.numel() for weights in self.head.parameters())
        return {"decoder_parameters": batch.ids.new_full(batch.ids.shape, count / 1e6, dtype=torch.float64)}

    def _mix(self, given: Training | Scoring) -> Mix | None:
        """Return how tokens are replaced; None where they are not."""
        if self.method is None or not self.training or not isinstance(given, Training):
            return None
        return self.method.mix(given)

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        """Read tokens all at once, up to the next one that is replaced in any row."""
        mix = self._mix(given)
        if mix is None:
            return super().predict(batch, given, **more)
        inputs, before = self.embed(batch.inputs), batch.opening.shape[1]
        masks = self.rnn.masks(inputs, len(batch))
        state = given.memory or self.begin(batch)
        units = state.past
        replaced = self._replaced(batch, mix)  # by place
        pieces: list[Tensor] = []
        for first, last in pairwise([0, *replaced, inputs.shape[1]]):
            piece = inputs[:, first:last]
            if first in replaced:
                rows, coins = replaced[first]
                step = first - before
                places = Places(pieces[-1][rows, -1], batch.gold[rows, step], coins, batch.ids[rows], step)
                piece = torch.cat([self._replace(piece[:, 0], rows, places, mix)[:, None], piece[:, 1:]], 1)
            hidden, units = self.rnn(piece, units, masks)
            pieces.append(hidden)
        states = torch.cat(pieces, 1)
        head = state.head if given.memory else self.head.start(states[:, : before - 1])
        return states[:, before - 1 :], LanguageModelState(units, head=head)

    def _replace(self, gold: Tensor, rows: Tensor, places: Places, mix: Mix) -> Tensor:
        """Return the embeddings that are read at one step [N, E], those of gold tokens but for some rows."""
        assert self.method is not None
        return gold.index_copy(0, rows, self.method.read(places, mix).to(gold.dtype))

    def _replaced(self, batch: Batch, mix: Mix) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the places among the inputs where tokens are replaced: in which rows [M], and the coins [M, C]."""
        assert self.method is not None
        found, host, device = {}, batch.on_host, batch.ids.device
        for step in range(batch.gold.shape[1] - 1):
            coins = self.method.coins(host.ids, step, mix)
            rows = (coins.any(1) & (step + 1 < host.length)).nonzero()[:, 0]
            if len(rows):
                found[batch.opening.shape[1] + step] = to_device(rows, device), to_device(coins[rows], device)
        return found


class ECOCLM(ConditionalLM):
    """A language model whose tokens are codewords, learnt bit by bit."""

    head: Ecoc

    def __init__(self, config: ECOCLMConfig, info: TaskInfo) -> None:
        tokens, exact = len(info.vocabulary), config.loss == "exact"
        sizes = config.group, config.vector_size
        head = Ecoc(config.hidden, tokens, config.bits, config.order, *sizes, exact, config.gain)
        super().__init__(config, info, head)

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return also the share of bits that a threshold would give wrong, over all tokens of the row."""
        wrong = self.head.bit_errors(batch.at_real(hidden), batch.at_real(batch.gold))
        return {**super()._values(hidden, batch), "bit_error_rate": _by_row(wrong, batch).sum(1) / batch.length}


class SoftmaxLM(ConditionalLM):
    """A language model with a softmax over tokens, or what approximates it."""

    def __init__(self, config: SoftmaxLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info, output_layer(config, len(info.vocabulary)))


def output_layer(config: SoftmaxLMConfig, tokens: int) -> Layer:
    """Return the output layer that settings ask for."""
    hidden, sparse = config.hidden, config.sparse_embedding
    match config.output:
        case settings.Sampled(samples=samples, by=by):
            return Sampled(hidden, tokens, samples, by, sparse)
        case settings.NoiseContrastive(samples=samples):
            return NCE(hidden, tokens, samples, sparse)
        case settings.Hierarchical(order=order, size=size):
            return Hierarchical(hidden, tokens, order, size, sparse)
        case settings.Adaptive(cutoffs=cutoffs):
            return Adaptive(hidden, tokens, cutoffs)
    return Full(hidden, tokens)


def _by_row(real: Tensor, batch: Batch) -> Tensor:
    """Return numbers of the real tokens [M] where these stand [N, T], in float64, others 0."""
    mask = batch.mask
    return real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double())


def _sentences(batch: Batch) -> list[list[int]]:
    """Return the tokens of each row, all but the one that the opening begins with."""
    rows = torch.cat([batch.opening[:, 1:], batch.gold], 1).tolist()
    lengths = (batch.length + batch.opening.shape[1] - 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _begin_small(model: nn.Module, scale: float) -> None:
    """Draw matrices from U(-scale, scale); set biases to 0, but those of forget gates to 1."""
    for weights in model.parameters():
        if weights.dim() > 1:
            nn.init.uniform_(weights, -scale, scale)
        else:
            nn.init.zeros_(weights)
    for layer in model.modules():
        if isinstance(layer, nn.LSTM):
            _, forget, _, _ = layer.all_weights[0][2].detach().chunk(4)
            nn.init.ones_(forget)
