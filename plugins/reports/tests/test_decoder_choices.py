"""Choices among decoders: each model is decoded by what was best for it on data kept for that."""

from __future__ import annotations

import json
from math import nan

import pytest
from bench_small.choices import BY, GRID, RNN, cells_of, run_with
from bench_small.runs import paper, shown, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.runs.results import Run
from bench_core.suites.load import load
from bench_reports.content.choices import choices
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids, whole_grids
from bench_reports.language.of_suite import language

BEAMS = ["beam-1", "beam-2", "beam-4"]
DECODERS = ["greedy", *BEAMS]
MODELS = {"tanh": {"name": "m"}, "lstm": {"name": "m"}}
WIDTH = {"id": "width", "decoders": {"beam": BEAMS}, "by": "rate", "split": "valid"}
TABLE = {"id": "t", "rows": ["model"], "columns": ["decoder"], "values": ["rate"], "chosen": "width"}
TEST = {**TABLE, "where": {"split": "test"}}


def decoded(values, split="valid", metric="rate", better=1, task="words"):
    """Return the cells of one split, from values by model and decoder."""
    return [
        one
        for model, found in values.items()
        for decoder, value in found.items()
        for one in cells_of({model: value}, split, metric, better, decoder, task)
    ]


def by_beam(*values):
    return dict(zip(BEAMS, values, strict=True))


VALID = {"tanh": by_beam(1.0, 2.0, 3.0), "lstm": by_beam([4.0, 6.0], [9.0, 0.0], [4.0, 4.0])}
ON_TEST = {
    "tanh": {"greedy": 10.0, **by_beam(11.0, 12.0, 14.0)},
    "lstm": {"greedy": 20.0, **by_beam(21.0, 22.0, 24.0)},
}
CELLS = [*decoded(VALID), *decoded(ON_TEST, "test")]


def run_of(tmp_path, cells=CELLS, models=MODELS, choose=WIDTH, decoders=DECODERS, **more):
    return run_with(tmp_path, cells, models, choose, decoders=decoders, **more)


def found_for(run):
    return {one.model: one.name for one in choices(run)}


def test_each_model_has_the_decoder_whose_mean_over_seeds_is_best_on_the_split_of_the_choice(tmp_path):
    run = run_of(tmp_path)
    assert found_for(run) == {"tanh": "beam-4", "lstm": "beam-1"}
    assert [one.seeds for one in choices(run)] == [1, 2]
    lower = run_of(tmp_path, decoded(VALID, better=-1))
    assert found_for(lower) == {"tanh": "beam-1", "lstm": "beam-4"}


def test_of_decoders_that_are_alike_the_one_listed_first_is_chosen(tmp_path):
    backwards = {**WIDTH, "decoders": {"beam": BEAMS[::-1]}}
    cells = decoded({"tanh": by_beam(2.0, 2.0, 1.0)})
    assert found_for(run_of(tmp_path, cells)) == {"tanh": "beam-1"}
    assert found_for(run_of(tmp_path, cells, choose=backwards)) == {"tanh": "beam-2"}


def test_a_missing_number_leaves_only_its_own_model_without_a_choice(tmp_path):
    cells = decoded({**VALID, "tanh": by_beam(1.0, [2.0, "out of memory"], 3.0)})
    tanh, lstm = choices(run_of(tmp_path, cells))
    assert (tanh.name, lstm.name) == (None, "beam-1")
    assert tanh.reason == "1 of 3 decoders of beam have no rate on valid (beam-2: out of memory)"


def test_undefined_means_are_never_chosen(tmp_path):
    (found,) = choices(run_of(tmp_path, decoded({"tanh": by_beam(nan, nan, nan)})))
    assert (found.name, found.reason) == (None, "no decoder of beam has a finite rate")


def test_decoders_that_are_skipped_for_a_model_are_no_candidates_for_it(tmp_path):
    cells = decoded({"tanh": {"beam-1": 1.0, "beam-2": 2.0}, "lstm": by_beam(1.0, 2.0, 3.0)})
    skip = [{"model": "lstm", "decoder": "beam-4", "metric": "rate"}]
    tanh, lstm = choices(run_of(tmp_path, cells, skip=skip))
    assert (tanh.name, list(tanh.candidates)) == ("beam-2", BEAMS[:2])
    assert (lstm.name, list(lstm.candidates)) == ("beam-2", BEAMS[:2])


def test_each_task_has_its_own_choice(tmp_path):
    cells = [*decoded(VALID), *decoded({"tanh": by_beam(3.0, 1.0, 1.0)}, task="letters")]
    table = {"id": "t", "of": "choices", "columns": ["model", "task"]}
    run = run_of(tmp_path, cells, tasks=("words", "letters"), tables=[table])
    assert shown(run) == {
        "beam": {"tanh/words": "beam-4", "lstm/words": "beam-1", "tanh/letters": "beam-1"},
    }


def test_a_table_shows_what_was_chosen_for_each_model_under_one_name_beside_other_decoders(tmp_path):
    run = run_of(tmp_path, tables=[TEST])
    assert shown(run) == {
        "tanh": {"greedy": "10.00", "beam": "14.00"},
        "lstm": {"greedy": "20.00", "beam": "21.00"},
    }
    notes = footnotes(run, grids(run)[0])
    assert notes[:2] == [
        "tanh: beam=beam-4, the best of 3 decoders by rate on valid, mean over 1 seed.",
        "lstm: beam=beam-1, the best of 3 decoders by rate on valid, mean over 2 seeds.",
    ]
    one = {**TABLE, "where": {"split": "test", "model": "lstm"}}
    told = footnotes(run_of(tmp_path, tables=[one]), grids(run_of(tmp_path, tables=[one]))[0])
    assert [note for note in told if "the best of" in note] == notes[1:2]


@pytest.mark.parametrize("where", [{"decoder": "beam"}, {"decoder": {"chosen": "width"}}])
def test_where_can_let_in_what_was_chosen_and_nothing_else(tmp_path, where):
    run = run_of(tmp_path, tables=[{**TEST, "where": {"split": "test", **where}}])
    assert shown(run) == {"tanh": {"beam": "14.00"}, "lstm": {"beam": "21.00"}}


def test_several_names_stand_for_what_was_chosen_among_the_decoders_of_each(tmp_path):
    draws = {"top-2": 5.0, "top-4": 6.0}
    cells = decoded({"tanh": {**by_beam(1.0, 2.0, 1.5), **draws}}) + decoded({"tanh": draws}, "test")
    choose = {**WIDTH, "decoders": {"beam": BEAMS, "top-k": [*draws]}}
    run = run_of(tmp_path, cells, choose=choose, decoders=[*DECODERS, *draws], tables=[{"id": "t", "of": "choices"}])
    assert shown(run) == {"beam": {"tanh": "beam-2"}, "top-k": {"tanh": "top-4"}}
    only = run_of(
        tmp_path,
        cells,
        choose=choose,
        decoders=[*DECODERS, *draws],
        tables=[{"id": "t", "of": "choices", "where": {"decoder": "top-k"}}],
    )
    assert shown(only) == {"top-k": {"tanh": "top-4"}}


def test_published_numbers_stand_beside_what_was_chosen(tmp_path):
    reference = {"table": "p", "rows": {"RNN": "tanh"}, "columns": {"BEAM": "beam"}}
    run = run_of(
        tmp_path, tables=[{**TEST, "reference": reference}], published=paper({"RNN": {"BEAM": (13.5, None)}})
    )
    assert shown(run)["tanh"]["beam"] == "14.00 <sub>13.50</sub>"


def test_an_unfinished_choice_shows_no_number_and_says_why(tmp_path):
    cells = [*decoded({**VALID, "tanh": by_beam(1.0, "stopped", 3.0)}), *decoded(ON_TEST, "test")]
    run, made = run_of(tmp_path, cells, tables=[TEST]), run_of(tmp_path, cells, tables=[{"id": "t", "of": "choices"}])
    assert shown(run) == {
        "tanh": {"greedy": "10.00", "beam": r"not run<sup>\[1\]</sup>"},
        "lstm": {"greedy": "20.00", "beam": "21.00"},
    }
    assert grids(run)[0].reasons == ["1 of 3 decoders of beam have no rate on valid (beam-2: stopped)"]
    assert shown(made) == {"beam": {"tanh": r"not run<sup>\[1\]</sup>", "lstm": "beam-1"}}


def test_a_metric_that_is_spared_a_decoder_is_spared_what_was_chosen_only_where_that_is_it(tmp_path):
    spared = [{"decoder": "beam-4", "metric": "nats"}]
    cells = [*decoded(VALID), *decoded(ON_TEST, "test", "nats")]
    run = run_of(tmp_path, cells, skip=spared, tables=[{**TEST, "values": ["nats"]}])
    assert {model: row["beam"] for model, row in shown(run).items()} == {"tanh": "–", "lstm": "21.00"}


def test_a_metric_that_is_spared_a_combination_is_spared_its_grid_only_on_the_tasks_where_that_was_chosen(tmp_path):
    valid = dict(zip(RNN, [4.0, 3.0, 2.0, 1.0], strict=True))
    other = dict(zip(RNN, [1.0, 2.0, 3.0, 4.0], strict=True))
    cells = [*cells_of(valid, "valid"), *cells_of(other, "valid", task="letters")]
    for task in ("words", "letters"):
        cells += cells_of(dict.fromkeys(RNN, 5.0), "test", "rate", task=task)
    table = {"id": "t", "rows": ["task"], "columns": ["model"], "values": ["rate"], "chosen": "best"}
    table["where"] = {"split": "test", "model": "rnn"}
    skip = [{"model": RNN[3], "metric": "rate"}]
    run = run_with(tmp_path, cells, tasks=("words", "letters"), tables=[table], skip=skip)
    assert shown(run) == {"words": {"rnn": "–"}, "letters": {"rnn": "5.00"}}


def of_grid(best=RNN[2], unmade=None):
    """Return a run in which every combination has its best beam, the third of which `best` is alone in having."""
    nats = {name: 1.0 if name == best else 2.0 for name in [*RNN, "base"]}
    nats |= {unmade: "stopped"} if unmade else {}
    beams = {name: by_beam(1.0, 2.0, 3.0 if name == best else 1.5) for name in nats}
    test = {name: by_beam(11.0, 12.0, 13.0 if name == best else 0.0) for name in nats}
    return [*cells_of(nats, "valid", decoder="beam-1"), *decoded(beams), *decoded(test, "test")]


def merged(cells):
    """Put the numbers of one cell together."""
    found = {}
    for one in cells:
        key = json.dumps(one.cell, sort_keys=True)
        if key in found:
            one.numbers.update(found[key].numbers)
        found[key] = one
    return list(found.values())


BOTH = [{**BY, "decoder": "beam-1"}, WIDTH]


@pytest.mark.parametrize("chosen", [["best", "width"], ["width", "best"]])
def test_a_table_shows_the_chosen_model_with_the_decoder_that_was_chosen_for_it(tmp_path, chosen):
    run = run_of(tmp_path, merged(of_grid()), GRID, BOTH, BEAMS, tables=[{**TEST, "chosen": chosen}])
    assert shown(run) == {"rnn": {"beam": "13.00"}, "base": {"beam": "12.00"}}
    assert footnotes(run, grids(run)[0])[:3] == [
        "rnn: hidden=16, tied=true, the best of 4 combinations by nats on valid by beam-1, mean over 1 seed.",
        "rnn: beam=beam-4, the best of 3 decoders by rate on valid, mean over 1 seed.",
        "base: beam=beam-2, the best of 3 decoders by rate on valid, mean over 1 seed.",
    ]
    listed = {"id": "t", "of": "choices", "chosen": chosen}
    assert shown(run_of(tmp_path, merged(of_grid()), GRID, BOTH, BEAMS, tables=[listed])) == {
        "hidden": {"rnn": "16", "base": "–"},
        "tied": {"rnn": "true", "base": "–"},
        "beam": {"rnn": "beam-4", "base": "beam-2"},
    }


def test_no_decoder_is_chosen_for_a_grid_from_which_nothing_was(tmp_path):
    cells, chosen = merged(of_grid(unmade=RNN[1])), ["best", "width"]
    run = run_of(tmp_path, cells, GRID, BOTH, BEAMS, tables=[{**TEST, "chosen": chosen}])
    assert shown(run) == {"rnn": {"beam": r"not run<sup>\[1\]</sup>"}, "base": {"beam": "12.00"}}
    reason = f"1 of 4 combinations of rnn have no nats on valid ({RNN[1]}: stopped)"
    assert grids(run)[0].reasons == [reason]
    listed = run_of(tmp_path, cells, GRID, BOTH, BEAMS, tables=[{"id": "t", "of": "choices", "chosen": chosen}])
    assert {row["rnn"] for row in shown(listed).values()} == {r"not run<sup>\[1\]</sup>"}
    assert grids(listed)[0].reasons == [reason]


def test_a_choice_of_decoders_alone_is_made_for_every_combination_of_a_grid(tmp_path):
    run = run_of(tmp_path, merged(of_grid()), GRID, WIDTH, BEAMS, tables=[TEST])
    assert {name: row["beam"] for name, row in shown(run).items()} == {
        **dict.fromkeys([*RNN, "base"], "12.00"), RNN[2]: "13.00"
    }  # fmt: skip


def test_the_report_lists_all_decoders_of_all_models_and_how_often_each_was_chosen(tmp_path):
    run = run_of(tmp_path, tables=[TEST])
    (whole,) = whole_grids(run)
    assert [row.label for row in whole.rows] == [
        "beam-1 (chosen for 1 of 2)",
        "beam-2",
        "beam-4 (chosen for 1 of 2)",
    ]
    assert [column.label for column in whole.columns] == ["tanh/valid", "tanh/test", "lstm/valid", "lstm/test"]
    assert [entry.summary.mean for entry in whole.entries[1]] == [2.0, 12.0, 4.5, 22.0]
    files = written(run, tmp_path / "report")
    assert b"## width-1: every decoder of beam, by rate" in files["report.md"]
    assert b"lstm: beam=beam-1, the best of 3 decoders" in files["report.md"]
    latex = files["tables/t.tex"].replace(rb"\allowbreak{}", b"")
    assert b"tanh: beam=beam-4, the best of 3 decoders" in latex
    html = files["report.html"].decode()
    assert "seed. Decoders: beam-1, beam-2, beam-4." in html
    told = json.loads(files["results.json"])["choices"]
    assert [(one["axis"], one["model"], one["decoder"], one["settings"]) for one in told] == [
        ("decoder", "tanh", "beam-4", {"beam": "beam-4"}),
        ("decoder", "lstm", "beam-1", {"beam": "beam-1"}),
    ]


def test_outputs_of_decoders_that_were_not_chosen_for_a_model_are_not_shown(tmp_path):
    run = run_of(tmp_path)
    samples = [
        {"cell": {**one.cell}, "id": 1, "text": f"{one.cell['model']} by {one.cell['decoder']}."} for one in run.cells
    ]
    text = written(
        Run(run.folder, run.suite, {"samples": samples}, run.cells, run.sections, grids=run.grids), tmp_path / "r"
    )
    said = {f"{model} by {decoder}." for model in MODELS for decoder in DECODERS}
    assert {one for one in said if one.encode() in text["report.md"]} == {
        "tanh by beam-4.", "lstm by beam-1.", "tanh by greedy.", "lstm by greedy."
    }  # fmt: skip


CHOOSE = "seeds: 2\nsplits: [valid, test]\nchoose: [{id: way, decoders: {best: [draw, argmax]}, by: ended}]"
BEST = "rows: [model, split], values: [ended], where: {decoder: best}, chosen: way}"


def with_choice(choose=CHOOSE, table=BEST, profile=""):
    text = SUITE.replace("seeds: 2", choose)
    return text.replace("rows: [decoder], columns: [model], values: [ended, nats]}", table) + profile


@pytest.mark.slow
def test_a_suite_chooses_decoders_as_it_runs(suite_file, tmp_path):
    run = bench_core.run(suite_file(with_choice()), store=tmp_path / "store", out=tmp_path / "runs")
    means = {}
    for row in run.rows():
        means.setdefault((row["model"], row["split"], row["decoder"]), []).append(row["ended"])
    means = {names: sum(values) / 2 for names, values in means.items()}
    for model, name in found_for(run).items():
        ways = {decoder: means[model, "valid", decoder] for decoder in ("draw", "argmax")}
        better = next(iter(run.cells)).numbers["ended"].better
        assert better * ways[name] == max(better * value for value in ways.values())
    (table,) = grids(run)
    assert [row.label for row in table.rows] == ["one/valid", "one/test", "two/valid", "two/test"]
    found = [means[(*row.names, found_for(run)[row.names[0]])] for row in table.rows]
    assert [row[0].summary.mean for row in table.entries] == pytest.approx(found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[draw, argmax]",
            "[drow, argmax]",
            ":18:31: no decoder of this suite is called 'drow'. Did you mean 'draw'",
        ),
        (
            "{best: [",
            "{argmax: [",
            ":18:31: 'argmax' is a decoder of this suite; the chosen decoder needs a new name",
        ),
        ("{best: [draw, argmax]}", "{best: []}", ":18:31: 'best' needs decoders to choose from"),
        ("[draw, argmax]}", "[draw], other: [draw]}", ":18:45: decoder 'draw' is in both 'best' and 'other'"),
        ("[draw, argmax]", "[draw, draw]", ":18:31: decoder 'draw' is in 'best' twice"),
        ("by: ended", "by: nats", ":18:54: 'nats' does not depend on the decoder"),
        ("by: ended", "by: ended, decoder: draw", ":18:10: a choice among decoders compares the decoders"),
        ("{id: way, ", "{id: way, model: two, ", ":18:10: a choice is either among the combinations of grids"),
        (
            "decoders: {best: [draw, argmax]}",
            "decoders: {}",
            ":18:10: a choice is either among the combinations of grids",
        ),
        ("splits: [valid, test]", "splits: [test]", "the split 'valid' of this choice is not evaluated"),
        (
            "where: {decoder: best}",
            "where: {decoder: draw}",
            "'draw' is not in this table, which shows only chosen names",
        ),
        (
            ", chosen: way",
            "",
            "no decoder of this suite is called 'best'. Tables with `chosen: way` show the chosen decoder",
        ),
        ("{decoder: best}, chosen: way", "{decoder: {chosen: wax}}", "no choice of this suite is called 'wax'"),
        ("{decoder: best}", "{decoder: best, model: {chosen: way}}", "Set `where: {decoder: {chosen: way}}`"),
        (
            "by: ended}",
            "by: ended}, {id: other, decoders: {x: [draw]}, by: ended}",
            "choices 'way' and 'other' both select decoders",
        ),
        (
            "profiles:",
            "claims: [{id: C, text: t, assert: \"v('ended', model='one', decoder='best', split='test') > 0\"}]\nprofiles:",
            "decoder 'best' is the result of a choice. Name a decoder, such as 'draw'.",
        ),
    ],
)
def test_a_choice_of_decoders_that_cannot_be_made_is_refused(suite_file, old, new, message):
    text = with_choice()
    load(suite_file(text))
    if "'other'" in message and "id: other" in new:
        text = text.replace("chosen: way", "chosen: [way, other]")
    with pytest.raises(SuiteError) as error:
        load(suite_file(text.replace(old, new)))
    assert message in str(error.value)


def test_a_profile_may_do_without_some_of_the_decoders_or_all(suite_file):
    profile = (
        "  fewer: {decoders: {draw: null}}\n  none: {decoders: {draw: null, argmax: null}, metrics: {ended: null}}\n"
    )
    path = suite_file(with_choice(profile=profile))
    assert language(load(path, "fewer")).choose[0].decoders == {"best": ("draw", "argmax")}
    load(path, "none")
