"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from bench_captioning.settings import Corpus, Features, ResNet, Scenes, Usual
from bench_core import MetricConfig, Source, TaskConfig, hookimpl
from bench_text.api import corpora


class CaptioningConfig(TaskConfig):
    """Captions of images, from features of a frozen network."""

    name, target = "captioning", "bench_captioning.captioning:Captioning"
    inspector = "bench_captioning.inspecting:inspect"
    cites = [
        "features.kind=resnet: he2016",
        *("corpus.name=coco: lin2014", "corpus.name=coco: chen2015", "corpus.name=coco: karpathy2015"),
        *("corpus.name=flickr8k: hodosh2013", "corpus.name=flickr8k: karpathy2015"),
        *("corpus.name=flickr30k: young2014", "corpus.name=flickr30k: karpathy2015"),
    ]

    corpus: Corpus = Scenes(name="scenes")  #: a name, or annotations of your own
    features: Features = ResNet()  #: of each image: `precomputed` in a file, or computed once by a `resnet`
    form: Literal["vector", "grid"] = "vector"  #: of features: one vector an image, or one for each place in it
    min_count: PositiveInt = 5  #: the fewest occurrences of a word in captions to train on; rarer ones are `<unk>`
    vocab_size: int | None = Field(None, ge=3)  #: the most tokens, `<stop>` and `<unk>` included
    longest: PositiveInt | None = 100  #: words of a caption; longer ones are not trained on
    documents: list[Usual] = []  #: splits whose captions metrics may read, for document frequencies

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Return what the form makes of the features."""
        return Source.VECTOR if self.form == "vector" else Source.GRID

    def extras(self) -> Set[str]:
        """Return what computes features."""
        return {"features"} if self.features.kind == "resnet" else set()

    @property
    def restriction(self) -> str:
        return corpora.restriction(getattr(self.corpus, "name", ""))

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of annotations, features and weights, and one of all images where these are read."""
        from bench_captioning import corpus  # only where data are read

        return corpus.reads(self.corpus, self.features, data)


class CaptionMetricConfig(MetricConfig):
    """What the metrics of the COCO evaluation share: captions are cut by its tokenizer, which runs in Java."""

    of_texts = True
    range = 0, 100

    patience: PositiveFloat = 600.0  #: seconds that the tokenizer may take for one caption, its start included

    def extras(self) -> Set[str]:
        """Return the programs of the COCO evaluation."""
        return {"metrics"}


class CaptionBleuConfig(CaptionMetricConfig):
    """Corpus BLEU of captions as the COCO evaluation computes it (Papineni et al., 2002; Chen et al., 2015)."""

    name, target = "caption-bleu", "bench_captioning.bleu:CaptionBleu"
    cites = ["papineni2002", "chen2015"]

    n: int = Field(4, ge=1, le=4)  #: tokens of the longest n-grams


class RougeLConfig(CaptionMetricConfig):
    """ROUGE-L of captions as the COCO evaluation computes it (Lin, 2004; Chen et al., 2015)."""

    name, target = "rouge-l", "bench_captioning.rouge:RougeL"
    cites = ["lin2004rouge", "chen2015"]


class CiderDConfig(CaptionMetricConfig):
    """CIDEr-D of captions as the COCO evaluation computes it (Vedantam et al., 2015; Chen et al., 2015)."""

    name, target = "cider-d", "bench_captioning.cider:CiderD"
    range = 0, 1000
    cites = ["vedantam2015", "chen2015"]

    documents: Usual | None = None  #: the split whose captions words are weighed by; by default those of the examples


class CaptionMeteorConfig(CaptionMetricConfig):
    """METEOR 1.5 of captions as the COCO evaluation computes it (Denkowski and Lavie, 2014; Chen et al., 2015)."""

    name, target = "caption-meteor", "bench_captioning.meteor:CaptionMeteor"
    cites = ["denkowski2014", "chen2015"]

    memory: int = Field(1024, ge=64)  #: MiB that METEOR may take


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task."""
    return [CaptioningConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of captions."""
    return [CaptionBleuConfig, RougeLConfig, CiderDConfig, CaptionMeteorConfig]
