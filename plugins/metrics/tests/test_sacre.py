from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from pydantic import ValidationError
from sacrebleu.metrics import BLEU, CHRF, TER

from bench_core import PluginError, Prediction, SuiteError, TaskInfo
from bench_metrics.plugin import BleuConfig, ChrfConfig, TerConfig
from bench_metrics.sacre import Bleu, Chrf, Ter

INFO = TaskInfo(["<stop>"])
TEXT = "The the cat cats sat on a mat, mat. in Rome; It's 3.5% of “it” Straße — naïve (or not)? 東京 です。"
WORDS = TEXT.split()


def sentences(seed, count, shortest=0):
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randrange(shortest, 15))) for _ in range(count)]


def cell(seed=1, count=60, streams=2):
    """Return examples whose texts are their references with some words exchanged."""
    references = [sentences(seed + stream, count, shortest=1) for stream in range(streams)]
    dice, predictions = random.Random(seed), []
    for number, accepted in enumerate(zip(*references, strict=True)):
        words = [word if dice.random() < 0.7 else dice.choice(WORDS) for word in dice.choice(accepted).split()]
        predictions.append(Prediction(number, references=list(accepted), texts=[" ".join(words)]))
    return predictions


def prediction(text, *references):
    return Prediction(7, references=list(references), texts=[text])


def score(metric, predictions):
    return metric.combine([*metric.measure(predictions)])


def prepared(metric, predictions):
    return metric.prepare(INFO, {prediction.id: prediction.references for prediction in predictions})


def command_line(folder, predictions, *options):
    """Return what `python -m sacrebleu` says of the texts and references, written to files."""
    streams = [[each.texts[0] for each in predictions], *zip(*(each.references for each in predictions), strict=True)]
    names = ["hyp", *(f"ref{number}" for number in range(1, len(streams)))]
    for name, lines in zip(names, streams, strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *names[1:], "-i", "hyp", "-m", "bleu", "chrf", "ter"]
    done = subprocess.run([*command, "-w", "12", *options], cwd=folder, capture_output=True, check=True)
    return [(row["score"], row["signature"]) for row in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("options", "metrics"),
    [
        ("", [BleuConfig(), ChrfConfig(), TerConfig()]),
        (
            "-lc -tok intl -s floor -sv 0.2 -cw 2 --chrf-lowercase --ter-normalized --ter-no-punct --ter-case-sensitive",
            [
                BleuConfig(lowercase=True, tokenize="intl", smooth="floor", smooth_value=0.2),
                ChrfConfig(word_order=2, lowercase=True),
                TerConfig(normalized=True, no_punct=True, case_sensitive=True),
            ],
        ),
        pytest.param(
            "-tok ja-mecab -s add-k -cc 4 --chrf-whitespace --chrf-eps-smoothing --ter-normalized --ter-asian-support",
            [
                BleuConfig(tokenize="ja-mecab", smooth="add-k"),
                ChrfConfig(char_order=4, whitespace=True, eps_smoothing=True),
                TerConfig(normalized=True, asian_support=True),
            ],
            marks=pytest.mark.extra("bench-metrics", "japanese"),
        ),
    ],
    ids=["defaults", "settings", "Japanese"],
)
def test_scores_and_signatures_are_those_of_the_command_line(tmp_path, options, metrics):
    predictions = cell()
    theirs = command_line(tmp_path, predictions, *options.split())
    for config, (value, signature) in zip(metrics, theirs, strict=True):
        metric = prepared(config.load()(config), predictions)
        assert score(metric, predictions) == pytest.approx(value, abs=1e-9)
        assert metric.signature == signature
        assert 0 < value < 100


@pytest.mark.parametrize(
    ("config", "scorer"),
    [
        (BleuConfig(), BLEU()),
        (BleuConfig(max_order=2, effective_order=True), BLEU(max_ngram_order=2, effective_order=True)),
        (BleuConfig(smooth="add-k"), BLEU(smooth_method="add-k")),
        (ChrfConfig(), CHRF()),
        (ChrfConfig(word_order=2, beta=1), CHRF(word_order=2, beta=1)),
        (TerConfig(), TER()),
    ],
    ids=["bleu", "bleu-2", "bleu-add-k", "chrf", "chrf++", "ter"],
)
def test_any_sample_scores_as_sacrebleu_scores_its_corpus(config, scorer):
    predictions = [
        Prediction(each.id, references=each.references[: 1 + each.id % 3], texts=each.texts)  # one, two or three
        for each in cell(streams=3)
    ]
    metric = config.load()(config)
    parts = [*metric.measure(predictions)]
    dice = random.Random(5)
    for size in (1, 3, len(predictions), 200):
        drawn = dice.choices(range(len(predictions)), k=size)
        sample = [predictions[number] for number in drawn]
        streams = [[(each.references + [None] * 3)[place] for each in sample] for place in range(3)]
        whole = scorer.corpus_score([each.texts[0] for each in sample], streams).score
        assert metric.combine([parts[number] for number in drawn]) == pytest.approx(whole, rel=1e-12)


def test_a_text_that_is_its_reference_is_perfect():
    same = prediction("a cat sat here", "a dog ran away", "a cat sat here")
    assert score(Bleu(BleuConfig()), [same]) == pytest.approx(100)
    assert score(Chrf(ChrfConfig()), [same]) == pytest.approx(100)
    assert score(Ter(TerConfig()), [same]) == 0


@pytest.mark.parametrize(("order", "value"), [(1, 65.4985), (2, 63.4186), (3, 47.8797)])
def test_bleu_is_the_geometric_mean_of_clipped_precisions(order, value):
    metric = Bleu(BleuConfig(max_order=order, smooth="none"))
    assert score(metric, [prediction("A B B C D", "A B C D E F")]) == pytest.approx(value, abs=1e-4)


def test_bleu_without_any_longest_match_is_zero_unless_smoothed():
    example = [prediction("A B B C D", "A B C D E F")]
    assert score(Bleu(BleuConfig(smooth="none")), example) == 0
    assert score(Bleu(BleuConfig()), example) > 10


def test_chrf_and_ter_by_hand():
    assert score(Chrf(ChrfConfig(char_order=1)), [prediction("ab", "ac")]) == pytest.approx(50)
    one_shift, one_word_too_many = prediction("b c d a", "a b c d"), prediction("a b x", "a b")
    assert score(Ter(TerConfig()), [one_shift]) == 25
    assert score(Ter(TerConfig()), [one_shift, one_word_too_many]) == pytest.approx(100 * 2 / 6)


def test_empty_texts_and_references_have_scores():
    empty = [prediction("", "a b c d"), prediction("a", ""), prediction("", "")]
    assert score(Bleu(BleuConfig()), empty) == 0
    assert score(Chrf(ChrfConfig()), empty) == 0
    assert score(Ter(TerConfig()), empty) == 125


@pytest.mark.extra("bench-metrics", "japanese")
def test_japanese_is_cut_into_words():
    metric = Bleu(BleuConfig(tokenize="ja-mecab"))
    (part,) = [*metric.measure([prediction("私は東京に住んでいます。", "彼は東京に住んでいます。")])]
    assert part[0] == 9
    assert "tok:ja-mecab-" in metric.signature
    assert metric.combine([part]) == pytest.approx(100 * (8 / 9 * 7 / 8 * 6 / 7 * 5 / 6) ** 0.25)


def test_japanese_without_mecab_is_an_error_that_says_what_to_install():
    code = """
import sys
sys.modules["MeCab"] = None
from bench_core import SuiteError
from bench_metrics.plugin import BleuConfig
config = BleuConfig(tokenize="ja-mecab")
try:
    config.load()(config)
except SuiteError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "`tokenize: ja-mecab` needs MeCab" in done.stdout
    assert "pip install 'sacrebleu[ja]'" in done.stdout


def test_the_signature_tells_all_that_changes_the_score():
    predictions = cell(count=3)
    unequal = [*predictions, prediction("a", "b")]
    signatures = [
        prepared(Bleu(BleuConfig()), predictions).signature,
        prepared(Bleu(BleuConfig()), unequal).signature,
        Bleu(BleuConfig()).signature,
        Bleu(BleuConfig(max_order=2)).signature,
        Bleu(BleuConfig(effective_order=True)).signature,
        Chrf(ChrfConfig()).signature,
        Chrf(ChrfConfig(beta=3)).signature,
        Ter(TerConfig()).signature,
    ]
    assert len(set(signatures)) == len(signatures)
    assert signatures[0].startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert signatures[1].startswith("nrefs:var|")


def test_a_smoothing_value_without_use_is_refused():
    with pytest.raises(ValidationError, match="has no effect with `smooth: exp`"):
        BleuConfig(smooth_value=0.5)


def test_tokenizers_that_download_are_refused():
    with pytest.raises(ValidationError, match="tokenize"):
        BleuConfig(tokenize="flores200")


def test_examples_without_reference_or_text_are_errors():
    bare, mute = Prediction(3, texts=["a"]), Prediction(4, references=["a"])
    with pytest.raises(SuiteError, match="1 of 2 examples have no reference, the first being example 3"):
        score(Bleu(BleuConfig()), [prediction("a", "b"), bare])
    with pytest.raises(PluginError, match="1 of 2 examples have no text, the first being example 4"):
        score(Ter(TerConfig()), [prediction("a", "b"), mute])
