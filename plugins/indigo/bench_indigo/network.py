"""Embeddings, encoder and decoder layers shared by the models of this package."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from bench_core import Batch, SuiteError, TaskInfo
from bench_indigo.blocks import Embedding, Shape, Sources, Words
from bench_indigo.encoder import Encoder
from bench_indigo.kv_cache import Stack
from bench_indigo.plugin import TransformerSettings

LOGITS = 2**25  # computed at a time, 128 MiB in float32, so that scoring needs no more for a larger batch


class EncoderDecoder(nn.Module):
    """An encoder, the layers of a decoder, and the embeddings of V tokens and of others that are never predicted."""

    def __init__(
        self, config: TransformerSettings, info: TaskInfo, relative: bool, others: int = 0, mapped: bool = False
    ) -> None:
        super().__init__()
        if config.shared:
            _check_alike(info)
        self.settings, self.tokens = config, len(info.vocabulary)
        self.features = bool(info.source_shape)
        self.embed = Embedding(self.tokens + others, config.d_model)
        self.encoder = Encoder(config, info, self.embed if config.shared else None)
        shape = Shape(config.d_model, config.heads, config.feed_forward, config.dropout, relative)
        self.stack = Stack(shape, config.layers, config.cross_attention == "forward")
        self.words = Words(config.d_model, self.tokens, config.tied, mapped)
        self.dropout = nn.Dropout(config.dropout)

    def limit(self, batch: Batch) -> Tensor | None:
        """Return the most target tokens of each row [N], by the tokens of its source; None where that has none."""
        if self.features or batch.source_length is None:
            return None
        most = (self.settings.limit_ratio * batch.source_length).long() + self.settings.limit_extra
        return most.clamp(min=1)

    def encode(self, batch: Batch) -> Sources:
        """Return what there is to see of the sources."""
        return self.stack.read(*self.encoder(batch))

    def costs(self, states: Tensor, tokens: Tensor, smoothing: float = 0.0, first: int = 0) -> Tensor:
        """Return -log p of `tokens` [M] after items with `states` [M, d], where those before `first` cannot be."""
        most = max(1, LOGITS // self.tokens)
        parts = zip(torch.split(states, most), torch.split(tokens, most), strict=True)
        return torch.cat([
            cross_entropy(
                self.words(some, self.embed)[:, first:], wanted - first, reduction="none", label_smoothing=smoothing
            )
            for some, wanted in parts
        ])  # fmt: skip

    def log_probs(self, states: Tensor, first: int = 0) -> Tensor:
        """Return log p(word) [*, V] after the last items' states [*, d], -inf of words before `first`."""
        found: Tensor = self.words(states, self.embed)[..., first:].log_softmax(-1)
        return pad(found, (first, 0), value=-torch.inf) if first else found


def _check_alike(info: TaskInfo) -> None:
    """Raise SuiteError where source and target differ in their tokens."""
    source, target = list(info.source_vocabulary), list(info.vocabulary)
    if source == target:
        return
    what = f"has {len(source):,} tokens" if source else "has no tokens"
    first = next((n for n, (one, other) in enumerate(zip(source, target, strict=False)) if one != other), None)
    where = "" if first is None else f"; token {first} is {source[first]!r} there and {target[first]!r} here"
    raise SuiteError(
        "source and target share their embeddings only where they have one vocabulary. The source "
        f"{what}, the target {len(target):,}{where}. Tokenise both together, or set `shared: false`."
    )
