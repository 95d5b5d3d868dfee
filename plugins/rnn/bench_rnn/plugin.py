"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping
from typing import Literal, Self, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from bench_core import Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_rnn.settings import BPTT, FullOutput

Cell: TypeAlias = Literal["tanh", "relu", "identity", "gru", "lstm"]
Variant: TypeAlias = Literal["torch", "notes"]
AttentionKind: TypeAlias = Literal["none", "dot", "bilinear", "additive"]

CELLS = ("cell=tanh: elman1990", "cell=gru: cho2014", "cell=lstm: hochreiter1997")  # sources by cell


class RNNLMConfig(ModelConfig):
    """A recurrent language model: embedding, stacked recurrent layers, softmax over the vocabulary."""

    name, target = "rnn-lm", "bench_rnn.lm:RecurrentLM"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["mikolov2010", *CELLS, "tied=true: press2017", "bptt.kind=randomized: tallec2017"]

    cell: Cell = "lstm"  #: `identity` is a linear RNN
    variant: Variant = "torch"  #: GRU only: reset gate after (`torch`) or before (`notes`) the recurrent matrix
    hidden: PositiveInt = 256  #: units per layer
    layers: PositiveInt = 2  #: number of stacked layers
    embedding: PositiveInt | Literal["one-hot"] | None = None  #: size (default: `hidden`), or `one-hot`
    dropout: float = Field(0.0, ge=0, lt=1)  #: rate on embeddings, between layers and on the top layer's states
    tied: bool = False  #: use one matrix for embedding and logits (Press and Wolf, 2017, arXiv:1608.05859)
    initial_scale: PositiveFloat | None = None  #: standard deviation of initial weights (biases: 0); default: torch's
    bptt: BPTT = FullOutput.model_construct()  #: how far gradients travel back in time
    bidirectional: bool = False  #: always rejected, with an error that explains why

    @field_validator("bidirectional")
    @classmethod
    def _reads_left_to_right(cls, bidirectional: bool) -> bool:
        if bidirectional:
            raise ValueError(
                f"{cls.name} predicts from left to right, but a bidirectional model has already read the tokens to "
                "predict. Remove `bidirectional`; rnn-seq2seq supports it in the encoder, and bidirectional-lm "
                "shows how such a language model performs without its future context"
            )
        return bidirectional

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        _check_variant(self.cell, self.variant)
        _check_tied(self.tied, self.embedding, self.hidden)
        return self

    def smooths_labels(self) -> bool:
        return True


class NGramConfig(ModelConfig):
    """An n-gram language model, as a baseline; only the first epoch of training has an effect."""

    name, target = "ngram-lm", "bench_rnn.ngram:NGramLM"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["smoothing=witten-bell: witten1991"]

    order: PositiveInt = 3  #: n: a token depends on the n - 1 tokens before it
    smoothing: Literal["none", "additive", "witten-bell"] = "witten-bell"  #: how unseen n-grams are handled
    delta: PositiveFloat = 1.0  #: number added to every count by `additive`

    def exempt(self) -> Mapping[str, str]:
        return {"the_loss_is_finite_and_weighs_target_tokens": "it only counts and has no gradient"}


class Seq2SeqConfig(ModelConfig):
    """A recurrent encoder-decoder, with or without attention.

    Sutskever et al., 2014, arXiv:1409.3215; Cho et al., 2014, arXiv:1406.1078; Luong et al., 2015, arXiv:1508.04025.
    """

    name, target = "rnn-seq2seq", "bench_rnn.seq2seq:Seq2Seq"
    capabilities, sources = {Stepper, Scorer}, {Source.TOKENS}
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        "sutskever2014", "cho2014", *CELLS, "bidirectional=true: schuster1997", "attention=dot: luong2015",
        "attention=bilinear: luong2015", "attention=additive: bahdanau2015", "tied=true: press2017",
        "shared=true: press2017",
    ]  # fmt: skip

    cell: Cell = "gru"  #: recurrent cell of encoder and decoder
    variant: Variant = "torch"  #: GRU only: variant, as for rnn-lm
    hidden: PositiveInt = 256  #: units per layer; the decoder starts from the encoder's final state
    layers: PositiveInt = 2  #: number of layers of the encoder, and of the decoder
    bidirectional: bool = False  #: whether the encoder also reads from right to left, with `hidden` more units
    attention: AttentionKind = "none"  #: how source positions are scored; `none`: one context vector for all steps
    embedding: PositiveInt | None = None  #: size of both embeddings, by default `hidden`
    dropout: float = Field(0.0, ge=0, lt=1)  #: rate on embeddings, between layers and on inputs of the output layer
    tied: bool = False  #: use one matrix for target embedding and logits
    shared: bool = False  #: use one matrix for both embeddings; source and target must have the same vocabulary

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        _check_variant(self.cell, self.variant)
        _check_tied(self.tied, self.embedding, self.hidden)
        return self

    def smooths_labels(self) -> bool:
        return True


class BidirectionalLMConfig(ModelConfig):
    """A language model that reads the tokens it predicts; scores with and without them show the effect.

    It is not a Stepper, so decoders reject it.
    """

    name, target = "bidirectional-lm", "bench_rnn.bidirectional:BidirectionalLM"
    capabilities, sources = {Scorer}, {Source.NONE}
    likelihoods = {"hidden": Kind.EXACT, "leak": Kind.ESTIMATE}  # `leak` says nothing about log p
    cites = ["schuster1997", *CELLS]

    cell: Cell = "lstm"  #: recurrent cell of both directions
    hidden: PositiveInt = 256  #: units per layer and direction
    layers: PositiveInt = 1  #: number of stacked layers in each direction
    embedding: PositiveInt | None = None  #: embedding size, by default `hidden`
    dropout: float = Field(0.0, ge=0, lt=1)  #: rate on embeddings, between layers and on the top layer's states

    def smooths_labels(self) -> bool:
        return True


def _check_variant(cell: Cell, variant: Variant) -> None:
    if variant != "torch" and cell != "gru":
        raise ValueError(
            f"`variant: {variant}` needs the GRU; {cell!r} has only one variant. Leave `variant` out, or set "
            "`cell: gru`"
        )


def _check_tied(tied: bool, embedding: int | str | None, hidden: int) -> None:
    if tied and embedding not in (None, hidden):
        raise ValueError(
            "a tied model has one matrix for embedding and logits, so `embedding` must equal `hidden`; "
            f"they are {embedding} and {hidden}. Leave `embedding` out, or set `tied: false`"
        )


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Configs of the models."""
    return [RNNLMConfig, NGramConfig, Seq2SeqConfig, BidirectionalLMConfig]
