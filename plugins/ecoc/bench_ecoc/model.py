"""Recurrent language models with a choice of output layer, source and training inputs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bench_captioning.api import image_encoder
from bench_core import Batch, Loss, Rng, Scores, Scoring, TaskInfo, Training, to_device
from bench_core.kit import LanguageModel, LanguageModelState
from bench_ecoc import settings
from bench_ecoc.adaptive import AdaptiveSoftmax
from bench_ecoc.ecoc import Ecoc
from bench_ecoc.hierarchical import HierarchicalSoftmax
from bench_ecoc.inputs import Method, Mix, ReplacedPositions, method
from bench_ecoc.layer import FullSoftmax, ScoringHead
from bench_ecoc.nce import NCE
from bench_ecoc.plugin import ECOCLMConfig, RecurrentConfig, SoftmaxLMConfig
from bench_ecoc.sampled import SampledSoftmax
from bench_ecoc.variational import VariationalLayers
from bench_rnn.api import Units


class ConditionalLM(LanguageModel):
    """p(y | x) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    A linear map of the source vector [N, D], or of the mean of a source grid [N, S, D] over S, initializes the hidden
    units of all layers; an `ImageEncoder` turns images into vectors. Without a source, hidden units start at 0; cells
    always start at 0.

    In training only, tokens after the prompt may be replaced by model predictions. A window of a stream starts with
    the memory of the previous window, a gold token, and new dropout masks.
    """

    head: ScoringHead

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

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], rng: Rng) -> None:
        if self.head.needs_statistics:
            self.head.fit_statistics([row for batch in batches() for row in _sentences(batch)], self.info, rng)

    def notes(self) -> Mapping[str, str]:
        return self.head.notes()

    def loss(self, batch: Batch, training: Training, **more: Any) -> Loss:
        loss = super().loss(batch, training, **more)
        mix = self._mix(training)
        return replace(loss, parts={"p_mix": torch.full_like(loss.value, mix.share)}) if mix else loss

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        states, state = self.predict(batch, scoring)
        log_probs, head = self.head.score(states, batch, state.head, scoring.by)  # [M] per real token
        total = _by_row(log_probs, batch).sum(1)
        return Scores(total, self._values(states, batch), self._memory(scoring.memory, state, head))

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

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return the reported values [N] of each row: the number of output layer parameters, in millions."""
        count = sum(weights.numel() for weights in self.head.parameters())
        return {"decoder_parameters": batch.ids.new_full(batch.ids.shape, count / 1e6, dtype=torch.float64)}

    def _mix(self, given: Training | Scoring) -> Mix | None:
        """Return the mixing parameters of an update; None if no tokens are replaced."""
        if self.method is None or not self.training or not isinstance(given, Training):
            return None
        return self.method.mix(given)

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        """Read the inputs in pieces, each up to the next replacement in any row."""
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
                piece = torch.cat([self._replace(piece[:, 0], rows, places, mix)[:, None], piece[:, 1:]], 1)
            hidden, units = self.rnn(piece, units, masks)
            pieces.append(hidden)
        states = torch.cat(pieces, 1)
        head = state.head if given.memory else self.head.start(states[:, : before - 1])
        return states[:, before - 1 :], LanguageModelState(units, head=head)

    def _replace(self, gold: Tensor, rows: Tensor, places: ReplacedPositions, mix: Mix) -> Tensor:
        """Return the embeddings [N, E] read at one step: `gold`, replaced in `rows`."""
        assert self.method is not None
        return gold.index_copy(0, rows, self.method.read(places, mix).to(gold.dtype))

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

    head: Ecoc

    def __init__(self, config: ECOCLMConfig, info: TaskInfo) -> None:
        tokens, exact = len(info.vocabulary), config.loss == "exact"
        sizes = config.group, config.vector_size
        head = Ecoc(config.hidden, tokens, config.bits, config.order, *sizes, exact, config.gain)
        super().__init__(config, info, head)

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Add the share of wrongly predicted bits, over all tokens of the row."""
        wrong = self.head.bit_errors(batch.at_real(hidden), batch.at_real(batch.gold))
        return {**super()._values(hidden, batch), "bit_error_rate": _by_row(wrong, batch).sum(1) / batch.length}


class SoftmaxLM(ConditionalLM):
    """A language model with a softmax over tokens, or an approximation of it."""

    def __init__(self, config: SoftmaxLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info, output_layer(config, len(info.vocabulary)))


def output_layer(config: SoftmaxLMConfig, tokens: int) -> ScoringHead:
    """Create the output layer of a Config."""
    hidden, sparse = config.hidden, config.sparse_embedding
    match config.output:
        case settings.Sampled(samples=samples, by=by):
            return SampledSoftmax(hidden, tokens, samples, by, sparse)
        case settings.NoiseContrastive(samples=samples):
            return NCE(hidden, tokens, samples, sparse)
        case settings.Hierarchical(order=order, size=size):
            return HierarchicalSoftmax(hidden, tokens, order, size, sparse)
        case settings.Adaptive(cutoffs=cutoffs):
            return AdaptiveSoftmax(hidden, tokens, cutoffs)
    return FullSoftmax(hidden, tokens)


def _by_row(real: Tensor, batch: Batch) -> Tensor:
    """Scatter values of the real tokens [M] into [N, T], float64, with 0 elsewhere."""
    mask = batch.mask
    return real.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, real.double())


def _sentences(batch: Batch) -> list[list[int]]:
    """Return the tokens of each row, without the first token of the prompt."""
    rows = torch.cat([batch.prompt[:, 1:], batch.gold], 1).tolist()
    lengths = (batch.length + batch.prompt.shape[1] - 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


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
