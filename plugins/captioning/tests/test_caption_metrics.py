from __future__ import annotations

import os
import random
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from bench_authors.testing import MetricCase, check_metric
from bench_captioning.cider import DocumentFrequencies
from bench_captioning.plugin import CaptionBleuConfig, CaptionMeteorConfig, CiderDConfig, RougeLConfig
from bench_captioning.ptb import JAR
from bench_captioning.scenes import scenes
from bench_captioning.settings import Scenes
from bench_core import Prediction, SuiteError, TaskInfo
from bench_metrics.api import java

QUICK = [*(CaptionBleuConfig(n=n) for n in (1, 2, 3, 4)), RougeLConfig(), CiderDConfig()]
INFO = TaskInfo(["<stop>"])


def cell(number=60, seed=1):
    """Return predictions whose texts are captions of their own scene, spoilt, or of another, or empty."""
    dice = random.Random(seed)
    made = scenes(Scenes(name="scenes", images=number))["train"]
    found = []
    for place, scene in enumerate(made):
        references = [*scene.captions[: dice.randrange(2, 6)]]
        text = dice.choice([scene.captions[-1], made[place - 1].captions[0], "A dog's life, isn't it?"])
        words = [word for word in text.split() if dice.random() < 0.8]
        found.append(Prediction(10 * place, references=references, texts=[" ".join(words)]))
    return found


CELL = cell()
EXTREMES = [
    Prediction(0, references=["a red dog", "the dog"], texts=[""]),
    Prediction(1, references=["", "a cat."], texts=["a cat"]),
    Prediction(2, references=["two birds sing\u2028loud", "birds"], texts=["two\nbirds ||| sing loud"]),
    Prediction(3, references=["x"], texts=["word " * 300]),
]


def built(config, predictions):
    return config.load()(config).prepare(INFO, {prediction.id: prediction.references for prediction in predictions})


def score(config, predictions):
    metric = built(config, predictions)
    return metric.combine([*metric.measure(predictions)])


def official(predictions, monkeypatch):
    """Return captions and references as the COCO evaluation cuts them; its tokenizer writes beside itself."""
    if not os.access(JAR.parent, os.W_OK):
        pytest.skip("pycocoevalcap is installed read-only")
    monkeypatch.setenv("PATH", str(Path(java()).parent), prepend=os.pathsep)
    references, texts = (
        {prediction.id: [{"caption": caption} for caption in get(prediction)] for prediction in predictions}
        for get in (lambda prediction: prediction.references, lambda prediction: prediction.texts)
    )
    cut = PTBTokenizer()
    return cut.tokenize(references), cut.tokenize(texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_scores_are_those_of_pycocoevalcap(monkeypatch, seed):
    predictions = cell(seed=seed)
    captions = official(predictions, monkeypatch)
    whole, _ = Bleu(4).compute_score(*captions, verbose=0)
    for n, value in enumerate(whole, 1):
        assert score(CaptionBleuConfig(n=n), predictions) == pytest.approx(100 * value, rel=1e-12)
    rouge, of_rouge = Rouge().compute_score(*captions)
    cider, of_cider = Cider().compute_score(*captions)
    for config, value, single in ((RougeLConfig(), rouge, of_rouge), (CiderDConfig(), cider, of_cider)):
        metric = built(config, predictions)
        parts = [*metric.measure(predictions)]
        assert parts == pytest.approx(list(single), rel=1e-12)
        assert metric.combine(parts) == pytest.approx(100 * value, rel=1e-12)
        assert 0 < np.mean(parts) < np.max(parts)
        assert [*metric.measure(predictions[7:9])] == parts[7:9]


def test_extreme_captions_score_as_those_of_pycocoevalcap(monkeypatch):
    plain = [
        Prediction(each.id, references=[" ".join(r.split()) for r in each.references], texts=[" ".join(each.texts[0].split())])
        for each in EXTREMES
    ]  # fmt: skip
    captions = official(plain, monkeypatch)
    whole, _ = Bleu(4).compute_score(*captions, verbose=0)
    assert score(CaptionBleuConfig(), EXTREMES) == pytest.approx(100 * whole[3], rel=1e-12)
    assert score(RougeLConfig(), EXTREMES) == pytest.approx(100 * Rouge().compute_score(*captions)[0], rel=1e-12)
    assert score(CiderDConfig(), EXTREMES) == pytest.approx(100 * Cider().compute_score(*captions)[0], rel=1e-12)


@pytest.mark.nightly
def test_meteor_is_that_of_pycocoevalcap(monkeypatch):
    predictions = CELL[:20]
    theirs = Meteor()
    whole, single = theirs.compute_score(*official(predictions, monkeypatch))
    theirs.meteor_p.stdout.close()
    theirs.meteor_p.stderr.close()
    del theirs
    metric = built(CaptionMeteorConfig(), predictions)
    parts = [*metric.measure(predictions)]
    assert metric.combine(parts) == pytest.approx(100 * whole, rel=1e-12)
    assert [metric.combine([part]) for part in parts] == pytest.approx([100 * each for each in single], rel=1e-12)


@pytest.mark.nightly
def test_meteor_keeps_the_contracts():
    assert len(check_metric(MetricCase.of(CaptionMeteorConfig()))) == 7


@pytest.mark.parametrize("config", QUICK, ids=lambda config: f"{config.name}-{getattr(config, 'n', '')}")
def test_every_metric_keeps_the_contracts(config):
    assert len(check_metric(MetricCase.of(config))) == 7
    assert len(check_metric(MetricCase.of(config, CELL[:8]))) == 7


@pytest.mark.parametrize("config", QUICK, ids=lambda config: f"{config.name}-{getattr(config, 'n', '')}")
def test_a_cell_without_examples_is_undefined(config):
    metric = config.load()(config)
    assert [*metric.measure([])] == []
    assert isnan(metric.combine([]))


def test_signatures_tell_apart_what_shares_no_column():
    several = [built(config, CELL).signature for config in [*QUICK, CaptionMeteorConfig()]]
    assert len(set(several)) == len(several)
    assert all("tok:ptb-3.4.1|case:lc" in signature and signature.startswith("nrefs:var") for signature in several)
    assert "documents:references of 60 images" in built(CiderDConfig(), CELL).signature
    assert built(CiderDConfig(), CELL).signature != built(CiderDConfig(), CELL[:30]).signature


def test_perfect_captions_score_100_and_1000():
    perfect = [Prediction(each.id, references=each.references[:1], texts=each.references[:1]) for each in CELL]
    assert score(CaptionBleuConfig(), perfect) == pytest.approx(100)
    assert score(RougeLConfig(), perfect) == pytest.approx(100)
    assert score(CiderDConfig(), perfect) == pytest.approx(1000)


def test_by_hand():
    predictions = [
        Prediction(0, references=["a b c d", "a x"], texts=["a b"]),
        Prediction(1, references=["p q r"], texts=["p r"]),
    ]
    # 1-grams 4 of 4, nearest lengths 2 and 3
    assert score(CaptionBleuConfig(n=1), predictions) == pytest.approx(100 * np.exp(1 - 5 / 4))
    # precision 1 with the first reference, recall 1/2 with either; precision 1, recall 2/3
    f = [(1 + 1.44) * p * r / (r + 1.44 * p) for p, r in ((1, 1 / 2), (1, 2 / 3))]
    assert score(RougeLConfig(), predictions) == pytest.approx(100 * np.mean(f))
    # every idf is log 2, so cosines of counts: 1-grams (2 / sqrt(2 4) + 1 / 2) / 2, 2-grams 1 / sqrt(3) / 2
    # and 1-grams 2 / sqrt(2 3); lengths in bigrams differ by 2, 0 and 1
    far, near = np.exp(-4 / 72), np.exp(-1 / 72)
    first = ((2 / 8**0.5) * far + 1 / 2 + 1 / 3**0.5 * far) / 2 / 4
    second = 2 / 6**0.5 * near / 4
    assert score(CiderDConfig(), predictions) == pytest.approx(1000 * (first + second) / 2)


def plain_cider(text, references, documents):
    """CIDEr, as CIDEr-D was before: no clipping and no penalty on lengths."""
    from pycocoevalcap.cider.cider_scorer import precook

    def weighed(counts, n):
        return {
            g: c * (np.log(documents.images) - np.log(max(1.0, documents.frequency.get(g, 0))))
            for g, c in counts.items()
            if len(g) == n
        }

    total = 0.0
    for n in range(1, 5):
        said = weighed(precook(text), n)
        for reference in references:
            there = weighed(precook(reference), n)
            size = (sum(v**2 for v in said.values()) * sum(v**2 for v in there.values())) ** 0.5
            total += sum(said[g] * there.get(g, 0) for g in said) / size if size else 0
    return 10 * total / 4 / len(references)


def test_mutants_are_told_apart():
    predictions = [
        Prediction(0, references=["a red dog runs", "dog dog"], texts=["dog dog dog dog"]),
        Prediction(1, references=["the cat sits here", "a cat"], texts=["a cat sits"]),
        Prediction(2, references=["a red car"], texts=["a car"]),
    ]
    metric = built(CiderDConfig(), predictions)
    parts = [*metric.measure(predictions)]
    unclipped = [plain_cider(each.texts[0], each.references, metric.documents) for each in predictions]
    assert min(abs(ours - theirs) for ours, theirs in zip(parts, unclipped, strict=True)) > 0.02
    # a document is an image, not a caption
    each_caption = DocumentFrequencies.of(
        [caption] for prediction in predictions for caption in prediction.references
    )
    by_image = DocumentFrequencies.of(prediction.references for prediction in predictions)
    assert by_image.frequency["dog",] == 1 < each_caption.frequency["dog",] == 2
    assert metric.documents == by_image
    metric.documents = each_caption
    assert [*metric.measure(predictions)] != pytest.approx(parts, rel=0.01)
    # the nearest reference, not the shortest
    statistics = [*built(CaptionBleuConfig(), predictions).measure(predictions)]
    assert [each[:2] for each in statistics] == [[4, 4], [3, 2], [2, 3]]
    # precision is clipped by the reference that has the word most often, recall and precision are the best of any
    assert statistics[0][6] == 2


def test_words_may_be_weighed_by_another_split():
    documents = {"valid": [[*prediction.references] for prediction in cell(30, seed=4)]}
    info = TaskInfo(["<stop>"], extras={"documents": documents})
    config = CiderDConfig(documents="valid")
    metric = config.load()(config).prepare(info, {each.id: each.references for each in CELL})
    assert "documents:valid of 30 images" in metric.signature
    assert metric.combine([*metric.measure(CELL)]) != pytest.approx(score(CiderDConfig(), CELL), rel=1e-6)
    assert [*metric.measure(CELL[:1])] == [*metric.measure(CELL)][:1]
    with pytest.raises(SuiteError, match=r"Set `documents: \[train\]` in the task"):
        built(CiderDConfig(documents="train"), CELL)


def test_one_image_says_nothing_of_what_is_rare():
    with pytest.raises(SuiteError, match="with the references of one image all scores are 0"):
        score(CiderDConfig(), CELL[:1])


def test_a_text_too_long_to_align_is_named():
    with pytest.raises(
        SuiteError, match=r"example 7 has 2,000 words and a reference of 2,001\. Decode with a smaller"
    ):
        score(RougeLConfig(), [Prediction(7, references=["b " * 2001], texts=["a " * 2000])])


@pytest.mark.parametrize("config", QUICK[3:], ids=lambda config: config.name)
def test_an_example_without_references_is_refused(config):
    with pytest.raises(SuiteError, match=r"1 of 1 examples have no reference, .* example 0\. Leave this metric out"):
        [*config.load()(config).measure([Prediction(0, texts=["a"])])]
