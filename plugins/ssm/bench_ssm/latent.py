"""The interface of models with latent trajectories; imports no torch."""

from abc import abstractmethod

from bench_core import Batch, Decoder, DecoderConfig, Hypothesis, Noise, Sampler


class Latent(Sampler):
    """Draws a trajectory that no token feeds back to, so that tokens can be chosen after it is known."""

    @abstractmethod
    def sample_likeliest(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        """Draw a trajectory for each row, and take the most probable token at each of its states."""


class TrajectoryArgmax(Decoder[Latent]):
    """Most probable tokens along a trajectory that is drawn."""

    config: DecoderConfig

    def decode(self, model: Latent, batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        return [[one] for one in model.sample_likeliest(batch, self.config.max_tokens, noise)]
