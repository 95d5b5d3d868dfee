"""Masked diffusion with a Transformer (Sahoo et al., 2024)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bench_canvas.bounds import all_orders, sampled_orders
from bench_canvas.canvas import BEYOND, MASK, Canvas
from bench_canvas.plugin import MaskedDiffusionConfig
from bench_canvas.rows import blank, filled, sample_hidden
from bench_core import Batch, Loss, Scorer, Scores, Scoring, Source, State, SuiteError, TaskInfo, Training, to_device
from bench_indigo.api import EncodedSources, Pair, TransformerNetwork, attention_mask, sinusoids


@dataclass(frozen=True)
class SourceKeys(State):
    """Keys, values and padding of the sources."""

    pairs: tuple[Pair, ...]
    mask: Tensor


class MaskedDiffusion(TransformerNetwork, Canvas[SourceKeys], Scorer):
    """p(token | place), given the source and the tokens of all places that are not masked.

    Places have sinusoidal positions and attend to all places of their canvas; a target is followed by EOS up to the
    end of its canvas. The loss samples the number k of masked places uniformly from 1 to C, then which places:

        (C / k) sum_{masked i} -log p(y_i | y outside the mask, x),

    an unbiased estimate of the bound in `bounds`, so weights of C / k replace the noise schedule of continuous time.
    An output may also be read from canvases with other tokens after its EOS, so log p(output) is at least the bound.
    """

    def __init__(self, config: MaskedDiffusionConfig, info: TaskInfo) -> None:
        if config.places is None and (info.source is Source.NONE or info.source_shape):
            raise SuiteError(
                "without source tokens, the width of a canvas of masked-diffusion is unknown. Set `places`."
            )
        if info.consecutive:
            raise SuiteError(
                "masked-diffusion fills canvases with whole targets, but the examples of this task are windows of a "
                "stream. Choose a task of sentences."
            )
        self.sourceless = info.source is Source.NONE
        if self.sourceless:  # an empty source is read as EOS
            info = replace(info, source_vocabulary=info.vocabulary[:1])
        super().__init__(config, info, relative=False, others=1)
        self.config = config

    def loss(self, batch: Batch, training: Training) -> Loss:
        host, device = batch.on_host, batch.gold.device
        first = self._blank(host)
        target = filled(host, first, self.config.name)
        sample = sample_hidden(host.ids, first == MASK, training.rng)
        places = sample.hidden.flatten().nonzero()[:, 0]
        wanted, weight = target.flatten()[places], sample.weight[places // target.shape[1]]
        canvas = target.masked_fill(sample.hidden, MASK)

        states = self._read(self._encode(batch), to_device(canvas, device)).flatten(0, 1)
        states = states.index_select(0, to_device(places, device))
        costs = self.costs(states, to_device(wanted, device), training.label_smoothing)
        tokens = batch.length.sum()
        return Loss((costs * to_device(weight, device).to(costs.dtype)).sum() / tokens, tokens)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        known, canvas = self.begin(batch)
        target, free = filled(batch, canvas, self.config.name), canvas == MASK
        if scoring.by == "all-orders":
            return Scores(all_orders(self, known, target, free))
        return Scores(sampled_orders(self, known, target, free, batch.ids, scoring.rng, self.config.orders))

    def begin(self, batch: Batch) -> tuple[SourceKeys, Tensor]:
        return self._encode(batch), self._blank(batch)

    def places(self, known: SourceKeys, canvas: Tensor) -> Tensor:
        return self.log_probs(self._read(known, canvas))

    def _blank(self, batch: Batch) -> Tensor:
        """Return blank canvases of `places` places or, by default, of as many as the source permits."""
        if self.config.places is not None:
            return blank(batch, torch.full_like(batch.ids, self.config.places), self.config.name)
        limit = self.limit(batch)
        assert limit is not None, "without source tokens, the constructor requires `places`"
        return blank(batch, limit + batch.prompt.shape[1] - 1, self.config.name)

    def _encode(self, batch: Batch) -> SourceKeys:
        if self.sourceless:
            length = torch.zeros_like(batch.ids)
            batch = replace(batch, source=length[:, None][:, :0], source_length=length)
        sources = self.encode(batch)
        return SourceKeys(sources.pairs, sources.mask)

    def _read(self, known: SourceKeys, canvas: Tensor) -> Tensor:
        """Return the top states of all places [N, C, d]; masked places are read as token V."""
        states = self.embed(torch.where(canvas < 0, self.tokens, canvas))
        states = self.dropout(states + sinusoids(0, canvas.shape[1], states))
        seen = (canvas != BEYOND)[:, None]  # [N, 1, C]
        top: Tensor = self.stack(states, attention_mask(seen, None, states), EncodedSources(known.pairs, known.mask))
        return top
