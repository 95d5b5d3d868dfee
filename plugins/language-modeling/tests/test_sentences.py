"""Paragraphs are cut into sentences, and no word is changed."""

from __future__ import annotations

import pytest

from bench_language_modeling.sentences import SPLITTERS, by_rule, by_spacy

PARAGRAPH = 'he said , " stop ! " and left . who ? <unk> did ( it ) .'


@pytest.mark.parametrize("name", SPLITTERS)
def test_no_splitter_changes_or_loses_a_word(name):
    paragraphs = [PARAGRAPH, "no end", ". . .", "one"]
    assert " ".join(SPLITTERS[name](paragraphs)) == " ".join(paragraphs)


def test_the_rule_cuts_after_every_end():
    assert list(by_rule([PARAGRAPH])) == ['he said , " stop !', '" and left .', "who ?", "<unk> did ( it ) ."]


def test_spacy_keeps_the_quote_with_the_sentence_before():
    assert list(by_spacy([PARAGRAPH])) == ['he said , " stop ! "', "and left .", "who ?", "<unk> did ( it ) ."]
