from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import exp, log
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench_language_modeling import corpus, cpython
from bench_language_modeling.diagnostics import entropy, optimum, stationary, transitions
from bench_language_modeling.english import WORDS
from bench_language_modeling.settings import Corpus, Markov
from bench_text.api import SPLITS


def generated(tmp_path, **settings):
    return corpus.text(TypeAdapter(Corpus).validate_python(settings), tmp_path)


def stream(text, split="train"):
    return " ".join(text.read(split)).split()


def cost(stream, state):
    """The nats a token, in hindsight, of a model that knows `state(place)` before each token."""
    pairs = Counter((state(place), stream[place]) for place in range(len(stream)))
    totals = Counter(state(place) for place in range(len(stream)))
    return -sum(n * log(n / totals[before]) for (before, _), n in pairs.items()) / len(stream)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_markov_streams_entropy_is_the_cost_of_knowing_the_last_token(tmp_path, seed):
    text = generated(tmp_path, name="markov", states=3, tokens=100_000, seed=seed)
    tokens = stream(text)
    assert cost(tokens, lambda place: tokens[place - 1]) == pytest.approx(text.nats["train"] / len(tokens), rel=0.04)
    assert cost(tokens, lambda place: None) > 1.1 * text.nats["train"] / len(tokens)


def test_a_chain_stays_in_its_stationary_distribution():
    chain = transitions(Markov(name="markov", states=7, seed=3))
    weights = stationary(chain)
    assert sum(weights) == pytest.approx(1)
    assert [sum(w * row[s] for w, row in zip(weights, chain, strict=True)) for s in range(7)] == pytest.approx(
        weights
    )
    assert all(sum(row) == pytest.approx(1) for row in chain)


@pytest.mark.parametrize("successors", [1, 2, 5, 29])
def test_a_chain_may_have_few_successors_and_still_reach_every_state(successors):
    chain = transitions(Markov(name="markov", states=30, successors=successors))
    assert [sum(p > 0 for p in row) for row in chain] == [successors] * 30
    assert [sum(row) for row in chain] == pytest.approx([1] * 30)
    assert min(stationary(chain)) > 0
    assert all(row[(state + 1) % 30] > 0 for state, row in enumerate(chain))


def test_a_chain_cannot_have_more_successors_than_other_states():
    with pytest.raises(ValueError, match=r"`successors` must be less than `states` \(5\), not 5"):
        Markov(name="markov", states=5, successors=5)


def test_the_chain_of_the_codes_suite_has_the_perplexity_that_its_claims_name():
    suite = (Path(__file__).parents[3] / "suites" / "ecoc" / "known-entropy.yaml").read_text()
    chain = Markov(name="markov", states=199, successors=4, length=20_000, tokens=200_000)
    nats = optimum(chain, 20_000) / 20_000
    assert "{name: markov, states: 199, successors: 4, length: 20000, tokens: 200000}" in suite
    named = set(re.findall(r"1\.05 \* ([0-9.]+)", suite))
    assert [float(each) for each in named] == [pytest.approx(exp(nats), abs=0.001)]


def test_splits_of_a_chain_share_its_transitions_and_differ(tmp_path):
    text = generated(tmp_path, name="markov", states=3, tokens=100_000)
    assert text.read("valid") != text.read("test")
    after = {}
    for split in ("train", "test"):
        tokens = stream(text, split)
        pairs = Counter(pairwise(tokens))
        after[split] = pairs["s0", "s1"] / tokens.count("s0")
    assert after["train"] == pytest.approx(after["test"], abs=0.03)


def test_a_lag_stream_costs_its_entropy_to_one_who_remembers_and_all_to_one_who_does_not(tmp_path):
    text = generated(tmp_path, name="lag", states=4, lag=6, fresh=0.2, tokens=50_000)
    tokens = stream(text)
    assert cost(tokens, lambda place: tokens[place - 6]) == pytest.approx(text.nats["train"] / len(tokens), rel=0.02)
    assert cost(tokens, lambda place: tokens[place - 5]) == pytest.approx(log(4), rel=0.01)


def test_a_lag_stream_without_fresh_tokens_repeats_itself(tmp_path):
    tokens = stream(generated(tmp_path, name="lag", lag=6, fresh=0, tokens=600))
    assert all(tokens[place] == tokens[place - 6] for place in range(6, 600))


def test_a_cycle_costs_nothing(tmp_path):
    text = generated(tmp_path, name="cycle", states=3, tokens=90, length=45)
    assert stream(text) == ["s0", "s1", "s2"] * 30
    assert set(text.nats.values()) == {0}


def test_a_copy_line_says_everything_twice(tmp_path):
    text = generated(tmp_path, name="copy", length=4, tokens=900)
    for line in text.read("train"):
        first, second = line.split(" | ")
        assert first == second
        assert len(first.split()) == 4
    assert len(text.read("train")) == 100
    assert text.nats["train"] == pytest.approx(100 * 4 * log(10))


def test_the_optimum_is_never_above_uniform_guessing():
    parse = TypeAdapter(Corpus).validate_python
    for name in ("markov", "lag", "copy", "cycle"):
        assert optimum(parse({"name": name, "states": 6}), 1000) <= 1000 * log(6)
    assert entropy([0.5, 0.5, 0.0]) == pytest.approx(log(2))


@pytest.mark.parametrize("name", ["english", "markov", "lag", "copy"])
def test_a_seed_decides_the_text(tmp_path, name):
    size = {"sentences": 50} if name == "english" else {"tokens": 500}
    texts = [[generated(tmp_path, name=name, seed=seed, **size).read(s) for s in SPLITS] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert corpus.reads(TypeAdapter(Corpus).validate_python(name), tmp_path) == {}


def test_english_sentences_vary_and_their_verbs_agree(tmp_path):
    text = generated(tmp_path, name="english", sentences=2000)
    lines = text.read("train")
    lengths = [len(line.split()) for line in lines]
    assert min(lengths) < 5
    assert max(lengths) > 25
    assert all(line.endswith((" .", " ?")) for line in lines)
    plain = [line.split() for line in lines if line.startswith(("the ", "every ")) and len(line.split()) == 4]
    assert plain
    for _, noun, verb, _ in plain:
        assert noun.endswith("s") != verb.endswith("s")


def test_english_words_follow_zipfs_law(tmp_path):
    counts = Counter(stream(generated(tmp_path, name="english", sentences=5000)))
    nouns = [counts[noun] + counts[noun + "s"] for noun in WORDS["nouns:"]]
    assert nouns[0] / nouns[1] == pytest.approx(2, rel=0.15)
    assert nouns[0] / nouns[9] == pytest.approx(10, rel=0.15)


def test_paragraphs_of_prose_are_kept_and_code_is_not():
    prose = """Open the file's “first” page, then look at os.path_like and
go on reading it 3 times.

    x = indented(code)

Call it so:

>>> it()

rule ::= one two three four

(a, b=1, *, c=2)

Two words"""
    assert list(cpython.paragraphs(prose)) == [
        'Open the file\'s " first " page , then look at os . path _ like and go on reading it 3 times .',
        "Call it so :",
    ]


CODE = """'Module.'
def f():
    '''Function.

    More.
    '''
    x = 'no'
class C:
    'Class.'
"""


def test_documents_are_docstrings_and_topics_and_their_files_decide_the_digest(tmp_path, monkeypatch):
    code, topics = tmp_path / "a.py", tmp_path / "topics.py"
    code.write_text(CODE)
    topics.write_text("topics = {'b': 'Second.', 'a': 'First.'}\n")
    monkeypatch.setattr(cpython, "sources", lambda: [("a.py", code), (cpython.TOPICS, topics)])
    assert list(cpython.documents()) == [
        ("a.py", "Module.\n\nFunction.\n\nMore.\n\nClass."),
        ("a", "First."),
        ("b", "Second."),
    ]
    before = cpython.digest.__wrapped__()
    code.write_text(CODE.replace("Class", "class"))
    assert cpython.digest.__wrapped__() != before


def test_no_tests_and_no_tables_are_read():
    names = [set(name.split("/")) for name, _ in cpython.sources()]
    assert not any(name & {"test", "tests", "encodings", "site-packages"} for name in names)


def test_a_paragraph_that_stands_in_two_documents_is_taken_once(monkeypatch):
    documents = [(f"{number}.py", f"All say this.\n\nOnly {number} says that.") for number in range(50)]
    monkeypatch.setattr(cpython, "documents", lambda: iter(documents))
    lines = [line for split in SPLITS for line in cpython.text().read(split)]
    assert len(lines) == 51
    assert lines.count("All say this .") == 1


def test_a_document_is_in_one_split_and_most_are_for_training():
    names = [f"module_{number}.py" for number in range(2000)]
    shares = Counter(map(cpython.split, names))
    assert set(shares) == set(SPLITS)
    assert all(120 < shares[split] < 300 for split in ("valid", "test"))
    assert cpython.split("os.py") == cpython.split("os.py")


def test_little_documentation_gives_way_to_generated_english_with_a_notice(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(cpython, "documents", lambda: iter([("a.py", "Only a few words are here.")]))
    text = generated(tmp_path, name="cpython-docs")
    assert text.name.startswith("english")
    assert "fewer than 100,000" in text.notice
    assert text.notice in caplog.text


@pytest.mark.slow
def test_the_docs_of_this_python_prepare_and_share_no_paragraph_between_splits(tmp_path):
    text = generated(tmp_path, name="cpython-docs")
    if text.notice:
        pytest.skip("this Python has too few docstrings")
    lines = [set(text.read(split)) for split in SPLITS]
    assert sum(map(len, lines)) == len(set.union(*lines))
    assert text.name == f"cpython-docs {cpython.VERSION} ({cpython.digest()[:8]})"
