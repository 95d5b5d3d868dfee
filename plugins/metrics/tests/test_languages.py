"""Metrics of words go by the language of targets, or refuse it."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER

from bench_core import MetricConfig, Prediction, SuiteError, TaskConfig, TaskInfo
from bench_metrics.plugin import (
    BleuConfig,
    ChrfConfig,
    ExactMatchConfig,
    MeteorConfig,
    NotesBleuConfig,
    PerplexityConfig,
    RibesConfig,
    TerConfig,
)

japanese = pytest.mark.extra("bench-metrics", "japanese")
JAPANESE = ["京都は日本の古い都である。", "彼は東京に行きました。", "猫が庭で眠っている。"]
ENGLISH = {
    "references": ["A cat sleeps here.", "He went to Kyoto.", "Yes."],
    "texts": ["A cat sleeps.", "He is gone.", "No."],
}
SAID = ["京都は日本の都である。", "彼女は東京に行った。", "犬が庭で眠っている。"]


class Translated(TaskConfig):
    """A task whose targets are in a language."""

    name, target = "translated", "nowhere:Nothing"
    into: str | None = None
    apart: bool = False

    @property
    def language(self) -> str | None:
        return self.into

    @property
    def tokenized(self) -> bool:
        return self.apart


def predictions(texts=SAID, references=JAPANESE):
    rows = zip(texts, references, strict=True)
    return [Prediction(number, references=[reference], texts=[text]) for number, (text, reference) in enumerate(rows)]


def prepared(config, language=None, tokenized=False, texts=SAID, references=JAPANESE):
    rows = predictions(texts, references)
    info = TaskInfo(["<stop>"], language=language, tokenized=tokenized)
    metric = config.load()(config).prepare(info, {row.id: row.references for row in rows})
    return metric, rows


def measured(config, language=None, tokenized=False, **lines):
    metric, rows = prepared(config, language, tokenized, **lines)
    return metric.combine([*metric.measure(rows)]), metric.signature


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        (None, "13a"), ("en", "13a"), ("de", "13a"), ("art", "13a"), ("tr", "13a"),
        pytest.param("ja", "ja-mecab", marks=japanese), pytest.param("jpn", "ja-mecab", marks=japanese), ("zh", "zh"), ("cmn", "zh"), ("zho", "zh"), ("yue", "zh"),
    ],
)  # fmt: skip
def test_bleu_takes_the_tokenizer_that_sacrebleu_takes_for_the_language(language, tokenizer):
    lines = {"texts": SAID, "references": JAPANESE} if language else ENGLISH
    score, signature = measured(BleuConfig(), language, **lines)
    expected = BLEU(tokenize=tokenizer, trg_lang="")
    assert score == pytest.approx(expected.corpus_score(lines["texts"], [lines["references"]]).score, rel=1e-12)
    assert f"|tok:{expected.get_signature().info['tok']}|" in signature


def test_of_text_that_no_language_is_known_of_signatures_are_as_ever():
    for language in (None, "en", "de", "fr"):
        for config in (BleuConfig(), BleuConfig(tokenize="13a")):
            _, signature = measured(config, language, **ENGLISH)
            assert signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{signature.split(':')[-1]}"
        assert "|norm:no|punct:yes|asian:no|" in measured(TerConfig(), language, **ENGLISH)[1]
        assert "|tok:13a|" in measured(RibesConfig(), language, **ENGLISH)[1]
    signatures = [prepared(MeteorConfig(), language, **ENGLISH)[0].signature for language in (None, "en")]
    assert signatures == ["nrefs:1|lang:en|match:exact+stem+synonym+paraphrase|tok:meteor|case:lc|version:1.5"] * 2


def test_a_language_that_no_tokenizer_knows_is_refused_unless_by_character():
    for config in (BleuConfig(), RibesConfig(), MeteorConfig()):
        assert "set `tokenize: char`" in (config.refusal(Translated(into="th")) or "")
        with pytest.raises(SuiteError, match="tokenize: char"):
            prepared(config, "th")
    assert measured(BleuConfig(tokenize="char"), "th")[0] > 0


@pytest.mark.parametrize("tokenize", ["13a", "intl", "none"])
@pytest.mark.parametrize("language", ["ja", "zh", "jpn", "th"])
@pytest.mark.parametrize("config", [BleuConfig, RibesConfig])
def test_a_tokenizer_by_spaces_is_refused_where_words_have_none_between_them(config, language, tokenize):
    asked = config(tokenize=tokenize)
    assert "needs spaces between words" in (asked.refusal(Translated(into=language)) or "")
    with pytest.raises(SuiteError, match="needs spaces between words"):
        prepared(asked, language)
    assert asked.refusal(Translated(into=language, apart=True)) is None  # where the corpus sets them apart
    assert prepared(asked, language, tokenized=True)
    assert asked.refusal(Translated(into="ko")) is None
    assert asked.refusal(Translated()) is None


def test_where_a_corpus_sets_tokens_apart_they_are_the_words():
    assert "|tok:13a|" in measured(BleuConfig(), "ja", tokenized=True)[1]


def test_ter_splits_what_has_no_spaces():
    score, signature = measured(TerConfig(), "ja")
    expected = TER(normalized=True, asian_support=True).corpus_score(SAID, [JAPANESE]).score
    assert score == pytest.approx(expected, rel=1e-12)
    assert "|norm:yes|punct:yes|asian:yes|" in signature
    assert TerConfig(normalized=False).refusal(Translated(into="ja"))
    assert TerConfig().refusal(Translated(into="th"))
    assert TerConfig().refusal(Translated(into="ja")) is None
    assert TerConfig(normalized=False).refusal(Translated(into="en")) is None


@pytest.mark.parametrize(
    ("refused", "taken"),
    [
        (ChrfConfig(word_order=2), ChrfConfig()),
        (NotesBleuConfig(), NotesBleuConfig(tokens="characters")),
        (PerplexityConfig(unit="word"), PerplexityConfig()),
        (BleuConfig(tokenize="13a"), ExactMatchConfig()),
    ],
)
def test_what_counts_words_between_spaces_refuses_languages_without_them(refused, taken):
    assert refused.refusal(Translated(into="ja"))
    for task in (Translated(into="en"), Translated(), Translated(into="ja", apart=True)):
        assert refused.refusal(task) is None
    assert taken.refusal(Translated(into="ja")) is None


@pytest.mark.parametrize(
    ("settings", "language", "beginning"),
    [
        ({}, "de", "lang:de|match:exact+stem|tok:meteor|"),
        ({}, "deu", "lang:de|match:exact+stem|tok:meteor|"),
        ({}, "ro", "lang:ro|match:exact+stem|tok:13a|"),
        pytest.param({}, "ja", "lang:other|match:exact|tok:ja-mecab", marks=japanese),
        ({}, "art", "lang:other|match:exact|tok:13a|"),
        ({"language": "other"}, "en", "lang:other|match:exact|tok:13a|"),
        pytest.param({"language": "other"}, "ja", "lang:other|match:exact|tok:ja-mecab", marks=japanese),
        ({"language": "de"}, None, "lang:de|match:exact+stem|tok:meteor|"),
    ],
)
def test_meteor_takes_the_language_of_targets(settings, language, beginning):
    lines = {} if language else ENGLISH
    assert prepared(MeteorConfig(**settings), language, **lines)[0].signature.startswith(f"nrefs:1|{beginning}")


@pytest.mark.parametrize(
    ("settings", "language", "reason"),
    [
        ({"language": "en"}, "ja", "is not the target language, 'ja'"),
        ({"language": "en"}, "de", "is not the target language, 'de'"),
        ({"language": "other", "tokenize": "13a"}, "ja", "needs spaces between words"),
        ({"tokenize": "meteor"}, "ja", "no tokenizer for 'ja'"),
    ],
)
def test_meteor_refuses_another_language_than_that_of_targets(settings, language, reason):
    config = MeteorConfig(**settings)
    assert reason in (config.refusal(Translated(into=language)) or "")
    with pytest.raises(SuiteError, match=reason):
        prepared(config, language)


def test_other_metrics_take_every_task():
    assert MetricConfig.refusal(ExactMatchConfig(), Translated(into="ja")) is None


WORDS = [
    BleuConfig(), BleuConfig(tokenize="13a"), BleuConfig(tokenize="none"), RibesConfig(), ChrfConfig(word_order=2),
    TerConfig(), NotesBleuConfig(), PerplexityConfig(unit="word"), MeteorConfig(), MeteorConfig(language="en"),
]  # fmt: skip
LETTERS = [
    BleuConfig(tokenize="char"), BleuConfig(tokenize="zh"), ChrfConfig(), NotesBleuConfig(tokens="characters"),
    PerplexityConfig(), ExactMatchConfig(), RibesConfig(tokenize="char"),
]  # fmt: skip
UNSPACED = {
    "Japanese": JAPANESE, "Chinese": ["我喜欢这只猫。", "他去了北京。", "今天天气很好。"],
    "Thai": ["แมวนอนอยู่ในสวน", "เขาไปกรุงเทพ", "วันนี้อากาศดี"], "Khmer": ["ឆ្មាដេកក្នុងសួន", "គាត់ទៅភ្នំពេញ", "ថ្ងៃនេះល្អ"],
    "Burmese": ["ကြောင်အိပ်နေသည်", "သူရန်ကုန်သို့သွားသည်", "ဒီနေ့ရာသီဥတုကောင်းသည်"], "Lao": ["ແມວນອນຢູ່ໃນສວນ", "ລາວໄປວຽງຈັນ", "ມື້ນີ້ອາກາດດີ"],
    "half Japanese": [*JAPANESE[:2], "A cat sleeps in the garden, and a dog runs."], "half-width": ["ｶﾀｶﾅ ﾃﾞｽ", "ﾈｺ", "ｲﾇ"],
}  # fmt: skip
SPACED = {
    "English": ["The cat sleeps.", "He went to Tokyo.", "ok"], "Korean": ["고양이가 정원에서 잔다.", "그는 갔다.", "좋다"],
    "Greek": ["Η γάτα κοιμάται.", "Πήγε.", "ναι"], "Hindi": ["बिल्ली सोती है।", "वह गया।", "हाँ"], "no letters": ["1 + 2", "", "3"],
    "names in Chinese": ["Kyoto (京都) is the old capital of Japan.", "He went to the city of Tokyo (東京).", "ok"],
}  # fmt: skip


def said(config, references, **known):
    return config.load()(config).prepare(
        TaskInfo(["<stop>"], **known), {n: [one] for n, one in enumerate(references)}
    )


@pytest.mark.quick(12)
@pytest.mark.parametrize("name", UNSPACED)
@pytest.mark.parametrize("config", WORDS, ids=repr)
def test_words_of_an_unnamed_language_without_spaces_are_refused(config, name):
    with pytest.raises(SuiteError, match=r"of letters of the references .*`--language`.*`--tokenized`"):
        said(config, UNSPACED[name])
    assert said(config, UNSPACED[name], tokenized=True)


@pytest.mark.parametrize("config", LETTERS, ids=repr)
def test_characters_of_an_unnamed_language_are_counted(config):
    assert said(config, JAPANESE)


@pytest.mark.quick(12)
@pytest.mark.parametrize("name", SPACED)
@pytest.mark.parametrize("config", WORDS, ids=repr)
def test_words_of_an_unnamed_language_with_spaces_are_counted(config, name):
    assert said(config, SPACED[name])


def test_a_named_language_is_believed():
    assert "tok:zh" in said(BleuConfig(), JAPANESE, language="zh").signature
    assert "tok:13a" in said(BleuConfig(), JAPANESE, language="en").signature
