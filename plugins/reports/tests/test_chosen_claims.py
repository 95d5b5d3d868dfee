"""Claims about what a choice has found: `v('bleu', model='l2r', chosen='width')`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_small.choices import GRID, RNN, cells_of, run_with
from bench_small.suites import SUITE

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.content.claims import judge
from bench_reports.content.tables import grids

WIDTH = {"id": "width", "decoders": {"best": ["greedy", "beam"]}, "by": "nats"}
RATES = {
    "greedy": {"base": [5.0, 5.1, 5.2], "other": [1.0, 1.1, 1.2]},
    "beam": {"base": [2.0, 2.2, 2.1], "other": [3.0, 3.2, 3.1]},
}


def run_of_decoders(tmp_path, expression, choose=WIDTH, better=1, rates=RATES):
    """Return a run in which beams are best for `base`, and greedy choice for `other`."""
    worth = {"greedy": {"base": [1.0] * 3, "other": [9.0] * 3}, "beam": {"base": [9.0] * 3, "other": [1.0] * 3}}
    cells = [
        one
        for decoder in ("greedy", "beam")
        for one in (
            *cells_of(worth[decoder], "valid", better=better, decoder=decoder),
            *cells_of(rates[decoder], "test", metric="rate", decoder=decoder),
        )
    ]
    cells = [
        replace(one, numbers={name: replace(n, scale="linear") for name, n in one.numbers.items()}) for one in cells
    ]
    models = {"base": {"name": "m"}, "other": {"name": "m"}}
    claim = {"id": "C", "text": "t", "assert": expression}
    table = {"id": "t", "rows": ["model"], "values": ["rate"], "where": {"split": "test"}, "chosen": "width"}
    return run_with(tmp_path, cells, models, choose, claims=[claim], tables=[table])


def value(model, more=""):
    return f"v('rate', model='{model}', split='test', chosen='width'{more})"


def test_a_value_is_that_of_the_decoder_that_was_chosen_for_its_model(tmp_path):
    run = run_of_decoders(tmp_path, f"{value('base')} > {value('other')}")
    (one,) = judge(run)
    assert one.verdict == "holds"
    assert [str(found) for found in one.values] == [
        "base/beam/test (chosen by width) 2.10 ± 0.10",
        "other/greedy/test (chosen by width) 1.10 ± 0.10",
    ]
    assert one.record()["values"][0]["axes"] == {"model": "base", "decoder": "beam", "split": "test"}
    assert one.record()["values"][0]["chosen"] == "width"


def test_claims_and_tables_speak_of_the_same_numbers(tmp_path):
    run = run_of_decoders(tmp_path, f"{value('base')} > {value('other')}")
    (one,), (grid,) = judge(run), grids(run)
    assert [found.summary for found in one.values] == [entry.summary for (entry,) in grid.entries]


def test_the_new_name_of_the_decoder_says_which_of_several_choices_is_meant(tmp_path):
    several = {**WIDTH, "decoders": {"best": ["greedy"], "widest": ["beam"]}}
    (one,) = judge(run_of_decoders(tmp_path, f"{value('base')} > 0", several))
    assert (one.verdict, one.remarks[0]) == (
        "not run", f"{value('base')} is missing: several choices match: words/base/best, words/base/widest",
    )  # fmt: skip
    named = "v('rate', model='base', decoder='widest', split='test', chosen='width') > 0"
    (one,) = judge(run_of_decoders(tmp_path, named, several))
    assert str(one.values[0]) == "base/beam/test (chosen by width) 2.10 ± 0.10"


def test_where_nothing_is_chosen_the_value_is_missing_and_the_reason_is_named(tmp_path):
    (one,) = judge(run_of_decoders(tmp_path, f"{value('base')} > 0", better=0))
    assert one.verdict == "not run"
    assert "nothing was selected, as nats does not define whether higher or lower is better" in one.remarks[0]
    (one,) = judge(run_of_decoders(tmp_path, f"{value('lstm')} > 0"))
    assert "the run has no such choice" in one.remarks[0]


def test_a_grid_is_the_combination_that_was_chosen(tmp_path):
    values = dict(zip(RNN, ([4.0] * 3, [2.0] * 3, [3.0] * 3, [5.0] * 3), strict=True))
    rates = dict(zip(RNN, ([1.0, 1.1, 1.2], [7.0, 7.1, 7.2], [1.0] * 3, [1.0] * 3), strict=True))
    cells = [*cells_of(values, "valid"), *cells_of({**rates, "base": [5.0, 5.1, 5.3]}, "test", metric="rate")]
    cells = [
        replace(one, numbers={name: replace(n, scale="linear") for name, n in one.numbers.items()}) for one in cells
    ]
    text = "v('rate', model='rnn', split='test', chosen='best') > v('rate', model='base', split='test')"
    run = run_with(tmp_path, cells, GRID, claims=[{"id": "C", "text": "t", "assert": text}])
    (one,) = judge(run)
    assert one.verdict == "holds"
    assert str(one.values[0]) == f"{RNN[1]}/test (chosen by best) 7.10 ± 0.10"


CHOOSE = "choose:\n  - {id: width, decoders: {best: [argmax, draw]}, by: ended}\n"


def mistakes(suite_file, text, choose=CHOOSE, suite=SUITE):
    suite = suite.replace("seeds: 2\n", f"seeds: 2\nsplits: [valid, test]\n{choose}").replace(
        "  - {id: main, caption: Main, rows: [decoder], columns: [model], values: [ended, nats]}\n",
        "  - {id: main, rows: [decoder], columns: [model, split], values: [ended]}\n",
    )
    text = suite.replace("profiles:\n", f'claims:\n  - {{id: C, text: t, assert: "{text}"}}\nprofiles:\n')
    path = suite_file(text)
    try:
        load(path)
    except SuiteError as error:
        return str(error).replace(str(path), "S")
    return ""


ONE = "v('ended', model='one', split='test', chosen='width')"


def test_a_choice_that_covers_a_model_is_accepted(suite_file):
    assert (
        mistakes(suite_file, f"{ONE} > v('ended', model='two', split='test', chosen='width', decoder='best')") == ""
    )
    assert (
        mistakes(suite_file, f"in_every_training({ONE} > v('ended', model='one', split='test', decoder='draw'))")
        == ""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE.replace("'width'", "'widht'") + " > 0", "no choice of this suite is called 'widht'. Did you mean 'width'?"),
        (ONE.replace(", chosen", ", decoder='argmax', chosen") + " > 0", "choice 'width' has no result 'argmax': the results are best. Write `decoder='best'`."),
        ("v('ended', split='test', chosen='width') > 0", "does not say which model: one, two"),
        ("v('ended', model='one', chosen='width') > 0", "does not say which split: valid, test"),
        ("v('nats', model='one', split='test', chosen='width') > 0", "does not depend on the decoder. Leave out `chosen`."),
        ("v('ended', model='three', split='test', chosen='width') > 0", "no model of this suite is called 'three'"),
        (f"in_every_training({ONE} > {ONE.replace('one', 'two')})", "come from different training runs (model 'one' and 'two')"),
    ],
)  # fmt: skip
def test_a_choice_that_is_not_there_is_refused(suite_file, text, message):
    found = mistakes(suite_file, text)
    assert message in found
    assert found.startswith("S:")


def test_a_choice_among_several_new_names_asks_which(suite_file):
    several = CHOOSE.replace("best: [argmax, draw]", "best: [argmax], other: [draw]")
    assert "does not say which: the results are best, other. Write `decoder='best'`." in mistakes(
        suite_file, f"{ONE} > 0", several
    )


def test_a_choice_that_does_not_cover_the_model_is_refused(suite_file):
    skip = "skip: [{model: one, split: valid}]\n"
    found = mistakes(suite_file, f"{ONE} > 0", CHOOSE + skip)
    assert "choice 'width' does not cover model 'one': no cell has its ended on valid." in found


def test_a_grid_needs_its_own_name(suite_file):
    suite = SUITE.replace("  two: {name: bigram, scale: 2.0}\n", "  two: {name: bigram, grid: {scale: [1.0, 2.0]}}\n")
    choose = "choose:\n  - {id: size, model: two, by: nats}\n"
    good = "v('nats', model='two', split='test', chosen='size') > v('nats', model='one', split='test')"
    assert mistakes(suite_file, good, choose, suite) == ""
    bad = good.replace("model='two'", "model='one'")
    assert "choice 'size' has no result 'one': the results are two. Write `model='two'`." in mistakes(
        suite_file, bad, choose, suite
    )
