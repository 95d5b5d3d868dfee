"""Encoders of a source: tokens, bags of tokens, or features."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import STOP, Batch, Source, SuiteError, TaskInfo
from bench_indigo.blocks import Embedding, Layer, Shape, shut, sight, sinusoids
from bench_indigo.plugin import Positions, TransformerSettings
from bench_indigo.relations import relations


class Encoder(nn.Module):
    """Layers over a source [N, S, d]: embeddings of its tokens, or a linear map of its features.

    Tokens know their positions, by their relations or by sinusoids; what is in a bag, and features, do not. An empty
    source is read as a lone stop, a vector as a grid of one.
    """

    def __init__(self, config: TransformerSettings, info: TaskInfo, shared: Embedding | None) -> None:
        super().__init__()
        self.positions = positions(config, info)
        shape = Shape(config.d_model, config.heads, config.feed_forward, config.dropout, self.positions == "relative")
        self.embed: nn.Module
        if info.source_shape:
            self.embed = nn.Linear(info.source_shape[-1], config.d_model)
        else:
            self.embed = shared or Embedding(len(info.source_vocabulary), config.d_model)
        self.layers = nn.ModuleList(Layer(shape, crossing=False) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """Return the states after each layer [N, S, d], and what is padding, as `shut` [N, 1, 1, S]."""
        source, real = _read(batch)
        states = self.embed(source)
        if self.positions == "sinusoidal":
            states = states + sinusoids(0, states.shape[1], states)
        states = self.dropout(states)
        seen = real[:, None].expand(-1, states.shape[1], -1)
        places = torch.arange(states.shape[1], device=states.device)[None]
        what = sight(seen, relations(places) if self.positions == "relative" else None, states)
        found = []
        for layer in self.layers:
            states = layer(states, what)
            found.append(states)
        return found, shut(real[:, None, None], states)


def positions(config: TransformerSettings, info: TaskInfo) -> Positions:
    """Return how an encoder knows positions; raise SuiteError where there are none to know."""
    ordered = not info.source_shape and info.source != Source.BAG
    own: Positions = getattr(config, "positions", "relative")  # a plain Transformer reads as it writes
    found = config.source_positions or (own if ordered else "none")
    if found != "none" and not ordered:
        what = "features" if info.source_shape else "a bag"
        raise SuiteError(
            f"`source_positions: {found}` is of sources with an order, and {what} has none. Leave it out."
        )
    return found


def _read(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the source [N, S] or [N, S, D], with at least one place, and which places are real [N, S]."""
    assert batch.source is not None, "the Config says that it takes sources"
    source, length = batch.source, batch.source_length
    if source.is_floating_point():
        source = source if source.dim() == 3 else source[:, None]
    elif not source.shape[1]:
        source = pad(source, (0, 1), value=STOP)
    places = torch.arange(source.shape[1], device=source.device).expand(source.shape[:2])
    if length is None:
        return source, torch.ones_like(places, dtype=torch.bool)
    if not source.is_floating_point():
        source = source.masked_fill(places >= length[:, None], STOP)
    return source, places < length.clamp(min=1)[:, None]
