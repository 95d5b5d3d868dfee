"""The interface of models with latent trajectories; does not import torch."""

from abc import abstractmethod

from bench_core import Batch, Decoder, DecoderConfig, Hypothesis, Rng, Sampler


class Latent(Sampler):
    """Samples a trajectory of latent states that does not depend on tokens, so tokens can be chosen afterwards."""

    @abstractmethod
    def sample_likeliest(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        """Sample a trajectory for each row and return the most probable token at each of its states."""


class TrajectoryArgmax(Decoder[Latent]):
    """Chooses the most probable tokens along a sampled trajectory."""

    config: DecoderConfig

    def decode(self, model: Latent, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in model.sample_likeliest(batch, self.config.max_tokens, rng)]
