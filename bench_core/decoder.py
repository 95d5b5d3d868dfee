"""The interface of decoders."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from bench_core.data import Batch, Hypothesis, Prompt
from bench_core.errors import PluginError
from bench_core.model import Generation, Model, TextGenerator
from bench_core.random_numbers import Rng

M = TypeVar("M", bound=Model, default=Model)


class Decoder(ABC, Generic[M]):
    """A decoding algorithm; built as `Class(config)`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def decode(self, model: M, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of `batch`, best first, at least one per row."""


class TextDecoder(Decoder[TextGenerator]):
    """Decodes with a text generator, which receives the Config's settings; most text decoders use this class."""

    def decode(self, model: TextGenerator, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        """Raise PluginError: text decoders decode prompts, not batches."""
        raise PluginError(f"{type(self).__name__} decodes prompts, not batches: call `decode_texts`.")

    def decode_texts(
        self, model: TextGenerator, prompts: Sequence[Prompt], generation: Generation
    ) -> Sequence[Sequence[Hypothesis]]:
        """Return the hypotheses of each prompt, best first, at least one per prompt."""
        return model.generate(prompts, generation)
