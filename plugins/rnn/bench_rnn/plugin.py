"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping
from typing import Literal, Self, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from bench_core import Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_rnn.settings import BPTT, Full

Cell: TypeAlias = Literal["tanh", "relu", "identity", "gru", "lstm"]
Variant: TypeAlias = Literal["torch", "notes"]
AttentionKind: TypeAlias = Literal["none", "dot", "bilinear", "additive"]

CELLS = ("cell=tanh: elman1990", "cell=gru: cho2014", "cell=lstm: hochreiter1997")  # whom each is by


class RNNLMConfig(ModelConfig):
    """Recurrent language model: embedding, stacked recurrent layers, softmax over the vocabulary."""

    name, target = "rnn-lm", "bench_rnn.lm:RecurrentLM"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["mikolov2010", *CELLS, "tied=true: press2017", "bptt.kind=randomized: tallec2017"]

    cell: Cell = "lstm"  #: `identity` is the linear one
    variant: Variant = "torch"  #: of the GRU: reset after the recurrent matrix, or, in that of the notes, before it
    hidden: PositiveInt = 256  #: units of each layer
    layers: PositiveInt = 2  #: one on top of the other
    embedding: PositiveInt | Literal["one-hot"] | None = None  #: its size, by default `hidden`; or tokens as they are
    dropout: float = Field(0.0, ge=0, lt=1)  #: on embeddings, between layers and on what the top layer gives
    tied: bool = False  #: one matrix for embedding and logits (Press and Wolf, 2017, arXiv:1608.05859)
    initial_scale: PositiveFloat | None = None  #: standard deviation of weights, biases 0; by default torch's
    bptt: BPTT = Full()  #: how far gradients travel back in time
    bidirectional: bool = False  #: always refused, and why is said

    @field_validator("bidirectional")
    @classmethod
    def _reads_left_to_right(cls, bidirectional: bool) -> bool:
        if bidirectional:
            raise ValueError(
                f"{cls.name} predicts from left to right, and a bidirectional model has already read what it is to "
                "predict. Leave `bidirectional` out; rnn-seq2seq has it for its encoder, and bidirectional-lm shows "
                "what such a language model is worth once the future is hidden"
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
    """Counts of n-grams, the baseline of language models; nothing but the first epoch of training matters."""

    name, target = "ngram-lm", "bench_rnn.ngram:NGramLM"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["smoothing=witten-bell: witten1991"]

    order: PositiveInt = 3  #: n: a token depends on the n - 1 before it
    smoothing: Literal["none", "additive", "witten-bell"] = "witten-bell"  #: what is done for n-grams never seen
    delta: PositiveFloat = 1.0  #: what `additive` adds to every count

    def exempt(self) -> Mapping[str, str]:
        return {"the_loss_is_finite_and_weighs_target_tokens": "it counts, and has no gradient"}


class Seq2SeqConfig(ModelConfig):
    """Recurrent encoder-decoder, with or without attention.

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

    cell: Cell = "gru"  #: of encoder and decoder
    variant: Variant = "torch"  #: of the GRU, as for rnn-lm
    hidden: PositiveInt = 256  #: units of each layer of both; the decoder begins with the encoder's last state
    layers: PositiveInt = 2  #: of the encoder, and of the decoder
    bidirectional: bool = False  #: whether the encoder also reads from right to left, with as many units again
    attention: AttentionKind = "none"  #: how it scores places of the source; none has one context for all steps
    embedding: PositiveInt | None = None  #: its size for source and target, by default that of the layers
    dropout: float = Field(0.0, ge=0, lt=1)  #: on embeddings, between layers and on what the output layer gets
    tied: bool = False  #: one matrix for the target's embedding and the logits
    shared: bool = False  #: one matrix for both embeddings; source and target must have one vocabulary

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        _check_variant(self.cell, self.variant)
        _check_tied(self.tied, self.embedding, self.hidden)
        return self

    def smooths_labels(self) -> bool:
        return True


class BidirectionalLMConfig(ModelConfig):
    """Language model that sees what it predicts, and is scored with it and without: the mistake, to be measured.

    It is no Stepper, so that no decoder takes it.
    """

    name, target = "bidirectional-lm", "bench_rnn.bidirectional:BidirectionalLM"
    capabilities, sources = {Scorer}, {Source.NONE}
    likelihoods = {"hidden": Kind.EXACT, "leak": Kind.ESTIMATE}  # of log p, a leak says nothing
    cites = ["schuster1997", *CELLS]

    cell: Cell = "lstm"  #: of either direction
    hidden: PositiveInt = 256  #: units of each layer and direction
    layers: PositiveInt = 1  #: one on top of the other, in each direction
    embedding: PositiveInt | None = None  #: its size, by default `hidden`
    dropout: float = Field(0.0, ge=0, lt=1)  #: on embeddings, between layers and on what the top layer gives

    def smooths_labels(self) -> bool:
        return True


def _check_variant(cell: Cell, variant: Variant) -> None:
    if variant != "torch" and cell != "gru":
        raise ValueError(
            f"`variant: {variant}` is of the GRU; of {cell!r} there is one kind. Leave `variant` out, or say "
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
    """Return the recurrent models."""
    return [RNNLMConfig, NGramConfig, Seq2SeqConfig, BidirectionalLMConfig]
