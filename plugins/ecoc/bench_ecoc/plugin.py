"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from bench_captioning.plugin import IMAGE_CHANNELS, ImageChannels
from bench_core import DataError, Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_ecoc.settings import (
    CLVMS,
    DLVMS,
    Dropout,
    Flips,
    FullOutputLayer,
    Gold,
    Hierarchical,
    Inputs,
    OutputLayer,
    Rates,
    Soft,
)
from bench_rnn.plugin import CELLS, Cell

COMMON = (*CELLS, "gal2016", "inputs.kind=scheduled: bengio2015", "inputs.kind=soft: oneill2019")


class RecurrentConfig(ModelConfig):
    """Settings shared by both models: all settings except the output layer."""

    capabilities, sources = {Stepper, Scorer}, {Source.NONE, Source.VECTOR, Source.GRID, Source.IMAGE}

    embedding: PositiveInt = 400  #: embedding dimension
    hidden: PositiveInt = 400  #: units per layer
    layers: PositiveInt = 2  #: number of layers
    cell: Cell = "lstm"  #: recurrent cell; `identity` is linear
    dropout: Rates = Dropout.model_construct()  #: rates for `input`, `hidden` and `output`, or one rate for all
    initial_scale: PositiveFloat = 0.1  #: s: weights start from U(-s, s), biases at 0, forget gate biases at 1
    image_channels: ImageChannels = IMAGE_CHANNELS  #: channels of the encoder of images; each stage halves the sides
    inputs: Inputs = Gold.model_construct()  #: training inputs that replace gold tokens
    sparse: bool | None = None  #: update only embeddings of tokens in the batch; not available with `inputs: soft`

    @model_validator(mode="after")
    def _reads_few_embeddings(self) -> Self:
        if self.sparse and isinstance(self.inputs, Soft):
            raise ValueError(
                "`inputs: soft` mixes all embeddings, so every update changes all of them. Leave `sparse` out"
            )
        if self.sparse is None:  # explicit, so that equal models have equal keys
            vars(self).update(sparse=not isinstance(self.inputs, Soft))
        return self

    @property
    def sparse_embedding(self) -> bool:
        """Return whether embeddings, and output layers that use few tokens, have sparse gradients.

        The cost of an update is then independent of the vocabulary size, and all models of a comparison are updated
        in the same way.
        """
        return bool(self.sparse)


class ECOCLMConfig(RecurrentConfig):
    """Recurrent language model that predicts the bits of error-correcting codes, optionally conditioned on an image.

    Training cost does not depend on the vocabulary size. Likelihoods are `exact`, normalized over tokens, or `bits`,
    the bound that is trained.
    """

    name, target = "ecoc-lm", "bench_ecoc.model:ECOCLM"
    likelihoods = {"exact": Kind.EXACT, "bits": Kind.BOUND}
    cites = [
        "oneill2019", "dietterich1995", *COMMON, "order=embedding: mikolov2013", "order=tour: mikolov2013",
        "inputs.kind=dlvms: maddison2017",
    ]  # fmt: skip

    bits: PositiveInt | None = None  #: codeword length; default: the minimum, or the vocabulary size for `identity`
    order: Literal["random", "unigram", "embedding", "tour", "identity"] = (
        "unigram"  #: order of tokens, which determines which tokens get similar codes
    )
    group: PositiveInt = 1  #: number of codewords per token, of which training uses the best
    vectors: Path | None = None  #: word vector file for `order: embedding` and `tour`; default: learn vectors
    vector_size: PositiveInt = 300  #: dimensions of learned vectors
    loss: Literal["bits", "exact"] = "bits"  #: training objective; `exact` needs a softmax over the vocabulary
    gain: PositiveFloat | None = None  #: factor of the bits' logits with `loss: exact`; default: sqrt(2 / bits)

    @model_validator(mode="after")
    def _settings_are_used(self) -> Self:
        if self.gain is not None and self.loss != "exact":
            raise ValueError("`gain` is a setting of `loss: exact`; it does not apply to bits. Leave it out")
        if self.vectors is not None and self.order not in ("embedding", "tour"):
            raise ValueError(
                f"`vectors` are read for `order: embedding` and `order: tour`, not {self.order}. Leave them out, or "
                "choose one of these orders"
            )
        return self

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if word vectors are learned."""
        return {"vectors"} if self.order in ("embedding", "tour") and self.vectors is None else set()

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the file of `vectors`."""
        if self.vectors is None:
            return {}
        path = data / self.vectors
        if not path.is_file():
            raise DataError(
                f"word vectors {path} were not found. Provide a file in word2vec (text or binary) or GloVe format, "
                "or leave `vectors` out to learn them from the training split."
            )
        return {"vectors": path}


class SoftmaxLMConfig(RecurrentConfig):
    """Recurrent language model with a softmax or an approximation of it, optionally conditioned on an image."""

    name, target = "softmax-lm", "bench_ecoc.model:SoftmaxLM"
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        *COMMON, "output.kind=sampled: jean2015", "output.kind=nce: gutmann2010", "output.kind=nce: mnih2012",
        "output.kind=hierarchical: goodman2001", "output.kind=adaptive: grave2017", "inputs.kind=clvms: oneill2019",
        "inputs.kind=dlvms: oneill2019", "inputs.kind=dlvms: jang2017",
    ]  # fmt: skip

    output: OutputLayer = FullOutputLayer.model_construct()  #: full, sampled, nce, hierarchical or adaptive

    def smooths_labels(self) -> bool:
        """Return whether the softmax is computed in full."""
        return isinstance(self.output, FullOutputLayer)

    @model_validator(mode="after")
    def _has_what_is_replaced(self) -> Self:
        inputs, kind = self.inputs, self.output.kind
        if isinstance(inputs, Flips):
            raise ValueError(
                "`inputs: flips` flips the bits of a code, which only ecoc-lm has. Choose other `inputs`"
            )
        if isinstance(inputs, CLVMS | DLVMS) and not isinstance(self.output, Hierarchical):
            raise ValueError(
                f"`inputs: {inputs.kind}` replaces latents: class and index of `output: hierarchical`, or bits of "
                f"ecoc-lm; `output: {kind}` has none. Choose `inputs: scheduled` or `soft`, or another output"
            )
        if isinstance(inputs, CLVMS | DLVMS) and inputs.factors is not None:
            raise ValueError("`factors` apply to the bits of ecoc-lm only. Leave them out")
        return self


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models."""
    return [ECOCLMConfig, SoftmaxLMConfig]
