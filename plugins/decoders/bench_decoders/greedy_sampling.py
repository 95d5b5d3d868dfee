"""Greedy decoding and sampling."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_core import STOP, Batch, Decoder, Hypothesis, Noise, Sampler, Stepper, generate, invert, topk_stable
from bench_decoders.call_counter import walked
from bench_decoders.plugin import AncestralConfig, GreedyConfig, NucleusConfig, SamplingConfig, TopKConfig
from bench_decoders.processing import processed


class Ancestral(Decoder[Sampler]):
    """Take the model's own samples."""

    config: AncestralConfig

    def decode(self, model: Sampler, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in model.sample(batch, self.config.max_tokens, noise)]


class Greedy(Decoder[Stepper]):
    """Take the most probable action at every step; of equal ones the lower."""

    config: GreedyConfig

    def decode(self, model: Stepper, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        pick = processed(lambda log_probs, ids, step: highest(log_probs), self.config.processors)
        return [[walked(hypothesis)] for hypothesis in generate(model, batch, pick, self.config.max_tokens)]


class Sampling(Decoder[Stepper]):
    """Draw an action a step with probability proportional to p^(1 / temperature).

    Processors change that distribution first. Whatever they and a subclass leave of it, its CDF is inverted in the
    order of the actions: the same noise draws the same from all decoders that leave the same.
    """

    config: SamplingConfig

    def decode(self, model: Stepper, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        def drawn(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
            return self.choose(log_probs, noise.uniform(ids, step))

        chosen = processed(drawn, self.config.processors)

        def pick(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
            return chosen(tempered(log_probs, self.config.temperature), ids, step)

        return [[walked(hypothesis)] for hypothesis in generate(model, batch, pick, self.config.max_tokens)]

    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        """Return the actions [N] that `uniform` [N] draws from `log_probs` [N, A]."""
        return invert(log_probs, uniform)

    def draw(self, log_probs: Tensor, values: Tensor, actions: Tensor, uniform: Tensor) -> Tensor:
        """Draw among the open `actions` [N, m] with log-probabilities `values`, and stop if it is always open."""
        if self.config.consistent:
            values = torch.cat([log_probs[:, STOP, None], values.masked_fill(actions == STOP, -torch.inf)], 1)
            actions = pad(actions, (1, 0), value=STOP)
        actions, order = actions.sort(1)
        return actions.gather(1, invert(values.gather(1, order), uniform)[:, None])[:, 0]


class TopK(Sampling):
    """Draw among the `k` most probable actions."""

    config: TopKConfig

    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        if self.config.k >= log_probs.shape[1]:
            return invert(log_probs, uniform)
        return self.draw(log_probs, *topk_stable(log_probs, self.config.k), uniform)


class Nucleus(Sampling):
    """Draw among the fewest most probable actions that together hold more than `mass`, summed in float64."""

    config: NucleusConfig

    def choose(self, log_probs: Tensor, uniform: Tensor, size: int = 256) -> Tensor:
        """Look among the `size` most probable actions, and in rows where they do not suffice among more."""
        if self.config.mass == 1:
            return invert(log_probs, uniform)
        values, actions = topk_stable(log_probs, size)
        held = values.double().exp().cumsum(1)
        outside = pad(held[:, :-1], (1, 0)) > self.config.mass
        chosen = self.draw(log_probs, values.masked_fill(outside, -torch.inf), actions, uniform)
        short = (held[:, -1] <= self.config.mass).nonzero()[:, 0]
        if len(short) and size < log_probs.shape[1]:
            chosen[short] = self.choose(log_probs[short], uniform[short], 8 * size)
        return chosen


def highest(values: Tensor, width: int = 128) -> Tensor:
    """Return the place of the highest of each row [N], of equal ones the lower.

    On a processor torch tells what is the highest in a tenth of the time that it takes to tell where: so first in
    which part of the row, all of them `width` wide, and then where in that part.
    """
    parts = values.shape[1] // width
    if parts < 4:
        return values.argmax(1)
    found, part = values[:, : parts * width].view(-1, parts, width).amax(2).max(1)
    places = part[:, None] * width + torch.arange(width, device=values.device)
    place: Tensor = part * width + values.gather(1, places).argmax(1)
    if parts * width == values.shape[1]:
        return place
    last, beyond = values[:, parts * width :].max(1)
    return torch.where(last > found, parts * width + beyond, place)


def tempered(log_probs: Tensor, temperature: float) -> Tensor:
    """Return log-probabilities [N, A] proportional to p^(1 / temperature), in float64 unless nothing changes."""
    return log_probs if temperature == 1 else (log_probs.double() / temperature).log_softmax(1)
