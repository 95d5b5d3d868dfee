"""Choices among the combinations of grids: made on one split alone, and only among all of them."""

from __future__ import annotations

import json
from itertools import product
from math import inf, nan

import pytest
from bench_small.choices import BY, RNN, cells_of, run_with
from bench_small.runs import paper, shown, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.load import load
from bench_reports.content.choices import choices
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids, whole_grids
from bench_reports.language.of_suite import language
from bench_reports.render.report import screen


def chosen(run):
    (one,) = choices(run)
    return one


def test_the_best_mean_over_seeds_on_the_split_of_the_choice_is_chosen(tmp_path):
    valid = dict(zip(RNN, [[1.0, 9.0], [4.0, 5.0], [4.0, 4.0], [3.0, 6.0]], strict=True))
    test = dict(zip(RNN, [0.1, 0.2, 9.9, 0.1], strict=True))
    cells = [*cells_of(valid, "valid"), *cells_of(test, "test"), *cells_of({"base": 0.0}, "valid")]
    found = chosen(run_with(tmp_path, cells))
    assert (found.name, found.settings, found.seeds) == (RNN[2], {"hidden": 16, "tied": True}, 2)


def test_what_is_better_is_for_the_metric_to_say(tmp_path):
    values = dict(zip(RNN, [1.0, 4.0, 2.0, 3.0], strict=True))
    assert chosen(run_with(tmp_path, cells_of(values, "valid", better=1))).name == RNN[1]
    assert chosen(run_with(tmp_path, cells_of(values, "valid", better=-1))).name == RNN[0]
    unknown = chosen(run_with(tmp_path, cells_of(values, "valid", better=0)))
    assert (unknown.name, unknown.reason) == (None, "nats does not define whether higher or lower is better")


def test_of_combinations_that_are_alike_the_first_is_chosen_whatever_the_order_of_cells(tmp_path):
    cells = list(cells_of(dict(zip(RNN, [2.0, 1.0, 1.0, 1.0], strict=True)), "valid"))
    assert chosen(run_with(tmp_path, reversed(cells))).name == RNN[1]


def test_undefined_and_infinite_means_are_never_chosen(tmp_path):
    assert (
        chosen(run_with(tmp_path, cells_of(dict(zip(RNN, [nan, inf, 5.0, nan], strict=True)), "valid"))).name
        == RNN[2]
    )
    found = chosen(run_with(tmp_path, cells_of(dict.fromkeys(RNN, nan), "valid")))
    assert (found.name, found.reason) == (None, "no combination of rnn has a finite nats")


@pytest.mark.parametrize("lacking", ["the loss is nan", [1.0, "the loss is nan"]])
def test_nothing_is_chosen_while_a_combination_lacks_a_number(tmp_path, lacking):
    values = {**{name: [1.0, 1.0] for name in RNN}, RNN[3]: lacking}
    found = chosen(run_with(tmp_path, cells_of(values, "valid")))
    assert found.name is None
    assert found.reason == f"1 of 4 combinations of rnn have no nats on valid ({RNN[3]}: the loss is nan)"


def test_what_is_skipped_on_purpose_is_no_candidate(tmp_path):
    values = dict(zip(RNN, [4.0, 3.0, "out of memory", 1.0], strict=True))
    skip = [{"model": RNN[2:], "metric": "nats"}]
    found = chosen(run_with(tmp_path, cells_of(values, "valid"), skip=skip))
    assert (found.name, list(found.candidates)) == (RNN[1], RNN[:2])


def test_numbers_of_different_kinds_are_not_compared(tmp_path):
    first, *others = cells_of(dict.fromkeys(RNN, 1.0), "valid")
    first = CellResult(first.cell, "done", numbers={"nats": Score(0.5, better=-1, kind="bound")})
    assert "differ in kind or signature" in chosen(run_with(tmp_path, [first, *others])).reason


def test_a_choice_by_generated_text_reads_one_decoder(tmp_path):
    greedy = cells_of(dict(zip(RNN, [1.0, 2.0, 3.0, 4.0], strict=True)), "valid", "rate", 1, "greedy")
    beam = cells_of(dict(zip(RNN, [4.0, 3.0, 2.0, 1.0], strict=True)), "valid", "rate", 1, "beam")
    cells = [*greedy, *beam]
    for decoder, name in (("greedy", RNN[3]), ("beam", RNN[0])):
        assert chosen(run_with(tmp_path, cells, choose={**BY, "by": "rate", "decoder": decoder})).name == name


def test_each_task_has_its_own_choice(tmp_path):
    cells = [
        *cells_of(dict(zip(RNN, [1.0, 2.0, 3.0, 4.0], strict=True)), "valid", task="words"),
        *cells_of(dict(zip(RNN, [4.0, 3.0, 2.0, 1.0], strict=True)), "valid", task="letters"),
    ]
    table = {"id": "t", "of": "choices", "columns": ["model", "task"]}
    run = run_with(tmp_path, cells, tasks=("words", "letters"), tables=[table])
    assert [(one.task, one.name) for one in choices(run)] == [("words", RNN[0]), ("letters", RNN[3])]
    assert shown(run) == {
        "hidden": {"rnn/words": "8", "rnn/letters": "16"},
        "tied": {"rnn/words": "true", "rnn/letters": "false"},
    }


RESULTS = {"id": "t", "rows": ["model"], "columns": ["split"], "values": ["nats"], "chosen": "best"}


def both_splits(values=(4.0, 3.0, 2.0, 1.0)):
    valid = dict(zip(RNN, values, strict=True))
    test = {name: 10.0 + place for place, name in enumerate(RNN)}
    return [*cells_of(valid, "valid"), *cells_of({**test, "base": 20.0}, "test")]


def test_a_table_of_what_was_chosen_shows_a_grid_as_one_model(tmp_path):
    run = run_with(tmp_path, both_splits(), tables=[RESULTS])
    assert shown(run) == {"rnn": {"valid": "1.00", "test": "13.00"}, "base": {"valid": "–", "test": "20.00"}}
    expected = "rnn: hidden=16, tied=false, the best of 4 combinations by nats on valid, mean over 1 seed."
    assert footnotes(run, grids(run)[0])[0] == expected
    one = {**RESULTS, "where": {"model": "rnn"}}
    assert list(shown(run_with(tmp_path, both_splits(), tables=[one]))) == ["rnn"]


def test_where_can_let_in_what_was_chosen_and_nothing_else(tmp_path):
    table = {
        **{key: value for key, value in RESULTS.items() if key != "chosen"},
        "where": {"model": {"chosen": "best"}},
    }
    run = run_with(tmp_path, both_splits(), tables=[table])
    assert shown(run) == {"rnn": {"valid": "1.00", "test": "13.00"}}


def test_published_numbers_stand_beside_what_was_chosen(tmp_path):
    table = {**RESULTS, "reference": {"table": "p", "rows": {"tanh": "rnn"}, "columns": {"dev": "valid"}}}
    run = run_with(tmp_path, both_splits(), tables=[table], published=paper({"tanh": {"dev": (1.5, None)}}))
    assert shown(run)["rnn"]["valid"] == "1.00 <sub>1.50</sub>"


def test_a_table_of_an_unfinished_grid_shows_no_number_of_it(tmp_path):
    run = run_with(tmp_path, both_splits((1.0, 1.0, "stopped", 1.0)), tables=[RESULTS])
    assert shown(run)["rnn"] == {"valid": r"not run<sup>\[1\]</sup>", "test": r"not run<sup>\[1\]</sup>"}
    assert shown(run)["base"]["test"] == "20.00"
    assert grids(run)[0].reasons == [f"1 of 4 combinations of rnn have no nats on valid ({RNN[2]}: stopped)"]


def test_a_metric_that_the_chosen_combination_was_spared_is_no_failure(tmp_path):
    table = {**RESULTS, "values": ["rate"]}
    spared = run_with(tmp_path, both_splits(), tables=[table], skip=[{"model": "rnn", "metric": "rate"}])
    cells = [CellResult(one.cell, "failed", "x", one.numbers) for one in spared.cells]
    assert (
        shown(Run(spared.folder, spared.suite, {}, cells, spared.sections, grids=spared.grids))["rnn"]["test"] == "–"
    )


def test_chosen_settings_stand_beside_the_published_ones(tmp_path):
    printed = paper(
        {"hidden_size": {"tanh": (16, None)}, "tie": {"tanh": (True, None)}, "layers": {"tanh": (2, None)}}
    )
    mapping = {"table": "p", "rows": {"hidden_size": "hidden", "tie": "tied"}, "columns": {"tanh": "rnn"}}
    run = run_with(
        tmp_path, both_splits(), tables=[{"id": "t", "of": "choices", "reference": mapping}], published=printed
    )
    assert shown(run) == {
        "hidden": {"rnn": "16 <sub>16</sub>"},
        "tied": {"rnn": "false <sub>true</sub>"},
        "layers": {"rnn": "not run <sub>2</sub>"},
    }
    note, *_ = footnotes(run, grids(run)[0])
    assert note.startswith(
        "rnn: hidden=16, tied=false, the best of 4 combinations by nats on valid, mean over 1 seed."
    )
    assert note.endswith("Grid: hidden 8, 16; tied true, false.")


def test_settings_of_an_unfinished_grid_are_not_told(tmp_path):
    run = run_with(tmp_path, both_splits((1.0, 1.0, "stopped", 1.0)), tables=[{"id": "t", "of": "choices"}])
    assert set(shown(run)["tied"].values()) == {r"not run<sup>\[1\]</sup>"}


def test_the_report_lists_every_combination_with_its_values_and_marks_the_chosen(tmp_path):
    run = run_with(tmp_path, both_splits(), tables=[RESULTS])
    (whole,) = whole_grids(run)
    assert [row.label for row in whole.rows] == [
        "hidden=8/tied=true",
        "hidden=8/tied=false",
        "hidden=16/tied=true",
        "hidden=16/tied=false (chosen)",
    ]
    values = [[entry.summary.mean for entry in row] for row in whole.entries]
    assert values == [[4.0, 10.0], [3.0, 11.0], [2.0, 12.0], [1.0, 13.0]]
    files = written(run, tmp_path / "report")
    assert b"## best-1: every combination of rnn, by nats" in files["report.md"]
    assert files["tables/best-1.csv"].count(b"\n") == 1 + 4 * 2
    assert "best-1" not in screen(run)
    (told,) = json.loads(files["results.json"])["choices"]
    assert (told["model"], told["settings"], told["combinations"]) == (RNN[3], {"hidden": 16, "tied": False}, 4)


def test_outputs_of_combinations_that_were_not_chosen_are_not_shown(tmp_path):
    run = run_with(tmp_path, both_splits())
    samples = [{"cell": {**one.cell}, "id": 1, "text": f"by {one.cell['model']}"} for one in run.cells]
    text = written(
        Run(run.folder, run.suite, {"samples": samples}, run.cells, run.sections, grids=run.grids), tmp_path / "r"
    )
    assert {name for name in (*RNN, "base") if f"by {name}".encode() in text["report.md"]} == {RNN[3], "base"}


def test_the_head_counts_combinations_instead_of_naming_them(tmp_path):
    run = run_with(tmp_path, both_splits())
    about = {"models": {name: {"parameters": 1000 * place} for place, name in enumerate([*RNN, "base"], 1)}}
    text = written(Run(run.folder, run.suite, about, run.cells, run.sections, grids=run.grids), tmp_path / "r")[
        "report.md"
    ]
    assert b"- Models: rnn (4 combinations, 1,000 to 4,000 parameters), base (5,000 parameters)\n" in text


CHOOSE = "seeds: 2\nsplits: [valid, test]\nchoose: [{id: best, model: two, by: nats}]"
BEST = "rows: [model, split], values: [nats], where: {decoder: draw}, chosen: best}"


def with_choice(choose=CHOOSE, table=BEST, profile=""):
    text = SUITE.replace("two: {name: bigram, scale: 2.0}", "two: {name: bigram, grid: {scale: [0.1, 5]}}")
    text = text.replace("seeds: 2", choose).replace(
        "rows: [decoder], columns: [model], values: [ended, nats]}", table
    )
    return text + profile


@pytest.mark.slow
def test_a_suite_chooses_as_it_runs(suite_file, tmp_path):
    text = with_choice().replace("tables:\n", "tables:\n  - {id: settings, of: choices}\n")
    run = bench_core.run(suite_file(text), store=tmp_path / "store", out=tmp_path / "runs")
    nats = {}
    for row in run.rows():
        if row["split"] == "valid" and row["decoder"] == "draw" and row["model"] != "one":
            nats.setdefault(row["model"], []).append(row["nats"])
    best = min(nats, key=lambda name: sum(nats[name]))
    assert chosen(run).name == best
    settings, results = grids(run)
    assert settings.entries[0][0].text == best.rpartition("=")[2]
    assert [row.label for row in results.rows] == ["one/valid", "one/test", "two/valid", "two/test"]
    assert results.entries[2][0].summary.mean == pytest.approx(sum(nats[best]) / 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "splits: [valid, test]",
            "splits: [test]",
            "the split 'valid' of this choice is not evaluated. Set `splits: [valid, test]`",
        ),
        ("model: two, by", "model: one, by", "model 'one' has no grid to choose from"),
        ("model: two, by", "model: tow, by", "no model of this suite is called 'tow'. Did you mean 'two'"),
        ("by: nats", "by: natz", "no metric of this suite is called 'natz'"),
        ("by: nats", "by: ended", "'ended' measures generated text: add a decoder"),
        ("by: nats", "by: ended, decoder: drow", "no decoder of this suite is called 'drow'"),
        ("chosen: best", "chosen: bets", "no choice of this suite is called 'bets'. Did you mean 'best'"),
        (
            "{decoder: draw}, chosen: best",
            "{decoder: draw, model: {chosen: bets}}",
            ":22:100: no choice of this suite is",
        ),
        (
            "{decoder: draw}",
            "{decoder: draw, model: {choice: best}}",
            "models and decoders may also be `{chosen: CHOICE}`",
        ),
        ("{decoder: draw}", "{decoder: draw, model: two/scale=5}", "'two/scale=5' is not in this table"),
        ("id: main", "id: best-1", "ids such as best-1 are reserved for the combinations"),
        ("by: nats}", "by: nats}, {id: best, model: two, by: nats}", "two choices have the id 'best'"),
        ("rows: [model, split]", "rows: [split]", "does not say which model: one, two."),
        ("rows: [model, split], values: [nats]", "of: choices, values: [nats]", "leave `values` out"),
        ("rows: [model, split], values: [nats]", "of: choices, rows: [split]", "a table of choices has no `rows`"),
        ("rows: [model, split], values: [nats]", "rows: [model, split]", "a table needs `values`: metrics"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(suite_file, old, new, message):
    load(suite_file(with_choice()))
    with pytest.raises(SuiteError) as error:
        load(suite_file(with_choice().replace(old, new)))
    assert message in str(error.value)


def test_several_choices_must_be_told_apart(suite_file):
    choose = CHOOSE.replace("by: nats}]", "by: nats}, {id: other, model: two, by: nats}]")
    table = "of: choices}"
    assert language(load(suite_file(with_choice(table=table)))).tables[0].chosen == ("best",)
    with pytest.raises(SuiteError, match="name the choice by `chosen:`"):
        load(suite_file(with_choice(choose, table)))


def test_a_profile_may_do_without_the_grid(suite_file, tmp_path):
    profile = "  plain: {seeds: 1, training: {epochs: 1}, models: {two: {grid: null, scale: 3}}}\n"
    table = "of: choices, reference: {table: printed, rows: {s: scale}, columns: {a: two}}}"
    (tmp_path / "references").mkdir()
    printed = "paper: A paper\ntables:\n  - {id: printed, place: Table 5, rows: {s: {a: {mean: 2}}}}\n"
    (tmp_path / "references" / "a.yaml").write_text(printed)
    path = suite_file(with_choice(table=table, profile=profile))
    run = bench_core.run(path, "plain", store=tmp_path / "store", out=tmp_path / "runs")
    assert chosen(run).name == "two"
    assert shown(run) == {"scale": {"two": "not run <sub>2</sub>"}}


def test_every_combination_is_trained_and_scored(suite_file):
    from bench_core.suites.cells import cells_of as planned

    cells = planned(load(suite_file(with_choice())))
    assert {(cell.model, cell.split) for cell in cells} == set(
        product(["one", "two/scale=0.1", "two/scale=5"], ["valid", "test"])
    )
