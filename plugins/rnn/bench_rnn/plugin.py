"""What this distribution offers; imports no torch."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from bench_core import Kind, ModelConfig, Scorer, Source, Stepper, hookimpl

supports = (1, 1)

Cell: TypeAlias = Literal["tanh", "relu", "gru", "lstm"]


class RNNLMConfig(ModelConfig):
    """Recurrent language model: embedding, stacked recurrent layers, softmax over the vocabulary."""

    name, target = "rnn-lm", "bench_rnn.lm:RecurrentLM"
    gives, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}

    cell: Cell = "lstm"  #: as torch computes them; its GRU applies the reset gate after the recurrent matrix
    hidden: PositiveInt = 256  #: units of each layer
    layers: PositiveInt = 2
    embedding: PositiveInt | None = None  #: its size, by default `hidden`
    dropout: float = Field(0.0, ge=0, lt=1)  #: on embeddings, between layers and on what the top layer gives
    tied: bool = False  #: one matrix for embedding and logits (Press and Wolf, 2017, arXiv:1608.05859)

    @model_validator(mode="after")
    def _tied_sizes_agree(self) -> Self:
        if self.tied and self.embedding not in (None, self.hidden):
            raise ValueError(
                "a tied model has one matrix for embedding and logits, so `embedding` must equal `hidden`; "
                f"they are {self.embedding} and {self.hidden}. Leave `embedding` out, or say `tied: false`."
            )
        return self


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the recurrent models."""
    return [RNNLMConfig]
