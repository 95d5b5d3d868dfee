"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench_core import DecoderConfig, Kind, MetricConfig, ModelConfig, Outcome, Scorer, Source, Stepper, hookimpl
from bench_indigo.refiner import Refiner

Known: TypeAlias = Literal["l2r", "r2l", "odd", "blt", "blt-strict", "syn", "cf", "rf", "rnd", "given"]  # beforehand
OrderName: TypeAlias = Literal[Known, "searched"]
Positions: TypeAlias = Literal["relative", "sinusoidal", "none"]
PartOfSpeech: TypeAlias = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
]  # fmt: skip


class TransformerSettings(ModelConfig):
    """What all Transformers here share: an encoder and a decoder of as many layers (Vaswani et al., 2017)."""

    capabilities = {Stepper, Scorer}
    sources = {Source.TOKENS, Source.BAG, Source.VECTOR, Source.GRID}

    d_model: PositiveInt = 512  #: d, numbers of a state
    heads: PositiveInt = 8  #: of every attention; each has d_model / heads numbers
    layers: PositiveInt = 6  #: of the encoder, and of the decoder
    feed_forward: PositiveInt = 2048  #: units between the two maps of a layer
    dropout: float = Field(0.1, ge=0, lt=1)  #: on embeddings, attention, and all that is added to a state
    tied: bool = True  #: one matrix for the target's embeddings and the logits of words
    shared: bool = False  #: one matrix for both embeddings; source and target must have one vocabulary
    source_positions: Positions | None = None  #: of the encoder: by default as the decoder; none for bags, features
    cross_attention: Literal["last", "forward"] = "last"  #: what a layer sees: the encoder's last one, or its own
    limit_ratio: NonNegativeFloat = 2.0  #: most target tokens for each of a source of tokens, stop included
    limit_extra: NonNegativeInt = 10  #: and so many more

    def smooths_labels(self) -> bool:
        """Return True: those of words are smoothed, never those of slots."""
        return True

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(
                f"`d_model` is divided among `heads`, and {self.d_model} cannot be by {self.heads}. Choose another"
            )
        return self


class IndigoConfig(TransformerSettings):
    """Transformer that places word after word where it belongs, in any order (Gu et al., 2019, arXiv:1902.01370)."""

    name, target = "indigo", "bench_indigo.insertion:Indigo"
    likelihoods = {"order": Kind.BOUND, "searched": Kind.BOUND}
    by_phase = {"order", "beam", "orders", "search_noise"}
    cites = ["gu2019", "vaswani2017", "tied=true: press2017", "shared=true: press2017"]

    order: OrderName = "searched"  #: in which words are placed; also that of evaluation
    beam: PositiveInt = 8  #: orders that a search finds, and keeps at each step
    orders: Literal["all", "one"] = "all"  #: of those found, what an update learns from: all, or one drawn of them
    search_noise: bool = True  #: whether the search for orders has dropout, as the update has
    eod_slot: bool = False  #: whether it also learns a slot for the end, right of all words
    raw_keys: bool = False  #: whether decoders choose keys instead of slots, of which each has two
    position_first: bool = False  #: whether a slot is chosen before its word, and the end beside slots

    @model_validator(mode="after")
    def _the_end_has_one_meaning(self) -> Self:
        if self.eod_slot and self.position_first:
            raise ValueError(
                "`eod_slot` teaches a slot for the end, and with `position_first` the end is a choice of its own. "
                "Leave one of them out"
            )
        return self


class TransformerConfig(TransformerSettings):
    """Plain Transformer, from left to right (Vaswani et al., 2017, arXiv:1706.03762)."""

    name, target = "transformer", "bench_indigo.transformer:Transformer"
    likelihoods = {"exact": Kind.EXACT}
    cites = [
        "vaswani2017", "positions=relative: shaw2018", "tied=true: press2017", "shared=true: press2017"
    ]  # fmt: skip

    positions: Literal["relative", "sinusoidal"] = "sinusoidal"  #: of the decoder, and of a source of tokens


class InsertionTransformerConfig(TransformerSettings):
    """Transformer that rereads a canvas and inserts words anywhere in it (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insertion-transformer", "bench_indigo.canvas:InsertionTransformer"
    capabilities = {Refiner}
    cites = ["stern2019", "gu2019", "vaswani2017", "tied=true: press2017", "shared=true: press2017"]

    loss: Literal["uniform", "binary"] = "binary"  #: missing words of a slot weigh alike, or those in the middle more
    tau: PositiveFloat | None = None  #: of `binary`: how slowly weights fall off from the middle, by default 1
    joint: bool = False  #: whether the loss is of p(word, slot), and so teaches p(slot), which is uniform at first

    @model_validator(mode="after")
    def _tau_is_of_binary(self) -> Self:
        if self.tau is not None and self.loss != "binary":
            raise ValueError("`tau` is of `loss: binary`; weights of `loss: uniform` do not fall off. Leave one out")
        return self

    @property
    def spread(self) -> float | None:
        """Return tau, or None where weights are uniform."""
        return (self.tau or 1.0) if self.loss == "binary" else None


class InsertConfig(DecoderConfig):
    """What decoders that insert into a canvas share."""

    needs = Refiner
    cites = ["stern2019"]

    penalty: NonNegativeFloat = 0.0  #: nats taken off the log-probability that a slot is to be left as it is


class InsertGreedyConfig(InsertConfig):
    """The best word in the best slot of a canvas, pass after pass (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insert-greedy", "bench_indigo.refining:InsertGreedy"


class InsertParallelConfig(InsertConfig):
    """The best words of all slots of a canvas at once, pass after pass (Stern et al., 2019, arXiv:1902.03249)."""

    name, target = "insert-parallel", "bench_indigo.refining:InsertParallel"

    reopen: bool = False  #: whether a slot that was to be left as it is may be filled in a later pass


class OrderAgreementConfig(MetricConfig):
    """Mean Kendall tau of the order of generation with that of reading."""

    name, target = "order-agreement", "bench_indigo.agreement:OrderAgreement"
    range = -1, 1


class OrderJumpConfig(MetricConfig):
    """Mean distance of words that were generated one after the other."""

    name, target = "order-jump", "bench_indigo.agreement:OrderJump"
    range = 0, inf


class OrderChunksConfig(MetricConfig):
    """In how many pieces outputs were generated, each from left to right without a gap."""

    name, target = "order-chunks", "bench_indigo.agreement:OrderChunks"
    range = 0, inf

    per: Literal["output", "word"] = "output"  #: what chunks are counted by


class FirstWordsConfig(MetricConfig):
    """Share of the commonest types among the words that were generated first."""

    name, target = "first-words", "bench_indigo.agreement:FirstWords"
    range = 0, 100

    types: PositiveInt = 100  #: how many types of the training split are common
    first: PositiveInt = 3  #: how many words of an output are its first
    skip_unknown: bool = False  #: whether `<unk>` is passed over, in outputs and among the commonest types


class FirstPartsConfig(MetricConfig):
    """Share of one part of speech among the words that were generated first, by the tags that the task gives."""

    name, target = "first-parts", "bench_indigo.parts_of_speech:FirstParts"
    range = 0, 100

    part: PartOfSpeech = "NOUN"  #: of Universal Dependencies
    first: PositiveInt | None = 3  #: how many words of an output are its first; null for all, to compare with


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models."""
    return [IndigoConfig, TransformerConfig, InsertionTransformerConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders of canvases."""
    return [InsertGreedyConfig, InsertParallelConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of orders."""
    return [OrderAgreementConfig, OrderJumpConfig, OrderChunksConfig, FirstWordsConfig, FirstPartsConfig]


@hookimpl(optionalhook=True)  # of bench-reports
def bench_samples(
    figures: Sequence[Any],
    outcomes: Callable[[], Sequence[Outcome]],
    vocabulary: Sequence[str],
    hidden: Callable[[Sequence[Outcome]], Collection[int]],
) -> Mapping[int, Mapping[str, Any]] | None:
    """Return words and the order in which they were generated, of the outputs that figures of orders show."""
    drawn = [one.examples for one in figures if one.kind == "order"]
    if not drawn:
        return None
    from bench_indigo.generation_order import courses

    found = outcomes()
    return courses(found, drawn, vocabulary, hidden(found))


@hookimpl(optionalhook=True)  # of bench-reports
def bench_figure(kind: str) -> Any:
    """Return how figures of orders are drawn."""
    if kind != "order":
        return None
    from bench_indigo.order_figures import ORDER

    return ORDER
