"""The Insertion Transformer (Stern et al., 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import Batch, Loss, Rows, State, SuiteError, TaskInfo, Training, on_host, to_device
from bench_indigo.blocks import EncodedSources, Pair, attention_mask, sinusoids
from bench_indigo.network import TransformerNetwork
from bench_indigo.plugin import InsertionTransformerConfig
from bench_indigo.refiner import Refiner
from bench_indigo.spans import SlotLabels, canvas, labels, sample_canvas_mask


@dataclass(frozen=True)
class SourceState(State):
    """Keys, values and padding of the sources."""

    pairs: tuple[Pair, ...]
    mask: Tensor


@dataclass(frozen=True)
class SlotTargets(Rows):
    """Training targets of the real slots of N canvases, flattened."""

    real: Tensor  # [N, C + 1] whether a slot exists
    places: Tensor  # [R] indices of the real slots in `real.flatten()`
    rows: Tensor  # [M] row of each target
    slot: Tensor  # [M] index of each target's slot among the real slots
    token: Tensor  # [M]
    weight: Tensor  # [M]
    slots: Tensor  # [N] number of slots per canvas


def _slot_targets(wanted: SlotLabels, width: int) -> SlotTargets:
    """Return the labels whose weight is not 0, for canvases with `width` slots."""
    real = torch.arange(width, device=wanted.slots.device) < wanted.slots[:, None]
    number = (real.flatten().cumsum(0) - 1).view(real.shape)  # [N, C + 1] index of each real slot
    rows, at = (wanted.weight > 0).nonzero().unbind(1)
    slot = number[rows, wanted.slot[rows, at]]
    places = real.flatten().nonzero()[:, 0]
    return SlotTargets(real, places, rows, slot, wanted.token[rows, at], wanted.weight[rows, at], wanted.slots)


class InsertionTransformer(TransformerNetwork, Refiner[SourceState]):
    """p(word, slot) = p(slot) p(word | slot), given the whole canvas.

    A canvas is encoded between two boundary tokens with full attention, and encoded again whenever it has changed.
    Slot l is represented by H_l = [o_l ; o_{l+1}], the top states on its left and right:

        p(word | l) is proportional to exp((H_l W) . e_word),   p(l) to exp(q . (H_l W') / sqrt(d)).

    The loss is computed on a canvas with a random part of the target: the mean over slots of the weighted mean of
    -log p(word | slot) over the words missing in the slot, or of -log p(EOS | slot) if no word is missing. Only a
    `joint` loss trains p(l); otherwise, p(l) stays uniform, as initialized.
    """

    def __init__(self, config: InsertionTransformerConfig, info: TaskInfo) -> None:
        super().__init__(config, info, relative=False, others=2)
        self.config = config
        self.gather = nn.Linear(2 * config.d_model, config.d_model, bias=False)  # W
        self.place = nn.Linear(2 * config.d_model, config.d_model, bias=False)  # W'
        self.query = nn.Parameter(torch.zeros(config.d_model))
        nn.init.xavier_uniform_(self.gather.weight)
        nn.init.xavier_uniform_(self.place.weight)

    def loss(self, batch: Batch, training: Training) -> Loss:
        words, slots = self.costs_of(batch, sample_canvas_mask(batch.on_host, training.rng), training.label_smoothing)
        tokens = batch.length.sum()
        share = batch.length / tokens
        if not self.config.joint:
            return Loss((words * share).sum(), tokens)
        parts = {"words": (words * share).sum(), "slots": (slots * share).sum()}
        return Loss(parts["words"] + parts["slots"], tokens, parts)

    def costs_of(self, batch: Batch, keep: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return mean -log p(word | slot) and -log p(slot) over slots [N], for canvases of tokens `keep` [N, T]."""
        host, device = batch.on_host, batch.gold.device  # built on the host, as canvases do not need the model
        partial, length = canvas(host.gold, on_host(keep))
        fill = _slot_targets(labels(host, on_host(keep), self.config.spread), partial.shape[1] + 1)
        fill = fill.change(lambda tensor: to_device(tensor, device))
        log_slots, vectors = self.refine(self.begin(batch), to_device(partial, device), to_device(length, device))
        log_probs = self.fill(vectors.flatten(0, 1)[fill.places])

        costs = -(1 - smoothing) * log_probs[fill.slot, fill.token]
        if smoothing:
            costs = costs - smoothing * log_probs.mean(1)[fill.slot]
        weighted = costs * fill.weight.to(costs.dtype)
        words = weighted.new_zeros(len(keep)).index_add(0, fill.rows, weighted) / fill.slots
        slots = -log_slots.masked_fill(~fill.real, 0.0).sum(1) / fill.slots
        return words, slots

    def begin(self, batch: Batch) -> SourceState:
        if batch.prompt.shape[1] > 1:
            raise SuiteError(
                "insertion-transformer inserts every word itself and takes no prompt. Choose a task without prompts."
            )
        sources = self.encode(batch)
        return SourceState(sources.pairs, sources.mask)

    def refine(self, known: SourceState, canvas: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        states = self._read(known, canvas, length)
        vectors = torch.cat([states[:, :-1], states[:, 1:]], 2)  # [N, C + 1, 2 d]
        logits = self.place(vectors) @ self.query * self.query.shape[0] ** -0.5
        behind = torch.arange(logits.shape[1], device=length.device) > length[:, None]
        return logits.masked_fill(behind, -torch.inf).log_softmax(1), vectors

    def fill(self, vectors: Tensor) -> Tensor:
        return self.log_probs(self.gather(vectors))

    def _read(self, known: SourceState, canvas: Tensor, length: Tensor) -> Tensor:
        """Return the top states [N, C + 2, d] of a canvas and its boundaries."""
        items = pad(canvas, (1, 1))
        places = torch.arange(items.shape[1], device=items.device)
        items[:, 0] = self.tokens
        items = items.masked_fill(places == length[:, None] + 1, self.tokens + 1)
        states = self.embed(items)
        states = self.dropout(states + sinusoids(0, items.shape[1], states))
        seen = (places < length[:, None] + 2)[:, None]  # [N, 1, C + 2]
        top: Tensor = self.stack(states, attention_mask(seen, None, states), EncodedSources(known.pairs, known.mask))
        return top
