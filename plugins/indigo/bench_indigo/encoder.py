"""Encoders of a source: tokens, bags of tokens, features, or images."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_captioning.api import image_encoder
from bench_core import STOP, Batch, Source, SuiteError, TaskInfo
from bench_indigo.blocks import Embedding, Shape, TransformerLayer, additive_mask, attention_mask, sinusoids
from bench_indigo.plugin import Positions, TransformerSettings
from bench_indigo.relations import relations


class SourceEncoder(nn.Module):
    """Transformer layers over a source [N, S, d]: embeddings of its tokens, or a linear map of its features.

    Tokens have positions, as relations or sinusoids; bags and features have no positions. An empty source is read as
    a single EOS token; a vector is read as a grid with one cell, an image as the grid of an `ImageEncoder`.
    """

    def __init__(self, config: TransformerSettings, info: TaskInfo, shared: Embedding | None) -> None:
        super().__init__()
        self.positions = positions(config, info)
        shape = Shape(config.d_model, config.heads, config.feed_forward, config.dropout, self.positions == "relative")
        self.embed: nn.Module
        self.image_encoder, size = image_encoder(config.image_channels, info)
        if size:
            self.embed = nn.Linear(size, config.d_model)
        else:
            self.embed = shared or Embedding(len(info.source_vocabulary), config.d_model)
        self.layers = nn.ModuleList(TransformerLayer(shape, crossing=False) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """Return the states after each layer [N, S, d], and the padding mask [N, 1, 1, S]: 0, or -inf at padding."""
        source, real = _read(batch, self.image_encoder)
        states = self.embed(source)
        if self.positions == "sinusoidal":
            states = states + sinusoids(0, states.shape[1], states)
        states = self.dropout(states)
        seen = real[:, None].expand(-1, states.shape[1], -1)
        places = torch.arange(states.shape[1], device=states.device)[None]
        attention = attention_mask(seen, relations(places) if self.positions == "relative" else None, states)
        outputs = []
        for layer in self.layers:
            states = layer(states, attention)
            outputs.append(states)
        return outputs, additive_mask(real[:, None, None], states)


def positions(config: TransformerSettings, info: TaskInfo) -> Positions:
    """Return the position encoding of an encoder; raise SuiteError if the source has no order."""
    ordered = not info.source_shape and info.source != Source.BAG
    default: Positions = getattr(config, "positions", "relative")  # as in a plain Transformer's decoder
    encoding = config.source_positions or (default if ordered else "none")
    if encoding != "none" and not ordered:
        features = "an image" if info.source == Source.IMAGE else "a source of features"
        what = features if info.source_shape else "a bag"
        raise SuiteError(
            f"`source_positions: {encoding}` needs an ordered source, but {what} has no order. Remove this setting."
        )
    return encoding


def _read(batch: Batch, encoder: nn.Module | None) -> tuple[Tensor, Tensor]:
    """Return the source [N, S] or [N, S, D], with S > 0, and which positions are not padding [N, S]."""
    assert batch.source is not None, "the Config declares `sources`"
    source, length = batch.source if encoder is None else encoder(batch.source), batch.source_length
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
