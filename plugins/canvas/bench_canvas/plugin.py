"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from typing import ClassVar, Literal, Self

from pydantic import PositiveInt, model_validator

from bench_canvas.canvas import Canvas
from bench_canvas.fit import CanvasFit
from bench_core import DecoderConfig, Kind, ModelConfig, Scorer, Section, Source, hookimpl
from bench_indigo.plugin import Positions, TransformerSettings


class MaskedDiffusionConfig(TransformerSettings):
    """Transformer that predicts masked places from all others (Sahoo et al., 2024, arXiv:2406.07524)."""

    name, target = "masked-diffusion", "bench_canvas.masked_diffusion:MaskedDiffusion"
    inspector = "bench_canvas.inspecting:inspect"
    capabilities = {Canvas, Scorer}
    sources = TransformerSettings.sources | {Source.NONE}
    likelihoods = {"sampled-orders": Kind.ESTIMATE, "all-orders": Kind.BOUND}
    evaluation = {"orders"}
    positions: ClassVar[Positions] = "sinusoidal"  #: position encoding of places, and by default of sources
    cites = ["sahoo2024", "hoogeboom2022", "vaswani2017", "tied=true: press2017", "shared=true: press2017"]

    places: PositiveInt | None = (
        None  #: width of the canvas, with prompt and EOS; default: the prompt, and `limit_ratio` and `limit_extra`
    )
    orders: PositiveInt = 1  #: orders sampled for each target by the likelihood `sampled-orders`


class CanvasDecoderConfig(DecoderConfig):
    """Settings shared by decoders that write the places of a canvas."""

    needs = Canvas

    passes: PositiveInt | None = None  #: number of passes; at most one for each place
    order: Literal["confidence", "margin", "entropy", "random", "left"] = (
        "confidence"  #: write the places of highest p, largest margin of p to the next token, or lowest entropy first
    )


class UnmaskConfig(CanvasDecoderConfig):
    """Write the best tokens of some masked places, pass after pass (Chang et al., 2022, arXiv:2202.04200)."""

    name, target = "unmask", "bench_canvas.unmasking:Unmask"
    cites = ["chang2022", "order=margin: kim2025"]

    k: PositiveInt | None = None  #: places to write in each pass, instead of `passes`; default: 1

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.k is not None and self.passes is not None:
            raise ValueError("`k` and `passes` both set the number of places of a pass. Remove one of them")
        return self


class MaskPredictConfig(CanvasDecoderConfig):
    """Write all masked places, then mask the worst again (Ghazvininejad et al., 2019, arXiv:1904.09324)."""

    name, target = "mask-predict", "bench_canvas.unmasking:MaskPredict"
    cites = ["ghazvininejad2019", "order=margin: kim2025"]

    order: Literal["confidence", "margin", "entropy", "random"] = (
        "confidence"  #: keep places by p, its margin or the entropy when written; the worst are masked again
    )
    passes: PositiveInt = 10  #: number of passes; at most one for each place


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the model."""
    return [MaskedDiffusionConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders."""
    return [UnmaskConfig, MaskPredictConfig]


@hookimpl
def bench_sections(api: int) -> list[Section]:
    """Return the check that canvases, schedules, targets and prompts fit together."""
    return [CanvasFit()]
