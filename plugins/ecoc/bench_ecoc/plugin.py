"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from bench_core import DataError, Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_ecoc.settings import (
    CLVMS,
    DLVMS,
    Dropout,
    Flips,
    Full,
    Gold,
    Hierarchical,
    Inputs,
    OutputLayer,
    Rates,
    Soft,
)
from bench_rnn.plugin import CELLS, Cell

COMMON = (*CELLS, "gal2016", "inputs.kind=scheduled: bengio2015", "inputs.kind=soft: oneill2019")  # to both models


class RecurrentConfig(ModelConfig):
    """What both models have in common: all but the output layer."""

    capabilities, sources = {Stepper, Scorer}, {Source.NONE, Source.VECTOR, Source.GRID}

    embedding: PositiveInt = 400  #: its size
    hidden: PositiveInt = 400  #: units of each layer
    layers: PositiveInt = 2  #: one on top of the other
    cell: Cell = "lstm"  #: `identity` is the linear one
    dropout: Rates = Dropout()  #: rates for `input`, `hidden` and `output`, or one for all
    initial_scale: PositiveFloat = 0.1  #: s of U(-s, s), in which weights begin; biases at 0, of forget gates at 1
    inputs: Inputs = Gold()  #: what is read in training instead of gold tokens
    sparse: bool | None = None  #: whether tokens that a batch does not meet are left alone; not by `inputs: soft`

    @model_validator(mode="after")
    def _reads_few_embeddings(self) -> Self:
        if self.sparse and isinstance(self.inputs, Soft):
            raise ValueError(
                "`inputs: soft` mixes all embeddings, so that every update changes all of them. Leave `sparse` out"
            )
        if self.sparse is None:  # spelled out, so that one model has one key
            vars(self).update(sparse=not isinstance(self.inputs, Soft))
        return self

    @property
    def sparse_embedding(self) -> bool:
        """Return whether embeddings, and output layers that look at few tokens, have gradients for just these.

        So they do wherever that is what the gradient is: an update then costs the same whatever the vocabulary, and
        all models of a comparison are updated in one way.
        """
        return bool(self.sparse)


class ECOCLMConfig(RecurrentConfig):
    """Recurrent language model that predicts the bits of error-correcting codes, with or without an image.

    Its training does not touch the vocabulary. Likelihoods are `exact`, normalised over tokens, or `bits`, the bound
    that is trained.
    """

    name, target = "ecoc-lm", "bench_ecoc.model:ECOCLM"
    likelihoods = {"exact": Kind.EXACT, "bits": Kind.BOUND}
    cites = [
        "oneill2019", "dietterich1995", *COMMON, "order=embedding: mikolov2013", "order=tour: mikolov2013",
        "inputs.kind=dlvms: maddison2017",
    ]  # fmt: skip

    bits: PositiveInt | None = None  #: length of a codeword; by default the least, or the vocabulary's for `identity`
    order: Literal["random", "unigram", "embedding", "tour", "identity"] = (
        "unigram"  #: which tokens get similar codes
    )
    group: PositiveInt = 1  #: codewords of a token, the best of which counts
    vectors: Path | None = None  #: a file for `order: embedding` and `tour`; by default learnt
    vector_size: PositiveInt = 300  #: numbers of a vector that is learnt
    loss: Literal["bits", "exact"] = "bits"  #: what is minimised; exact costs a softmax over the vocabulary
    gain: PositiveFloat | None = None  #: of exact: what the bits' logits are multiplied by; by default sqrt(2 / bits)

    @model_validator(mode="after")
    def _settings_are_used(self) -> Self:
        if self.gain is not None and self.loss != "exact":
            raise ValueError("`gain` is of `loss: exact`; bits are predicted as they are. Leave it out")
        if self.vectors is not None and self.order not in ("embedding", "tour"):
            raise ValueError(
                f"`vectors` are read for `order: embedding` and `order: tour`, not {self.order}. Leave them out, or "
                "choose one of these"
            )
        return self

    def extras(self) -> Set[str]:
        """Return gensim's, where word vectors are learnt."""
        return {"vectors"} if self.order in ("embedding", "tour") and self.vectors is None else set()

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the file of `vectors`."""
        if self.vectors is None:
            return {}
        path = data / self.vectors
        if not path.is_file():
            raise DataError(
                f"the word vectors {path} were not found. Put a file of word2vec (text or binary) or of GloVe there, "
                "or leave `vectors` out: then they are learnt from the training split."
            )
        return {"vectors": path}


class SoftmaxLMConfig(RecurrentConfig):
    """Recurrent language model with a softmax or what approximates it, with or without an image."""

    name, target = "softmax-lm", "bench_ecoc.model:SoftmaxLM"
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        *COMMON, "output.kind=sampled: jean2015", "output.kind=nce: gutmann2010", "output.kind=nce: mnih2012",
        "output.kind=hierarchical: goodman2001", "output.kind=adaptive: grave2017", "inputs.kind=clvms: oneill2019",
        "inputs.kind=dlvms: oneill2019", "inputs.kind=dlvms: jang2017",
    ]  # fmt: skip

    output: OutputLayer = Full()  #: full, sampled, nce, hierarchical or adaptive

    def smooths_labels(self) -> bool:
        """Return whether the softmax is computed in full."""
        return isinstance(self.output, Full)

    @model_validator(mode="after")
    def _has_what_is_replaced(self) -> Self:
        inputs, kind = self.inputs, self.output.kind
        if isinstance(inputs, Flips):
            raise ValueError("`inputs: flips` flips bits of a code, which ecoc-lm alone has. Choose other `inputs`")
        if isinstance(inputs, CLVMS | DLVMS) and not isinstance(self.output, Hierarchical):
            raise ValueError(
                f"`inputs: {inputs.kind}` replaces latents: class and index of `output: hierarchical`, or bits of "
                f"ecoc-lm; `output: {kind}` has none. Choose `inputs: scheduled` or `soft`, or another output"
            )
        if isinstance(inputs, CLVMS | DLVMS) and inputs.factors is not None:
            raise ValueError("`factors` are for the bits of ecoc-lm. Leave them out")
        return self


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the model of codes and that of softmaxes."""
    return [ECOCLMConfig, SoftmaxLMConfig]
