"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from bench_captioning.plugin import IMAGE_CHANNELS, ImageChannels
from bench_core import Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_ecoc.former_codes import with_codes
from bench_ecoc.settings import CLVMS, DLVMS, Dropout, Flips, Gold, Inputs, Rates, Soft
from bench_output_layers.plugin import (
    Codes,
    FullOutputLayer,
    GrayWalkConfig,
    Hierarchical,
    HybridConfig,
    Naive,
    OutputLayer,
    PriorTempered,
    Reading,
    check_tied,
    fits_on_validation,
    inexact_laws,
    vector_files,
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
    sparse: bool | None = (
        None  #: update only embeddings of tokens in the batch; not with `inputs: soft` or a tied full softmax
    )

    @model_validator(mode="after")
    def _reads_few_embeddings(self) -> Self:
        reason = self._uses_all_embeddings()
        if self.sparse and reason:
            raise ValueError(f"{reason}, so every update changes all of them. Leave `sparse` out")
        if self.sparse is None:  # explicit, so that equal models have equal keys
            vars(self).update(sparse=reason is None)
        return self

    def _uses_all_embeddings(self) -> str | None:
        """Return why every update changes all embeddings; None if it does not."""
        return "`inputs: soft` mixes all embeddings" if isinstance(self.inputs, Soft) else None

    @property
    def sparse_embedding(self) -> bool:
        """Return whether embeddings, and output layers that use few tokens, have sparse gradients.

        The cost of an update is then independent of the vocabulary size, and all models of a comparison are updated
        in the same way.
        """
        return bool(self.sparse)


class ECOCLMConfig(RecurrentConfig):
    """Recurrent language model that predicts the bits of error-correcting codes, optionally conditioned on an image.

    Training cost does not depend on the vocabulary size. Likelihoods are `exact`, the distribution over tokens that
    `reading` makes of the bits, or `bits`, the bound that is trained.
    """

    name, target = "ecoc-lm", "bench_ecoc.model:ECOCLM"
    likelihoods = {"exact": Kind.EXACT, "bits": Kind.BOUND}
    evaluation = {"reading"}
    cites = ["oneill2019", "dietterich1995", *COMMON, "inputs.kind=dlvms: maddison2017"]

    bits: PositiveInt | None = None  #: codeword length; default: the minimum, or the vocabulary size for `identity`
    codes: Codes = (
        GrayWalkConfig.model_construct()
    )  #: codebook: gray-walk, dense, hashed, blend, hybrid, identity, or a plugin's own
    group: PositiveInt = 1  #: number of codewords per token, of which training uses the best; for `codes: gray-walk`
    loss: Literal["bits", "exact"] = "bits"  #: training objective; `exact` needs a softmax over the vocabulary
    gain: PositiveFloat | None = None  #: factor of the bits' logits with `loss: exact`; default: sqrt(2 / bits)
    reading: Reading | None = (
        None  #: naive, prior-tempered or maximum-entropy; default: prior-tempered, or naive if `loss` is exact
    )

    @model_validator(mode="before")
    @classmethod
    def _reads_former_settings(cls, settings: Any) -> Any:
        return with_codes(settings) if isinstance(settings, Mapping) else settings

    @model_validator(mode="after")
    def _settings_are_used(self) -> Self:
        if self.gain is not None and self.loss != "exact":
            raise ValueError("`gain` is a setting of `loss: exact`; it does not apply to bits. Leave it out")
        if isinstance(self.codes, HybridConfig) and isinstance(self.inputs, CLVMS | DLVMS | Flips):
            raise ValueError(
                f"`inputs: {self.inputs.kind}` replaces the bits of tokens, but frequent tokens of `codes: hybrid` "
                "have none. Choose `inputs: scheduled` or `soft`, or other `codes`"
            )
        return self

    @model_validator(mode="after")
    def _reading_fits(self) -> Self:
        only_naive = self.loss == "exact" or self.group > 1
        if self.reading is None:
            vars(self).update(reading=Naive() if only_naive else PriorTempered())
        elif only_naive and not isinstance(self.reading, Naive):
            why = "`loss: exact` trains the naive reading" if self.loss == "exact" else "only `naive` sums groups"
            raise ValueError(f"`reading: {self.reading.kind}` cannot be used here: {why}. Leave `reading` out")
        return self

    def fits_on_validation(self) -> bool:
        """Return whether the temperature or penalty of the reading is to be fitted."""
        return fits_on_validation(self.reading)

    def exempt(self) -> Mapping[str, str]:
        return inexact_laws(self.reading)

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if word vectors are learned."""
        return {"vectors"} if self.codes.learns_vectors() else set()

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the file of word vectors."""
        return vector_files(self.codes.vector_file(), data)


class SoftmaxLMConfig(RecurrentConfig):
    """Recurrent language model with a softmax or an approximation of it, optionally conditioned on an image."""

    name, target = "softmax-lm", "bench_ecoc.model:SoftmaxLM"
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        *COMMON, "tied=true: press2017", "output.kind=sampled: jean2015", "output.kind=nce: gutmann2010",
        "output.kind=nce: mnih2012", "output.kind=hierarchical: goodman2001", "output.order=embedding: mikolov2013",
        "output.kind=adaptive: grave2017", "inputs.kind=clvms: oneill2019", "inputs.kind=dlvms: oneill2019",
        "inputs.kind=dlvms: jang2017",
    ]  # fmt: skip

    output: OutputLayer = FullOutputLayer.model_construct()  #: full, sampled, nce, hierarchical or adaptive
    tied: bool = False  #: use one matrix for embedding and output layer (Press and Wolf, 2017, arXiv:1608.05859)

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if word vectors are learned."""
        return {"vectors"} if self.output.learns_vectors() else set()

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the file of `vectors` of `output: hierarchical`."""
        return vector_files(self.output.vector_file(), data)

    def smooths_labels(self) -> bool:
        """Return whether the softmax is computed in full."""
        return isinstance(self.output, FullOutputLayer)

    def _uses_all_embeddings(self) -> str | None:
        full = self.tied and self.smooths_labels()
        return "`tied` uses all embeddings in a full softmax" if full else super()._uses_all_embeddings()

    @model_validator(mode="after")
    def _can_be_tied(self) -> Self:
        if self.tied:
            check_tied(self.output)
        if self.tied and self.embedding != self.hidden:
            raise ValueError(
                "a tied model has one matrix for embedding and output layer, so `embedding` must equal `hidden`; "
                f"they are {self.embedding} and {self.hidden}. Change one of them, or leave `tied` out"
            )
        return self

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
