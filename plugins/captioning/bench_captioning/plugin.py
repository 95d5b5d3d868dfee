"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from bench_captioning.settings import Corpus, Features, ResNet, Scenes, Usual
from bench_core import MetricConfig, Source, TaskConfig, hookimpl
from bench_text.api import corpora


class CaptioningConfig(TaskConfig):
    """Image captioning, with features of a frozen network."""

    name, target = "captioning", "bench_captioning.captioning:Captioning"
    inspector = "bench_captioning.inspecting:inspect"
    cites = [
        "features.kind=resnet: he2016",
        *("corpus.name=coco: lin2014", "corpus.name=coco: chen2015", "corpus.name=coco: karpathy2015"),
        *("corpus.name=flickr8k: hodosh2013", "corpus.name=flickr8k: karpathy2015"),
        *("corpus.name=flickr30k: young2014", "corpus.name=flickr30k: karpathy2015"),
    ]

    corpus: Corpus = Scenes.model_construct(name="scenes")  #: name of a corpus, or your own annotations
    features: Features = ResNet.model_construct()  #: `precomputed` in a file, or computed once by a `resnet`
    form: Literal["vector", "grid"] = "vector"  #: one feature vector per image, or a grid of vectors
    min_count: PositiveInt = 5  #: minimum training count of a word; rarer words are `<unk>`
    vocab_size: int | None = Field(None, ge=3)  #: maximum vocabulary size, including `<stop>` and `<unk>`
    longest: PositiveInt | None = 100  #: maximum words of a training caption; longer captions are skipped
    documents: list[Usual] = []  #: splits whose captions metrics may use for document frequencies

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Return the kind of source that the form produces."""
        return Source.VECTOR if self.form == "vector" else Source.GRID

    def extras(self) -> Set[str]:
        """Return the extra that computing features requires, if features are computed."""
        return {"features"} if self.features.kind == "resnet" else set()

    @property
    def restriction(self) -> str:
        return corpora.restriction(getattr(self.corpus, "name", ""))

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of annotations, features and weights, and one digest of all images if they are read."""
        from bench_captioning import corpus  # only when data are read

        return corpus.reads(self.corpus, self.features, data)


class CaptionMetricConfig(MetricConfig):
    """Settings shared by the COCO metrics, whose tokenizer runs in Java."""

    of_texts = True
    range = 0, 100

    patience: PositiveFloat = 600.0  #: maximum seconds of the tokenizer per caption, start-up included

    def extras(self) -> Set[str]:
        """Return the extra of the COCO metrics."""
        return {"metrics"}


class CaptionBleuConfig(CaptionMetricConfig):
    """Corpus BLEU of captions, as in the COCO evaluation (Papineni et al., 2002; Chen et al., 2015)."""

    name, target = "caption-bleu", "bench_captioning.bleu:CaptionBleu"
    cites = ["papineni2002", "chen2015"]

    n: int = Field(4, ge=1, le=4)  #: maximum n-gram order


class RougeLConfig(CaptionMetricConfig):
    """ROUGE-L of captions, as in the COCO evaluation (Lin, 2004; Chen et al., 2015)."""

    name, target = "rouge-l", "bench_captioning.rouge:RougeL"
    cites = ["lin2004rouge", "chen2015"]


class CiderDConfig(CaptionMetricConfig):
    """CIDEr-D of captions, as in the COCO evaluation (Vedantam et al., 2015; Chen et al., 2015)."""

    name, target = "cider-d", "bench_captioning.cider:CiderD"
    range = 0, 1000
    cites = ["vedantam2015", "chen2015"]

    documents: Usual | None = None  #: split for document frequencies; default: the references of the examples


class CaptionMeteorConfig(CaptionMetricConfig):
    """METEOR 1.5 of captions, as in the COCO evaluation (Denkowski and Lavie, 2014; Chen et al., 2015)."""

    name, target = "caption-meteor", "bench_captioning.meteor:CaptionMeteor"
    cites = ["denkowski2014", "chen2015"]

    memory: int = Field(1024, ge=64)  #: maximum memory of METEOR in MiB


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task."""
    return [CaptioningConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the caption metrics."""
    return [CaptionBleuConfig, RougeLConfig, CiderDConfig, CaptionMeteorConfig]
