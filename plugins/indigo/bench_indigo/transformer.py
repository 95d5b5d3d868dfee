"""The left-to-right Transformer (Vaswani et al., 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import Batch, Loss, Scorer, Scores, Scoring, State, Stepper, TaskInfo, Training
from bench_indigo.blocks import EncodedSources, attention_mask, sinusoids
from bench_indigo.kv_cache import Trail
from bench_indigo.network import TransformerNetwork
from bench_indigo.plugin import TransformerConfig
from bench_indigo.relations import relations


@dataclass(frozen=True)
class TransformerState(State):
    """Cache of the tokens read so far."""

    trail: Trail


class Transformer(TransformerNetwork, Stepper[TransformerState], Scorer):
    """p(y | x) = prod_t p(y_t | h_t), with h_t the top state after y_<t.

    It has the layers of `Indigo`, optionally with relations: a token stands right of all tokens that it attends to.
    It also uses the cache of `Indigo`, in which a generation is a list of columns, so it is not an `EncoderDecoder`
    of the kit.
    """

    def __init__(self, config: TransformerConfig, info: TaskInfo) -> None:
        self.relative = config.positions == "relative"
        super().__init__(config, info, self.relative)
        self.config = config

    def loss(self, batch: Batch, training: Training) -> Loss:
        costs = self._costs(batch, training.label_smoothing)
        return Loss(costs.mean(), batch.length.sum())

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        costs, mask = self._costs(batch), batch.mask
        return Scores(-costs.new_zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, costs.double()).sum(1))

    @torch.no_grad()
    def start(self, batch: Batch) -> tuple[Tensor, TransformerState]:
        hidden, trail = self.stack.begin(self._embed(batch.prompt), self.encode(batch))
        return self.log_probs(hidden[:, -1]), TransformerState(trail)

    @torch.no_grad()
    def step(self, state: TransformerState, actions: Tensor) -> tuple[Tensor, TransformerState]:
        read = state.trail.columns.shape[1]
        hidden, trail = self.stack.extend(
            state.trail, self._embed(actions[:, None], read)[:, 0], torch.full_like(actions, read)
        )
        return self.log_probs(hidden), TransformerState(trail)

    def _costs(self, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Return -log p [M] of each non-padding token of `gold`."""
        hidden = self._run(self._embed(batch.inputs), self.encode(batch))[:, -batch.gold.shape[1] :]
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), smoothing)

    def _run(self, states: Tensor, sources: EncodedSources) -> Tensor:
        """Return the top states of each token [N, K, d]."""
        places = torch.arange(states.shape[1], device=states.device)[None]
        seen = places[:, :, None] >= places[:, None]
        known = relations(places) if self.relative else None
        hidden: Tensor = self.stack(states, attention_mask(seen, known, states), sources)
        return hidden

    def _embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Return the layers' inputs [N, K, d] for tokens from position `first` on."""
        states = self.embed(tokens)
        if not self.relative:
            states = states + sinusoids(first, tokens.shape[1], states)
        embedded: Tensor = self.dropout(states)
        return embedded
