"""Through the whole of bench: outputs are compared with the text of the corpus, in the language of targets."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

import bench_core
from bench_core import Prediction, Purpose, Size, SuiteError
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_language_modeling.api import lines
from bench_metrics.plugin import BleuConfig, ExactMatchConfig
from bench_translation.api import Both

COMPLETION = """
suite: tests/completion
title: Completion
tasks:
  words: {name: sequence-completion, corpus: {name: english, sentences: 400}, tokenizer: {min_count: 9}, prefix: 3}
  letters: {name: sequence-completion, corpus: {name: english, sentences: 400}, tokenizer: char, prefix: 3}
  pairs: {name: sequence-completion, corpus: {name: english, sentences: 400}, tokenizer: {kind: bpe, vocab_size: 300}, prefix: 3}
models:
  lstm: {name: rnn-lm, cell: lstm, hidden: 32, layers: 1}
decoders:
  greedy: {name: greedy}
metrics:
  bleu: {name: bleu}
training: {updates: 60, lr: 2e-2, batch_size: 32, select: {metric: loss}}
limits: {max_tokens: 60}
hardware: {threads: 1, device: cpu}
tables:
  - {id: main, caption: Main, rows: [task], columns: [model], values: [bleu]}
"""


def ran(tmp_path, text):
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    assert [cell.reason for cell in run.cells if cell.status != "done"] == []
    return run


def stored(tmp_path, cell):
    return read_predictions(
        Store(tmp_path / "store").get("decode", cell.artifacts["decode"]).file("predictions.jsonl.gz")
    )


@pytest.mark.slow
def test_completion_bleu_of_a_run_is_that_of_sacrebleu_on_the_raw_lines(tmp_path):
    sentences = lines({"name": "english", "sentences": 400}, "test", tmp_path)
    run = ran(tmp_path, COMPLETION)
    for cell in run.cells:
        task, predictions = cell.cell["task"], stored(tmp_path, cell)
        texts = [prediction.texts[0] for prediction in predictions]
        if task == "words":
            references = [" ".join(line.split()[3:]) for line in sentences]
            assert any("\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}" in text for text in texts)
        elif task == "letters":
            references = [line[3:] for line in sentences]
        else:
            read = [prediction.prompt for prediction in predictions]
            references = [
                line.removeprefix(start).removeprefix(" ") for line, start in zip(sentences, read, strict=True)
            ]
            assert all(line.startswith(start) for line, start in zip(sentences, read, strict=True))
        number = cell.numbers["bleu"]
        assert number.value == pytest.approx(BLEU().corpus_score(texts, [references]).score, rel=1e-12), task
        assert number.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


CORPUS = {
    "train": [("ein Hund", "A Dog runs."), ("eine Katze", "The Cat sleeps!"), ("zwei Hunde", "Two Dogs, and Anna.")]
    * 3,
    "valid": [("ein Hund", "The Dog runs."), ("zwei Katzen", "Two Cats sleep.")],
    "test": [
        ("Hunde", "The Dog and the Cat, and Anna, sleep."),
        ("Katze", "A Cat runs!"),
        ("zwei", "Two Dogs sleep."),
    ],
}
FURTHER = ["A dog and a cat sleep, as does Anna.", "", "Two dogs are asleep."]
TRANSLATION = """
suite: tests/translation
title: Translation
tasks:
  lowered: &own
    name: translation
    pair: de-en
    lowercase: true
    corpus:
      train: {source: train.source, target: train.target}
      valid: {source: valid.source, target: valid.target}
      test: {source: test.source, target: test.target, references: [further.txt]}
  cased: {<<: *own, lowercase: false, tokenizer: {kind: bpe, vocab_size: 300}}
models:
  attention: {name: rnn-seq2seq, cell: gru, hidden: 32, layers: 1, attention: bilinear}
decoders:
  greedy: {name: greedy}
metrics:
  bleu: {name: bleu}
  chrf: {name: chrf}
  ter: {name: ter}
  ribes: {name: ribes}
  exact-match: {name: exact-match}
training: {updates: 40, lr: 1e-2, batch_size: 16, select: {metric: loss}}
limits: {max_tokens: 40}
hardware: {threads: 1, device: cpu}
tables:
  - {id: main, caption: Main, rows: [task], columns: [model], values: [bleu]}
"""


@pytest.fixture
def translations(tmp_path):
    for split, pairs in CORPUS.items():
        for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{split}.{side}").write_text("\n".join(texts) + "\n")
    (tmp_path / "further.txt").write_text("\n".join(FURTHER) + "\n")
    return tmp_path


@pytest.mark.slow
def test_several_references_reach_every_metric_and_bleu_is_that_of_sacrebleu(translations):
    first, second = [target for _, target in CORPUS["test"]], [line or None for line in FURTHER]
    for cell in ran(translations, TRANSLATION).cells:
        lowered = [[line and line.lower() for line in lines] for lines in (first, second)]
        streams = lowered if cell.cell["task"] == "lowered" else [first, second]
        predictions = stored(translations, cell)
        assert [one.references for one in predictions] == [
            [*filter(None, both)] for both in zip(*streams, strict=True)
        ]
        texts = [one.texts[0] for one in predictions]
        for name, scorer in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
            assert cell.numbers[name].value == pytest.approx(scorer.corpus_score(texts, streams).score, rel=1e-9), (
                name
            )
        signatures = {name: number.signature for name, number in cell.numbers.items()}
        begins = "nrefs:var|refs:lowercase|" if cell.cell["task"] == "lowered" else "nrefs:var|case:"
        assert all(signature.startswith(begins) for signature in signatures.values()), signatures


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("tokenizer", ["word", "char", {"kind": "bpe", "vocab_size": 300}])
def test_a_system_that_says_every_token_right_has_a_bleu_of_100_in_lower_case_too(translations, lowercase, tokenizer):
    text = TRANSLATION.replace("lowercase: true", f"lowercase: {str(lowercase).lower()}")
    (translations / "suite.yaml").write_text(text)
    config = (
        load(translations / "suite.yaml")
        .tasks["lowered"]
        .model_copy(update={"tokenizer": Both(source=tokenizer, target=tokenizer)})
    )
    folder = translations / "task"
    folder.mkdir()
    task = config.load()(config, folder)
    info = config.complete(task.prepare(translations))
    (batch,) = task.batches("train", Purpose.DECODE, Size(100))  # of which every word is known
    said = [
        task.text(gold[: length - 1]) for gold, length in zip(batch.gold.tolist(), batch.length.tolist(), strict=True)
    ]
    references = task.references("train")
    rows = zip(batch.ids.tolist(), said, strict=True)
    predictions = [Prediction(number, references=[*references[number]], texts=[text]) for number, text in rows]
    for config in (BleuConfig(), ExactMatchConfig()):
        metric = config.load()(config).prepare(info, references)
        assert metric.combine([*metric.measure(predictions)]) == pytest.approx(100)


JAPANESE = """
suite: tests/japanese
title: Japanese
tasks:
  kftt: {name: translation, corpus: kftt, pair: en-ja, tokenizer: {source: word, target: char}}
  enja: {name: translation, corpus: small_parallel_enja, pair: en-ja}
models:
  attention: {name: rnn-seq2seq, cell: gru, hidden: 32, layers: 1, attention: bilinear}
decoders:
  greedy: {name: greedy}
metrics:
  bleu: {name: bleu}
  meteor: {name: meteor}
  ter: {name: ter}
  ribes: {name: ribes}
training: {updates: 4, select: {metric: loss}}
tables:
  - {id: main, caption: Main, rows: [task], columns: [model], values: [bleu]}
"""


def checked(tmp_path, text):
    (tmp_path / "suite.yaml").write_text(text)
    suite = load(tmp_path / "suite.yaml")
    check_fit(suite, cells_of(suite))


def test_metrics_that_cannot_tell_the_words_of_a_task_s_language_are_refused_before_anything_is_trained(tmp_path):
    checked(tmp_path, JAPANESE)
    wrong = JAPANESE.replace("name: bleu}", "name: bleu, tokenize: 13a}").replace(
        "name: meteor}", "name: meteor, language: en}"
    )
    with pytest.raises(SuiteError) as error:
        checked(tmp_path, wrong)
    told = str(error.value)
    assert "2 of 2 cells cannot run" in told
    assert "kftt x bleu" in told
    assert "`tokenize: 13a` needs spaces between words, which 'ja' lacks: leave it out for `ja-mecab`" in told
    assert "enja x bleu" not in told  # whose tokens are set apart
    assert "kftt x meteor" in told
    assert "is not the target language, 'ja'" in told


OWN_JAPANESE = """
suite: tests/own-japanese
title: Japanese
tasks:
  own:
    name: translation
    pair: de-ja
    tokenizer: {source: word, target: char}
    corpus:
      train: {source: train.source, target: train.ja}
      valid: {source: valid.source, target: valid.ja}
      test: {source: test.source, target: test.ja}
models:
  attention: {name: rnn-seq2seq, cell: gru, hidden: 32, layers: 1, attention: bilinear}
decoders:
  greedy: {name: greedy}
metrics:
  bleu: {name: bleu}
  ribes: {name: ribes}
  ter: {name: ter}
training: {updates: 20, lr: 1e-2, batch_size: 16, select: {metric: loss}}
limits: {max_tokens: 40}
hardware: {threads: 1, device: cpu}
tables:
  - {id: main, caption: Main, rows: [task], columns: [model], values: [bleu]}
"""


@pytest.mark.extra("bench-metrics", "japanese")
def test_a_run_measures_by_the_language_that_the_task_tells(translations):
    for split, pairs in CORPUS.items():
        (translations / f"{split}.ja").write_text("犬が庭で眠っている。\n" * len(pairs), encoding="utf-8")
    (cell,) = ran(translations, OWN_JAPANESE).cells
    signatures = [cell.numbers[name].signature for name in ("bleu", "ribes", "ter")]
    assert all("tok:ja-mecab" in signature for signature in signatures[:2]), signatures
    assert "|norm:yes|punct:yes|asian:yes|" in signatures[2]
