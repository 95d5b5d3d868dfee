"""Greedy decoding and sampling."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_core import STOP, Batch, Decoder, Hypothesis, Rng, Sampler, Stepper, generate, invert, topk_stable
from bench_decoders.call_counter import with_step_calls
from bench_decoders.plugin import AncestralConfig, GreedyConfig, NucleusConfig, SamplingConfig, TopKConfig
from bench_decoders.processing import with_processors


class Ancestral(Decoder[Sampler]):
    """Return the model's own samples."""

    config: AncestralConfig

    def decode(self, model: Sampler, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in model.sample(batch, self.config.max_tokens, rng)]


class Greedy(Decoder[Stepper]):
    """Choose the most probable action at every step; ties go to the lower action."""

    config: GreedyConfig

    def decode(self, model: Stepper, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        pick = with_processors(lambda log_probs, ids, step: argmax(log_probs), self.config.processors)
        return [[with_step_calls(hypothesis)] for hypothesis in generate(model, batch, pick, self.config.max_tokens)]


class Sampling(Decoder[Stepper]):
    """Sample each action with probability proportional to p^(1 / temperature).

    Processors are applied to this distribution before candidate actions are selected. The CDF of the candidates is
    inverted in action order, so decoders with equal distributions draw equal samples from equal random numbers.
    """

    config: SamplingConfig

    def decode(self, model: Stepper, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        def sample(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
            return self.choose(log_probs, rng.uniform(ids, step))

        sample_processed = with_processors(sample, self.config.processors)

        def pick(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
            return sample_processed(apply_temperature(log_probs, self.config.temperature), ids, step)

        return [[with_step_calls(hypothesis)] for hypothesis in generate(model, batch, pick, self.config.max_tokens)]

    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        """Sample actions [N] from `log_probs` [N, A] with the random numbers `uniform` [N]."""
        return invert(log_probs, uniform)

    def sample(self, log_probs: Tensor, values: Tensor, actions: Tensor, uniform: Tensor) -> Tensor:
        """Sample from the candidate `actions` [N, m] with log-probabilities `values`, and EOS if `consistent`."""
        if self.config.consistent:
            values = torch.cat([log_probs[:, STOP, None], values.masked_fill(actions == STOP, -torch.inf)], 1)
            actions = pad(actions, (1, 0), value=STOP)
        actions, order = actions.sort(1)
        return actions.gather(1, invert(values.gather(1, order), uniform)[:, None])[:, 0]


class TopK(Sampling):
    """Sample from the `k` most probable actions."""

    config: TopKConfig

    def choose(self, log_probs: Tensor, uniform: Tensor) -> Tensor:
        if self.config.k >= log_probs.shape[1]:
            return invert(log_probs, uniform)
        return self.sample(log_probs, *topk_stable(log_probs, self.config.k), uniform)


class Nucleus(Sampling):
    """Sample from the smallest set of most probable actions with total probability above `mass`, in float64."""

    config: NucleusConfig

    def choose(self, log_probs: Tensor, uniform: Tensor, size: int = 256) -> Tensor:
        """Search the `size` most probable actions, and more actions in rows whose nucleus is larger."""
        if self.config.mass == 1:
            return invert(log_probs, uniform)
        values, actions = topk_stable(log_probs, size)
        cumulative = values.double().exp().cumsum(1)
        outside = pad(cumulative[:, :-1], (1, 0)) > self.config.mass
        sampled = self.sample(log_probs, values.masked_fill(outside, -torch.inf), actions, uniform)
        short = (cumulative[:, -1] <= self.config.mass).nonzero()[:, 0]
        if len(short) and size < log_probs.shape[1]:
            sampled[short] = self.choose(log_probs[short], uniform[short], 8 * size)
        return sampled


def argmax(values: Tensor, width: int = 128) -> Tensor:
    """Return the index of the maximum of each row [N]; ties go to the lower index.

    On CPUs, torch takes ten times as long for an argmax as for a maximum. So the maxima of parts of `width` columns
    are compared first, and then only the best part is searched.
    """
    parts = values.shape[1] // width
    if parts < 4:
        return values.argmax(1)
    best, part = values[:, : parts * width].view(-1, parts, width).amax(2).max(1)
    places = part[:, None] * width + torch.arange(width, device=values.device)
    place: Tensor = part * width + values.gather(1, places).argmax(1)
    if parts * width == values.shape[1]:
        return place
    last, beyond = values[:, parts * width :].max(1)
    return torch.where(last > best, parts * width + beyond, place)


def apply_temperature(log_probs: Tensor, temperature: float) -> Tensor:
    """Return the log-probabilities [N, A] of p^(1 / temperature), normalised, in float64; unchanged at 1."""
    return log_probs if temperature == 1 else (log_probs.double() / temperature).log_softmax(1)
