from __future__ import annotations

import pytest

from bench_core import Prediction
from bench_metrics.notes_bleu import NotesBleu
from bench_metrics.plugin import NotesBleuConfig


def bleu(*pairs, **settings):
    metric = NotesBleu(NotesBleuConfig(**settings))
    predictions = [Prediction(7, references=list(references), texts=[text]) for text, *references in pairs]
    return metric.combine([*metric.measure(predictions)])


@pytest.mark.parametrize(
    ("prediction", "values"),
    [
        ("ABBCD", [0.732295, 0.681477, 0.594034, 0]),
        ("ABCDEF", [1, 1, 1, 1]),
        ("ABC", [0.367879, 0.367879, 0.367879]),
        ("ABCDEFG", [0.925820, 0.884568, 0.860236]),
    ],
)
def test_the_worked_example(prediction, values):
    for k, value in enumerate(values, 1):
        assert bleu((prediction, "ABCDEF"), k=k, tokens="characters") == pytest.approx(value, abs=1e-6)
        assert bleu((" ".join(prediction), "A B C D E F"), k=k) == pytest.approx(value, abs=1e-6)


def test_a_reference_is_matched_as_often_as_it_occurs():
    assert bleu(("AAAA", "AAB"), k=1, tokens="characters") == pytest.approx((2 / 4) ** 0.5)


def test_a_prediction_shorter_than_k_is_judged_by_the_ngrams_it_has():
    assert bleu(("AB", "AB"), k=4, tokens="characters") == 1
    assert bleu(("AB", "AC"), k=4, tokens="characters") == 0


def test_empty_texts_score_zero_whatever_the_reference():
    assert bleu(("", "AB")) == bleu(("", "")) == bleu(("AB", "")) == 0


def test_case_counts():
    assert bleu(("ab", "AB"), tokens="characters") == 0


def test_characters_include_blanks_and_words_do_not():
    assert bleu(("A  B", "A B"), k=2) == 1
    assert bleu(("A  B", "A B"), k=1, tokens="characters") == pytest.approx((3 / 4) ** 0.5)


def test_sentences_are_averaged_and_the_best_reference_counts():
    assert bleu(("A B", "X Y", "A B"), ("A B", "X Y")) == 0.5


def test_the_signature_tells_it_from_corpus_bleu():
    metrics = [NotesBleu(NotesBleuConfig(k=k, tokens=tokens)) for k in (3, 4) for tokens in ("words", "characters")]
    assert len({metric.signature for metric in metrics}) == 4
    assert all("exponents:1/2^m" in metric.signature for metric in metrics)
