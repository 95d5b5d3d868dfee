"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from bench_captioning.settings import IMAGE_CHANNELS as IMAGE_CHANNELS
from bench_captioning.settings import Corpus, Features, Form, Pixels, ResNet, Scenes, Usual
from bench_captioning.settings import ImageChannels as ImageChannels
from bench_core import MetricConfig, Source, TaskConfig, hookimpl
from bench_text.api import corpora


class CaptioningConfig(TaskConfig):
    """Image captioning, from pixels or from features of a frozen network."""

    name, target = "captioning", "bench_captioning.captioning:Captioning"
    inspector = "bench_captioning.inspecting:inspect"
    cites = [
        "features.kind=resnet: he2016",
        *("corpus.name=coco: lin2014", "corpus.name=coco: chen2015", "corpus.name=coco: karpathy2015"),
        *("corpus.name=flickr8k: hodosh2013", "corpus.name=flickr8k: karpathy2015"),
        *("corpus.name=flickr30k: young2014", "corpus.name=flickr30k: karpathy2015"),
    ]

    corpus: Corpus = Scenes.model_construct(name="scenes")  #: name of a corpus, or your own annotations
    features: Features = (
        Pixels.model_construct()
    )  #: `pixels`, or features: of a `resnet`, in a `folder`, or `precomputed` in one file
    form: Form | None = (
        None  #: one feature vector per image, or a `grid` of vectors; default: `vector`, unless `pixels`
    )
    min_count: PositiveInt = 5  #: minimum training count of a word; rarer words are `<unk>`
    vocab_size: int | None = Field(None, ge=3)  #: maximum vocabulary size, including `<stop>` and `<unk>`
    longest: PositiveInt | None = 100  #: maximum words of a training caption; longer captions are skipped
    documents: list[Usual] = []  #: splits whose captions metrics may use for document frequencies

    @model_validator(mode="after")
    def _form_is_of_features(self) -> Self:
        if not isinstance(self.features, Pixels):
            vars(self).update(form=self.form or "vector")  # explicit, so that equal tasks have equal keys
        elif self.form:
            raise ValueError(
                f"`form: {self.form}` is a setting of features, but `features` are pixels. Leave it out, or choose "
                "features such as `features: resnet`"
            )
        return self

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Return the kind of source that features and form produce."""
        return Source.IMAGE if self.form is None else Source(self.form)

    def extras(self) -> Set[str]:
        """Return the extra for computing features or for opening images; scenes of the right size need none."""
        features, corpus = self.features, self.corpus
        if isinstance(features, ResNet):
            return {"features"}
        if not isinstance(features, Pixels) or (
            isinstance(corpus, Scenes) and features.side(corpus) == corpus.pixels
        ):
            return set()
        return {"images"}

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
