"""The interface of models with latent trajectories; imports no torch."""

from abc import abstractmethod

from bench_core import Batch, Decoder, DecoderConfig, Hypothesis, Noise, Sampler


class Latent(Sampler):
    """Samples a trajectory of latent states that does not depend on the tokens, which can be chosen afterwards."""

    @abstractmethod
    def sample_likeliest(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Sample a trajectory for each row and return the most probable token at each of its states."""


class TrajectoryArgmax(Decoder[Latent]):
    """Chooses the most probable tokens along a sampled trajectory."""

    config: DecoderConfig

    def decode(self, model: Latent, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in model.sample_likeliest(batch, self.config.max_tokens, noise)]
