"""`bench diff`: its tests against sacrebleu and scipy, and what it says of two cells."""

from __future__ import annotations

import json
import random
import sys
from itertools import pairwise

import bench_small.plugin
import numpy as np
import pytest
import scipy.stats
from bench_small.suites import SUITE
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

import bench_core
from bench_core import Additive, Metric, Prediction, registry
from bench_core.commands.main import main
from bench_core.runs.results import Score
from bench_metrics.plugin import BleuConfig
from bench_reports.content.contrasts import is_of_sacrebleu
from bench_reports.content.example_diff import mark_changes, quartiles
from bench_reports.content.outputs import cut
from bench_reports.diff.differences import _p_text
from bench_reports.statistics import permutation
from bench_reports.statistics.permutation import permutation_p_value

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "tree", "old", "new", "red", "house", "slept"]
CELLS = "model=one,decoder=argmax", "model=two,decoder=draw"


class Mean(Additive):
    better, unit, signature = 1, "", "mean"

    def measure(self, predictions):
        return [*predictions]

    def from_sums(self, sums, examples):
        return sums[0] / examples if examples else float("nan")


class Slow(Metric):
    better, unit, signature = 1, "", "mean"

    def measure(self, predictions):
        return [*predictions]

    def combine(self, parts):
        return sum(parts) / len(parts)


def p_of(*pairs, **settings):
    return permutation_p_value(Mean(None), pairs, **settings)


def sampled(size, mean=0.0, seed=0):
    return np.random.default_rng(seed).normal(mean, 1, size).tolist()


# the test


@pytest.mark.parametrize(
    ("p", "draws", "text"),
    [
        (1 / 1001, 1000, "≤ 0.001"),
        (2 / 1001, 1000, "0.002"),
        (1 / 10001, 10000, "≤ 0.0001"),
        (0.00042, 10000, "4.2e-04"),
        (0.00042, 0, "4.2e-04"),
        (0.5, 1000, "0.500"),
        (None, 1000, ""),
    ],
)
def test_the_least_p_value_of_some_draws_is_a_limit(p, draws, text):
    assert _p_text(p, draws) == text


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("nrefs:1|case:mixed|tok:13a|version:2.5.1", True),
        ("version:2", True),
        ("", False),
        ("prefix|subversion:2", False),
    ],
)
def test_sacrebleu_s_p_value_is_shown_of_its_own_metrics_alone(signature, shown):
    assert is_of_sacrebleu(Score(signature=signature)) == shown


def test_p_values_agree_with_sacrebleu_s_approximate_randomization():
    """Within the error of 1,000 exchanges, which are not the same ones: four standard errors of a share."""
    dice = random.Random(3)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(5, 20))) for _ in range(200)]
    outputs = [
        [" ".join(word if dice.random() < q else dice.choice(WORDS) for word in line.split()) for line in references]
        for q in (0.80, 0.80, 0.79, 0.77, 0.70)
    ]
    named = [(f"system {number}", texts) for number, texts in enumerate(outputs)]
    test = PairedTest(named, {"BLEU": BLEU()}, [references], test_type="ar", n_samples=1000)
    theirs = [one.p_value for one in test()[1]["BLEU"]][1:]
    metric = BleuConfig().load()(BleuConfig())
    several = [
        [*metric.measure([Prediction(i, references=[line], texts=[text]) for i, (line, text) in enumerate(pairs)])]
        for pairs in (zip(references, texts, strict=True) for texts in outputs)
    ]
    ours = [permutation_p_value(metric, [(several[0], parts)]) for parts in several[1:]]
    assert any(0.02 < p < 0.9 for p in theirs), "the case tells something"
    for p, other in zip(ours, theirs, strict=True):
        assert abs(p - other) < 4 * np.sqrt(max(other * (1 - other), 1 / 1000) * 2 / 1000) + 1e-3


def test_p_values_of_means_agree_with_all_permutations_of_scipy():
    for seed in range(4):
        ours, theirs = sampled(9, 0.7, seed), sampled(9, 0, 100 + seed)
        exact = scipy.stats.permutation_test(
            (ours, theirs),
            lambda one, other: np.mean(one) - np.mean(other),
            permutation_type="samples",
            n_resamples=np.inf,
        ).pvalue
        assert p_of((ours, theirs), draws=4000) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


def test_differences_that_are_equal_but_for_rounding_are_equal():
    """A win of one example is reached by every exchange, also where sums in another order differ in the last digit."""
    base = [0.1, 0.2, 0.3, 0.7, 1.1]
    assert p_of((base, [*base[:4], 2.3])) == 1
    assert p_of((base, base)) == 1


def test_a_clear_difference_has_the_smallest_p_value_that_so_many_draws_can_tell():
    assert p_of((sampled(50, 5), sampled(50, 0, 1)), draws=199) == 1 / 200


def test_metrics_that_combine_anew_have_the_p_values_of_those_that_are_summed():
    pair = sampled(30, 0.4), sampled(30, 0, 1)
    assert permutation_p_value(Slow(None), [pair], 300) == p_of(pair, draws=300)


def test_seeds_are_exchanged_together():
    """So that a seed which is like another tells nothing more."""
    pair = sampled(40, 0.4), sampled(40, 0, 1)
    assert p_of(pair, pair, pair) == p_of(pair)


def test_examples_of_a_block_are_exchanged_together():
    pair = sampled(40, 0.4), sampled(40, 0, 1)
    repeated = tuple(np.repeat(side, 5).tolist() for side in pair)
    assert p_of(repeated, block=5) == p_of(pair)
    assert p_of(repeated) < p_of(pair)


def test_exchanges_do_not_depend_on_how_many_are_worked_on_at_a_time(monkeypatch):
    pair = sampled(70, 0.3), sampled(70, 0, 1)
    whole = p_of(pair)
    monkeypatch.setattr(permutation, "MAX_EXCHANGES", 700)
    assert p_of(pair) == whole


def test_every_example_is_exchanged_half_of_the_time():
    chosen = np.concatenate([*permutation._exchanges(100, 1000, 1)])
    assert chosen.shape == (1001, 100)
    assert not chosen[0].any()
    assert abs(chosen[1:].mean(0) - 0.5).max() < 5 * np.sqrt(0.25 / 1000)


# words that differ


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("a cat sat", "a dog sat", "a [-cat-]{+dog+} sat"),
        ("a cat", "a cat sat", "a cat {+sat+}"),
        ("a b c", "b c", "[-a-] b c"),
        ("", "a b", "{+a b+}"),
        ("cat", "cut", "[-cat-]{+cut+}"),
        ("猫が好き", "犬が好き", "[-猫-]{+犬+}が好き"),
        ("a", "a", "a"),
    ],
)
def test_words_that_differ_are_marked(ours, theirs, found):
    assert mark_changes(ours, theirs) == found


def test_long_texts_are_cut():
    assert len(cut("x" * 10**6, 3000)) < 4000
    assert cut("x" * 10, 3000) == "x" * 10


def test_quartiles_are_lengths_that_there_are():
    assert quartiles([5, 1, 2, 3, 4, 6, 7, 8]) == [2, 4, 6]
    assert quartiles([3, 3, 3]) == [3, 3, 3]


# the command


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the small suite once for all tests, on words that are hostile to terminals."""
    folder = tmp_path_factory.mktemp("made")
    letters = ["\x1b", "\u202e", "b", "<"]
    words = ["".join(letters[: 1 + number % 4] * (1 + number % 2)) for number in range(60)]
    (folder / "words.txt").write_text(" ".join(words))
    (folder / "suite.yaml").write_text(SUITE.replace("{name: letters}", "{name: letters, file: words.txt}"))
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    return run.folder


@pytest.fixture
def diff(made, monkeypatch, capsys, small):
    def run(*words, code=0, folder=made, store=made.parents[1] / "store"):
        monkeypatch.setattr(sys, "argv", ["bench", "diff", str(folder), *words, "--store", str(store)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, errors = capsys.readouterr()
        assert stop.value.code == code, out + errors
        return out + errors

    return run


def rewritten(made, folder, change):
    """Copy a run with its cells changed."""
    folder.mkdir()
    for path in made.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    cells = [json.loads(line) for line in (made / "cells.jsonl").read_text().splitlines()]
    for cell in cells:
        change(cell)
    (folder / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    return folder


def numbers_of(made, model, decoder, metric):
    lines = map(json.loads, (made / "cells.jsonl").read_text().splitlines())
    chosen = [one for one in lines if (one["cell"]["model"], one["cell"]["decoder"]) == (model, decoder)]
    return [one["numbers"][metric]["value"] for one in chosen]


def test_values_are_means_over_the_seeds_of_the_run(diff, made):
    told = json.loads(diff(*CELLS, "--json"))
    assert told["a"]["seed"] == told["b"]["seed"] == [0, 1]
    for one in told["metrics"]:
        ours, theirs = (
            numbers_of(made, "one", "argmax", one["metric"]),
            numbers_of(made, "two", "draw", one["metric"]),
        )
        assert one["a"] == pytest.approx(np.mean(ours))
        assert one["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
        assert 0 < one["p_permutation"] <= 1
        assert 0 <= one["p"] <= 1
        low, high = one["interval"]
        assert low <= high
    ended, nats = told["metrics"]
    assert sum(ended["wins"].values()) == 20
    assert nats["wins"] is None, "its parts are pairs of numbers"
    one = json.loads(diff(f"{CELLS[0]},seed=1", CELLS[1], "--json"))
    assert one["metrics"][0]["a"] == numbers_of(made, "one", "argmax", "ended")[1]
    assert one["b"]["seed"] == [1]


def test_wins_are_as_many_as_outputs_that_alone_end(diff, made):
    """Of one seed, by the texts themselves."""
    told = json.loads(diff(f"{CELLS[0]},seed=0", f"{CELLS[1]},seed=0", "--json", "--examples", "100"))
    wins = told["metrics"][0]["wins"]
    by_score = [one for one in told["examples"] if one["a"] != one["b"]]
    assert wins["a"] == sum(one["a"] > one["b"] for one in by_score)
    assert wins["b"] == sum(one["a"] < one["b"] for one in by_score)
    assert wins["a"] + wins["b"] > 0


def test_turned_round_differences_change_their_sign_and_nothing_else(diff):
    there, back = (json.loads(diff(*cells, "--json"))["metrics"] for cells in (CELLS, CELLS[::-1]))
    for one, other in zip(there, back, strict=True):
        assert one["difference"] == -other["difference"]
        assert one["p_permutation"] == other["p_permutation"]
        assert one["p"] == pytest.approx(other["p"])
        assert one["wins"] is None or (one["wins"]["a"], one["wins"]["b"]) == (other["wins"]["b"], other["wins"]["a"])


def test_buckets_hold_every_example_once(diff):
    for edges, most in ((), 4), (("--buckets", "2,3"), 3):
        told = json.loads(diff(*CELLS, "--json", *edges))
        found = [one for one in told["buckets"] if one["metric"] == "ended"]
        assert sum(one["examples"] for one in found) == 20
        assert 1 < len(found) <= most
        assert all(one["last"] < other["first"] for one, other in pairwise(found))
    assert found[0]["last"] <= 2 < found[1]["first"] == found[1]["last"] == 3 < found[2]["first"]
    overall = sum(one["examples"] * one["a"] for one in found) / 20
    assert overall == pytest.approx(told["metrics"][0]["a"]), "`ended` is a mean over examples"


def test_examples_that_differ_most_come_first(diff):
    told = json.loads(diff(*CELLS, "--json", "--examples", "100", "--by", "nats"))
    apart = [abs(one["a"] - one["b"]) for one in told["examples"]]
    assert apart[0] == max(apart)
    assert all("marked" in one for one in told["examples"])
    assert len(json.loads(diff(*CELLS, "--json", "--examples", "2"))["examples"]) == 2


def test_a_terminal_is_shown_both_outputs_and_nothing_that_could_write_on_it(diff):
    text = diff(*CELLS)
    assert "A: words/one/argmax/test, seeds 0, 1" in text
    assert "p (permutation)" in text
    assert "A to B: " in text
    assert "[U+001B]" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_without_the_store_the_bootstrap_of_the_run_is_shown_and_the_reason(diff, tmp_path):
    text = diff(*CELLS, store=tmp_path / "none")
    assert "Compared without stored examples" in text
    assert str(tmp_path / "none") in text
    whole, alone = json.loads(diff(*CELLS, "--json")), json.loads(diff(*CELLS, "--json", store=tmp_path / "none"))
    for one, other in zip(whole["metrics"], alone["metrics"], strict=True):
        assert other["p"] == one["p"]
        assert other["p_permutation"] is None
    assert alone["examples"] == alone["buckets"] == []


def test_cells_of_different_examples_are_not_compared_by_pairs(diff, made, tmp_path):
    def change(cell):
        if cell["cell"]["model"] == "two":
            cell["numbers"]["ended"] |= {"sample": "others", "examples": 7}

    folder = rewritten(made, tmp_path / "run", change)
    ended, nats = json.loads(diff(*CELLS, "--json", folder=folder))["metrics"]
    assert "the examples differ" in ended["note"]
    assert ended["difference"] is not None
    assert ended["p"] is ended["p_permutation"] is None
    assert nats["p_permutation"] is not None
    assert "ended: not paired" in diff(*CELLS, folder=folder)


def test_runs_of_old_have_no_draws_and_are_compared_by_what_is_stored(diff, made, tmp_path):
    def change(cell):
        for number in cell["numbers"].values():
            number["sample"] = ""

    folder = rewritten(made, tmp_path / "run", change)
    (folder / "draws.safetensors").unlink()
    assert "ended, nats: not tested: the run stores no bootstrap replicates" in diff(*CELLS, folder=folder)
    for one in json.loads(diff(*CELLS, "--json", folder=folder))["metrics"]:
        assert one["p"] is None
        assert one["p_permutation"] is not None


def test_numbers_of_different_signatures_have_no_difference(diff, made, tmp_path):
    def change(cell):
        if cell["cell"]["model"] == "two":
            cell["numbers"]["ended"]["signature"] = "most:3"

    ended = json.loads(diff(*CELLS, "--json", folder=rewritten(made, tmp_path / "run", change)))["metrics"][0]
    assert ended["difference"] is None
    assert "signature: most:6, most:3" in ended["note"]


def test_a_metric_that_makes_another_number_of_what_it_kept_is_not_trusted(diff, made, tmp_path):
    def change(cell):
        cell["numbers"]["nats"]["value"] += 1

    told = json.loads(diff(*CELLS, "--json", folder=rewritten(made, tmp_path / "run", change)))
    assert told["metrics"][1]["p_permutation"] is None
    assert any("its code has changed" in note for note in told["notes"])


def test_seeds_that_failed_are_left_out(diff, made, tmp_path):
    def change(cell):
        if cell["cell"]["model"] == "two" and cell["cell"]["seed"] == 1:
            cell |= {"status": "failed", "reason": "out of luck", "numbers": {}}

    folder = rewritten(made, tmp_path / "run", change)
    assert json.loads(diff(*CELLS, "--json", folder=folder))["metrics"][0]["seeds"] == 1
    text = diff(f"{CELLS[0]},seed=1", f"{CELLS[1]},seed=1", folder=folder, code=2)
    assert "no metric has a number in both cells" in text
    assert "out of luck" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model=one", "model=two"), "Choose by decoder (argmax, draw)"),
        (("model=one,decoder=argmax", "model=one,decoder=argmax"), "the same cell, words/one/argmax/test, seed 0"),
        (("model=three,decoder=draw", CELLS[1]), "no model of these cells is called 'three'"),
        (("onee", CELLS[1]), "Did you mean 'one'?"),
        ((*CELLS, "--by", "nts"), "Did you mean 'nats'?"),
        ((*CELLS, "--buckets", "3,2"), "not an increasing list of lengths"),
        ((*CELLS, "--buckets", "x"), "not an increasing list of lengths"),
        ((*CELLS, "--draws", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_compared_is_told(diff, words, message):
    assert message in diff(*words, code=2)


def test_two_seeds_of_a_cell_can_be_compared(diff):
    told = json.loads(diff(f"{CELLS[1]},seed=0", f"{CELLS[1]},seed=1", "--json"))
    assert (told["a"]["seed"], told["b"]["seed"]) == ([0], [1])
    assert told["metrics"][0]["p_permutation"] is not None


def test_something_else_than_a_run_is_refused(diff, tmp_path):
    assert "is not a run" in diff(*CELLS, folder=tmp_path, code=2)
