"""The settings and parts that this plugin provides; does not import torch."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from bench_core import Kind, ModelConfig, Scorer, Stepper, hookimpl
from bench_output_layers.settings import (
    AnyOutputLayer,
    FullOutputLayer,
    Hierarchical,
    OutputLayer,
    check_tied,
)

__all__ = ["FullOutputLayer", "Hierarchical", "OutputLayer", "TransformerLMConfig", "check_tied"]


class TransformerLMConfig(ModelConfig):
    """Decoder-only Transformer language model with a softmax, an approximation of it, or error-correcting codes."""

    name, target = "transformer-lm", "bench_output_layers.transformer:TransformerLM"
    capabilities, likelihoods = {Stepper, Scorer}, {"exact": Kind.EXACT}
    cites = [
        "vaswani2017", "radford2019", "xiong2020", "tied=true: press2017", "output.kind=sampled: jean2015",
        "output.kind=nce: gutmann2010", "output.kind=nce: mnih2012", "output.kind=hierarchical: goodman2001",
        "output.kind=adaptive: grave2017", "output.kind=codes: dietterich1995", "output.kind=codes: oneill2019",
    ]  # fmt: skip

    d_model: PositiveInt = 256  #: d, size of a state
    heads: PositiveInt = 4  #: attention heads; each has d_model / heads dimensions
    layers: PositiveInt = 4  #: number of layers
    feed_forward: PositiveInt = 1024  #: hidden units of the feed-forward sublayers
    dropout: float = Field(0.1, ge=0, lt=1)  #: rate on embeddings and on the output of every sublayer
    context: PositiveInt = 1024  #: maximum number of tokens, which sets the number of learned positions
    tied: bool = False  #: use one matrix for embedding and output layer (Press and Wolf, 2017, arXiv:1608.05859)
    output: AnyOutputLayer = FullOutputLayer()  #: full, sampled, nce, hierarchical, adaptive or codes
    sparse: bool | None = None  #: update only embeddings of tokens in the batch; not with a tied full softmax

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(
                f"`d_model` must be divisible by `heads`, and {self.d_model} is not divisible by {self.heads}. "
                "Change one of them"
            )
        if self.tied:
            check_tied(self.output)
        dense = self.tied and self.smooths_labels()
        if self.sparse and dense:
            raise ValueError(
                "`tied` uses all embeddings in a full softmax, so every update changes all of them. Leave `sparse` "
                "out"
            )
        if self.sparse is None:  # explicit, so that equal models have equal keys
            vars(self).update(sparse=not dense)
        return self

    def smooths_labels(self) -> bool:
        """Return whether the softmax is computed in full."""
        return isinstance(self.output, FullOutputLayer)


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Transformer."""
    return [TransformerLMConfig]
