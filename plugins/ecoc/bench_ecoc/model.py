"""Recurrent language models with a choice of output layer, source and training inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from bench_core import Batch, Loss, Noise, Scorer, Scores, Scoring, State, Stepper, TaskInfo, Training
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
from bench_rnn.api import Memory, Units


class ConditionalLM(nn.Module, Stepper[Memory], Scorer):
    """p(y | x) = prod_t p(y_t | h_t), with h_t from stacked recurrent layers over y_<t.

    A source vector [N, D] gives the hidden units of all layers before the first step, by one linear map; of a grid
    [N, S, D] it is the mean over S that does so. Without a source they begin at 0, as cells always do.

    In training, and there alone, tokens that follow the opening may be replaced by what the model predicts. A window
    of a stream begins with the memory of the one before, with a gold token, and with new masks of dropout.
    """

    def __init__(self, config: RecurrentConfig, info: TaskInfo, output: Layer) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.embedding, sparse=config.sparse_embedding)
        self.rnn = VariationalLayers(config.cell, config.embedding, config.hidden, config.layers, config.dropout)
        self.output = output
        width = config.layers * config.hidden
        self.source = nn.Linear(info.source_shape[-1], width) if info.source_shape else None
        self.method: Method | None = method(config.inputs, output, self.embed)
        self.info = info
        _begin_small(self, config.initial_scale)

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        self.output.setup(info, noise)

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], noise: Noise) -> None:
        if self.output.surveys:
            self.output.fit_statistics([row for batch in batches() for row in _sentences(batch)], self.info, noise)

    def notes(self) -> Mapping[str, str]:
        return self.output.notes()

    def loss(self, batch: Batch, training: Training) -> Loss:
        mix = self.method.mix(training) if self.method and self.training else None
        hidden, past = self._read(batch, training.memory, mix)
        costs, output = self._costs(hidden, batch, past, training)  # [M] real tokens
        shown = {"p_mix": costs.new_tensor(mix.share)} if mix else {}
        return Loss(costs.mean(), batch.length.sum(), shown, replace(past, output=output))

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden, past = self._read(batch, scoring.memory, None)
        log_probs, output = self.output.score(hidden, batch, past.output, scoring.by)  # [M] real tokens
        total = _by_row(log_probs, batch).sum(1)
        return Scores(total, self._values(hidden, batch), replace(past, output=output))

    def start(self, batch: Batch) -> tuple[Tensor, Memory]:
        hidden, units = self._advance(self.embed(batch.opening), self._begin(batch))
        return self._next(hidden[:, -1:], Memory(units, self.output.start(hidden[:, :-1])))

    def step(self, state: Memory, actions: Tensor) -> tuple[Tensor, Memory]:
        hidden, units = self._advance(self.embed(actions[:, None]), state.units)
        return self._next(hidden, replace(state, units=units))

    def _costs(self, hidden: Tensor, batch: Batch, past: Memory, training: Training) -> tuple[Tensor, State]:
        """Return what to minimise for each real token [M], and what the output layer remembers."""
        return self.output.loss(hidden, batch, past.output, training)

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return what is known of rows [N]: millions of parameters of the output layer, for all the same."""
        count = sum(weights.numel() for weights in self.output.parameters())
        return {"decoder_parameters": batch.ids.new_full(batch.ids.shape, count / 1e6, dtype=torch.float64)}

    def _next(self, hidden: Tensor, past: Memory) -> tuple[Tensor, Memory]:
        log_probs, output = self.output.log_probs(hidden, past.output)
        return log_probs[:, 0], replace(past, output=output)

    def _begin(self, batch: Batch) -> Units | None:
        """Return the units of all layers that the source gives [N, L, H], None where there is none."""
        if self.source is None:
            return None
        assert batch.source is not None
        vectors = batch.source.mean(1) if batch.source.dim() == 3 else batch.source
        hidden = self.source(vectors.to(self.source.weight.dtype)).unflatten(1, (len(self.rnn.layers), -1))
        return (hidden, torch.zeros_like(hidden)) if self.rnn.cells else (hidden,)

    def _advance(self, inputs: Tensor, units: Units | None) -> tuple[Tensor, Units]:
        return self.rnn(inputs, units, self.rnn.masks(inputs, len(inputs)))  # type: ignore[no-any-return]

    def _read(self, batch: Batch, past: Memory | None, mix: Mix | None) -> tuple[Tensor, Memory]:
        """Return the units that predict `gold` [N, T, H], and a memory that `output` has yet to see.

        Tokens are read all at once, up to the next one that is replaced in any row.
        """
        inputs, given = self.embed(batch.inputs), batch.opening.shape[1]
        masks = self.rnn.masks(inputs, len(batch))
        units = past.units if past else self._begin(batch)
        replaced = self._replaced(batch, mix)  # by place
        pieces: list[Tensor] = []
        for first, last in pairwise([0, *replaced, inputs.shape[1]]):
            piece = inputs[:, first:last]
            if first in replaced:
                rows, coins = replaced[first]
                step = first - given
                places = Places(pieces[-1][rows, -1], batch.gold[rows, step], coins, batch.ids[rows], step)
                piece = torch.cat([self._replace(piece[:, 0], rows, places, mix)[:, None], piece[:, 1:]], 1)
            hidden, units = self.rnn(piece, units, masks)
            pieces.append(hidden)
        assert units is not None
        hidden = torch.cat(pieces, 1)
        output = past.output if past else self.output.start(hidden[:, : given - 1])
        return hidden[:, given - 1 :], Memory(units, output)

    def _replace(self, gold: Tensor, rows: Tensor, places: Places, mix: Mix | None) -> Tensor:
        """Return the embeddings that are read at one step [N, E], those of gold tokens but for some rows."""
        assert self.method is not None
        assert mix is not None
        return gold.index_copy(0, rows, self.method.read(places, mix).to(gold.dtype))

    def _replaced(self, batch: Batch, mix: Mix | None) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the places among the inputs where tokens are replaced: in which rows [M], and the coins [M, C]."""
        if self.method is None or mix is None:
            return {}
        found = {}
        for step in range(batch.gold.shape[1] - 1):
            coins = self.method.coins(batch.ids, step, mix)
            rows = (coins.any(1) & (step + 1 < batch.length)).nonzero()[:, 0]
            if len(rows):
                found[batch.opening.shape[1] + step] = rows, coins[rows]
        return found


class ECOCLM(ConditionalLM):
    """A language model whose tokens are codewords, learnt bit by bit."""

    output: Ecoc

    def __init__(self, config: ECOCLMConfig, info: TaskInfo) -> None:
        tokens = len(info.vocabulary)
        exact = config.loss == "exact"
        sizes = config.group, config.vector_size
        output = Ecoc(config.hidden, tokens, config.bits, config.order, *sizes, exact, config.gain)
        super().__init__(config, info, output)
        self.by_bits = not exact

    def _costs(self, hidden: Tensor, batch: Batch, past: Memory, training: Training) -> tuple[Tensor, State]:
        if self.by_bits:
            return super()._costs(hidden, batch, past, training)
        log_probs, output = self.output.score(hidden, batch, past.output, "exact")
        return -log_probs, output

    def _values(self, hidden: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return also the share of bits that a threshold would give wrong, over all tokens of the row."""
        wrong = self.output.bit_errors(hidden[batch.mask], batch.gold[batch.mask])
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
