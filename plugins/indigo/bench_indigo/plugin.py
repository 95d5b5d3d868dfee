"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench_captioning.plugin import IMAGE_CHANNELS, ImageChannels
from bench_core import DecoderConfig, Kind, MetricConfig, ModelConfig, Prediction, Scorer, Source, Stepper, hookimpl
from bench_indigo.refiner import Refiner

FixedOrder: TypeAlias = Literal[
    "l2r", "r2l", "odd", "blt", "blt-strict", "syn", "cf", "rf", "rnd", "given", "given-reversed"
]
OrderName: TypeAlias = Literal[FixedOrder, "searched", "learned"]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Positions: TypeAlias = Literal["relative", "sinusoidal", "none"]
PartOfSpeech: TypeAlias = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
]  # fmt: skip


class TransformerSettings(ModelConfig):
    """Settings shared by all Transformers of this plugin (Vaswani et al., 2017)."""

    capabilities = {Stepper, Scorer}
    sources = {Source.TOKENS, Source.BAG, Source.VECTOR, Source.GRID, Source.IMAGE}

    d_model: PositiveInt = 512  #: d, size of a state
    heads: PositiveInt = 8  #: attention heads; each has d_model / heads dimensions
    layers: PositiveInt = 6  #: number of layers of the encoder, and of the decoder
    feed_forward: PositiveInt = 2048  #: hidden units of the feed-forward sublayers
    dropout: float = Field(0.1, ge=0, lt=1)  #: dropout on embeddings, attention and residual updates
    tied: bool = True  #: use one matrix for the target embeddings and the output logits
    shared: bool = False  #: use one matrix for source and target embeddings; both must have the same vocabulary
    source_positions: Positions | None = (
        None  #: position encoding of the encoder; default: as in the decoder, but `none` for all but tokens
    )
    image_channels: ImageChannels = IMAGE_CHANNELS  #: channels of the encoder of images; each stage halves the sides
    cross_attention: Literal["last", "forward"] = "last"  #: attend to the last encoder layer, or layer by layer
    limit_ratio: NonNegativeFloat = 2.0  #: maximum number of target tokens per source token, EOS included
    limit_extra: NonNegativeInt = 10  #: number added to the maximum number of target tokens

    def smooths_labels(self) -> bool:
        """Return True: word targets are smoothed; slot targets are never smoothed."""
        return True

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(
                f"`d_model` must be divisible by `heads`, and {self.d_model} is not divisible by {self.heads}. "
                "Change one of them"
            )
        return self


class IndigoConfig(TransformerSettings):
    """Transformer that inserts words one by one, in any order (Gu et al., 2019, arXiv:1902.01370)."""

    name, target = "indigo", "bench_indigo.insertion:Indigo"
    likelihoods = {"order": Kind.BOUND, "searched": Kind.BOUND, "elbo": Kind.BOUND}
    by_phase = {"order", "beam", "orders", "weights", "anneal", "search_noise", "samples", "entropy"}
    evaluation = {"bound_samples"}
    cites = [
        "gu2019", "vaswani2017", "tied=true: press2017", "shared=true: press2017", "order=learned: kool2019",
        "order=learned: li2021",
    ]  # fmt: skip

    order: OrderName = "searched"  #: generation order, also used in evaluation
    beam: PositiveInt = 8  #: beam size of the search for orders, and number of orders that the search returns
    orders: Literal["all", "one"] = "all"  #: learn from all orders found, or from one of them, sampled
    weights: Literal["uniform", "posterior", "annealed"] = (
        "uniform"  #: weights of the orders found: equal, p(y, pi | x), or from equal to p(y, pi | x)
    )
    anneal: tuple[Share, Share] | None = (
        None  #: annealed weights p^(1/T): shares of a phase between which 1/T rises from 0 to 1; default: 0.3, 0.6
    )
    search_noise: bool = True  #: use dropout in the search, as in the update
    eod_slot: bool = False  #: also learn a slot for the end, right of all words
    raw_keys: bool = False  #: let decoders choose keys, two per slot, instead of slots
    position_first: bool = False  #: predict each slot before its word, with the end as an alternative to slots
    posterior_layers: PositiveInt = 1  #: `order: learned`: layers of the network that scores the places of a target
    samples: int = Field(4, ge=2)  #: `order: learned`: orders sampled for each target of an update
    entropy: NonNegativeFloat = (
        1.0  #: `order: learned`: weight of the posterior's entropy in the loss; 1 is the bound
    )
    bound_samples: PositiveInt = 8  #: `order: learned`: orders sampled for likelihood `elbo`; all orders, if not more

    def exempt(self) -> Mapping[str, str]:
        if self.weights == "uniform":
            return {}
        return {"labels_are_smoothed_by_as_much_as_asked": "smoothed costs also determine the weights of orders"}

    @property
    def rise(self) -> tuple[float, float]:
        """Return the shares of a phase between which annealed weights sharpen."""
        return self.anneal or (0.3, 0.6)

    @model_validator(mode="after")
    def _weights_are_of_searched_orders(self) -> Self:
        if self.weights != "uniform" and (self.order != "searched" or self.orders == "one"):
            conflict = "`orders: one` learns from one of them"
            if self.order != "searched":
                conflict = f"`order` is {self.order}"
            raise ValueError(
                f"`weights: {self.weights}` weighs all orders found by a search, but {conflict}. Set `weights` "
                "only with `order: searched` and `orders: all`, in the training phases that have them"
            )
        if self.anneal is not None and self.weights != "annealed":
            raise ValueError("`anneal` applies only to `weights: annealed`. Remove it, or set `weights: annealed`")
        if not self.rise[0] < self.rise[1]:
            raise ValueError(
                f"`anneal` must ascend, and {list(self.rise)} does not. Set two ascending shares, such as [0.3, 0.6]"
            )
        return self

    @model_validator(mode="after")
    def _the_end_has_one_meaning(self) -> Self:
        if self.eod_slot and self.position_first:
            raise ValueError(
                "`eod_slot` adds a slot for the end, but with `position_first` the end is an alternative to slots. "
                "Remove one of them"
            )
        return self


class TransformerConfig(TransformerSettings):
    """Left-to-right Transformer (Vaswani et al., 2017, arXiv:1706.03762)."""

    name, target = "transformer", "bench_indigo.transformer:Transformer"
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        "vaswani2017", "positions=relative: shaw2018", "tied=true: press2017", "shared=true: press2017"
    ]  # fmt: skip

    positions: Literal["relative", "sinusoidal"] = (
        "sinusoidal"  #: position encoding of the decoder, and of token sources
    )


class InsertionTransformerConfig(TransformerSettings):
    """Transformer that rereads a canvas and inserts words anywhere in it (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insertion-transformer", "bench_indigo.canvas:InsertionTransformer"
    capabilities = {Refiner}
    cites = ["stern2019", "gu2019", "vaswani2017", "tied=true: press2017", "shared=true: press2017"]

    loss: Literal["uniform", "binary"] = (
        "binary"  #: weights of a slot's missing words: equal, or highest in the middle
    )
    tau: PositiveFloat | None = None  #: how slowly `binary` weights decrease from the middle; default: 1
    joint: bool = False  #: also learn p(slot), which otherwise stays uniform

    @model_validator(mode="after")
    def _tau_is_of_binary(self) -> Self:
        if self.tau is not None and self.loss != "binary":
            raise ValueError(
                "`tau` applies only to `loss: binary`; `loss: uniform` has equal weights. Remove one of them"
            )
        return self

    @property
    def spread(self) -> float | None:
        """Return tau, or None if weights are uniform."""
        return (self.tau or 1.0) if self.loss == "binary" else None


class InsertConfig(DecoderConfig):
    """Settings shared by decoders that insert words into a canvas."""

    needs = Refiner
    cites = ["stern2019"]

    penalty: NonNegativeFloat = 0.0  #: nats subtracted from the log-probability of leaving a slot empty


class InsertGreedyConfig(InsertConfig):
    """Insert the best word in the best slot of a canvas, pass after pass (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insert-greedy", "bench_indigo.refining:InsertGreedy"


class InsertParallelConfig(InsertConfig):
    """Insert the best word in every slot of a canvas, pass after pass (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insert-parallel", "bench_indigo.refining:InsertParallel"

    reopen: bool = False  #: allow a slot that was left empty to be filled in a later pass


class OrderAgreementConfig(MetricConfig):
    """Mean Kendall tau between generation order and reading order."""

    name, target = "order-agreement", "bench_indigo.agreement:OrderAgreement"
    range = -1, 1


class OrderJumpConfig(MetricConfig):
    """Mean distance between consecutively generated words."""

    name, target = "order-jump", "bench_indigo.agreement:OrderJump"
    range = 0, inf


class OrderChunksConfig(MetricConfig):
    """Number of chunks in which outputs were generated, each left to right without a gap."""

    name, target = "order-chunks", "bench_indigo.agreement:OrderChunks"
    range = 0, inf

    per: Literal["output", "word"] = "output"  #: count chunks per output, or per word


class FirstWordsConfig(MetricConfig):
    """Share of the most frequent types among the words generated first."""

    name, target = "first-words", "bench_indigo.agreement:FirstWords"
    range = 0, 100

    types: PositiveInt = 100  #: number of training types considered frequent
    first: PositiveInt = 3  #: number of words of an output considered first
    skip_unknown: bool = False  #: skip `<unk>`, in outputs and among the most frequent types


class FirstPartsConfig(MetricConfig):
    """Share of a part of speech among the words generated first, according to the task's tags."""

    name, target = "first-parts", "bench_indigo.parts_of_speech:FirstParts"
    range = 0, 100

    part: PartOfSpeech = "NOUN"  #: UPOS tag of Universal Dependencies
    first: PositiveInt | None = 3  #: number of words of an output considered first; null: all, for comparison


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models."""
    return [IndigoConfig, TransformerConfig, InsertionTransformerConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders for canvases."""
    return [InsertGreedyConfig, InsertParallelConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of generation order."""
    return [OrderAgreementConfig, OrderJumpConfig, OrderChunksConfig, FirstWordsConfig, FirstPartsConfig]


@hookimpl(optionalhook=True)  # hook of bench-reports
def bench_samples(
    figures: Sequence[Any],
    predictions: Callable[[], Sequence[Prediction]],
    vocabulary: Sequence[str],
    hidden: Callable[[Sequence[Prediction]], Collection[int]],
) -> Mapping[int, Mapping[str, Any]] | None:
    """Return the words and generation order of the outputs that order figures show."""
    drawn = [figure.examples for figure in figures if figure.kind == "order"]
    if not drawn:
        return None
    from bench_indigo.generation_order import courses

    stored = predictions()
    return courses(stored, drawn, vocabulary, hidden(stored))


@hookimpl(optionalhook=True)  # hook of bench-reports
def bench_figure(kind: str) -> Any:
    """Return the figure kind `order`."""
    if kind != "order":
        return None
    from bench_indigo.order_figures import ORDER

    return ORDER
