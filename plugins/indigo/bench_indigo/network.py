"""Embeddings, encoder and decoder layers shared by the models of this package."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from bench_core import Batch, SuiteError, TaskInfo
from bench_indigo.blocks import Embedding, EncodedSources, Shape, WordLogits
from bench_indigo.encoder import SourceEncoder
from bench_indigo.kv_cache import DecoderStack
from bench_indigo.plugin import TransformerSettings

LOGITS = 2**25  # logits per chunk, 128 MiB in float32, so that memory does not grow with the batch


class TransformerNetwork(nn.Module):
    """Encoder, decoder layers, and embeddings of V tokens and of `others` tokens that are never predicted."""

    def __init__(
        self, config: TransformerSettings, info: TaskInfo, relative: bool, others: int = 0, mapped: bool = False
    ) -> None:
        super().__init__()
        if config.shared:
            _check_alike(info)
        self.settings, self.tokens = config, len(info.vocabulary)
        self.features = bool(info.source_shape)
        self.embed = Embedding(self.tokens + others, config.d_model)
        self.encoder = SourceEncoder(config, info, self.embed if config.shared else None)
        shape = Shape(config.d_model, config.heads, config.feed_forward, config.dropout, relative)
        self.stack = DecoderStack(shape, config.layers, config.cross_attention == "forward")
        self.words = WordLogits(config.d_model, self.tokens, config.tied, mapped)
        self.dropout = nn.Dropout(config.dropout)

    def limit(self, batch: Batch) -> Tensor | None:
        """Return each row's maximum number of target tokens [N], given its source tokens; None for other sources."""
        if self.features or batch.source_length is None:
            return None
        most = (self.settings.limit_ratio * batch.source_length).long() + self.settings.limit_extra
        return most.clamp(min=1)

    def encode(self, batch: Batch) -> EncodedSources:
        """Encode the sources for the decoder layers."""
        return self.stack.read(*self.encoder(batch))

    def costs(self, states: Tensor, tokens: Tensor, smoothing: float = 0.0, first: int = 0) -> Tensor:
        """Return -log p of `tokens` [M], given states [M, d]; tokens before `first` are impossible."""
        most = max(1, LOGITS // self.tokens)
        parts = zip(torch.split(states, most), torch.split(tokens, most), strict=True)
        return torch.cat([
            cross_entropy(
                self.words(part, self.embed)[:, first:], wanted - first, reduction="none", label_smoothing=smoothing
            )
            for part, wanted in parts
        ])  # fmt: skip

    def log_probs(self, states: Tensor, first: int = 0) -> Tensor:
        """Return log p(word) [*, V], given states [*, d]; -inf for words before `first`."""
        result: Tensor = self.words(states, self.embed)[..., first:].log_softmax(-1)
        return pad(result, (first, 0), value=-torch.inf) if first else result


def _check_alike(info: TaskInfo) -> None:
    """Raise SuiteError if source and target vocabularies differ."""
    source, target = list(info.source_vocabulary), list(info.vocabulary)
    if source == target:
        return
    what = f"has {len(source):,} tokens" if source else "has no tokens"
    first = next((n for n, (left, right) in enumerate(zip(source, target, strict=False)) if left != right), None)
    where = (
        ""
        if first is None
        else f"; token {first} is {source[first]!r} in the source and {target[first]!r} in the target"
    )
    raise SuiteError(
        "source and target can share embeddings only if they have the same vocabulary. The source "
        f"{what}, the target {len(target):,}{where}. Tokenize both together, or set `shared: false`."
    )
