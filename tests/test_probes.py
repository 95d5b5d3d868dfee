"""What probes found, in reports: promises beside what was measured, and an alarm where the two disagree."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from textwrap import dedent

import pytest
from bench_small.runs import cell, number, run_of, stored, written
from bench_small.suites import SUITE

import bench_core
from bench_core import Finding, Premise, Probe, ProbeConfig, Statement, hookimpl
from bench_core.computing.result_checks import check_finding
from bench_core.errors import PluginError
from bench_core.registry import extra
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_reports.content.probes import (
    HEADINGS,
    OF_NUMBERS,
    broken_promises,
    failing_premises,
    number_rows,
    statement_rows,
)

SMOOTH, SMALL = {"text": "the model is smooth", "holds": True}, {"text": "the weights are small", "holds": True}
LARGE = {**SMALL, "holds": False}


def found(source="Theorem 1", promises=(0.0, 0.0), premises=(SMOOTH, SMALL), bound="by step 7", measured="rate"):
    """Return what a probe found, as runs store it."""
    statement = {
        "source": source,
        "says": "every output ends" if source else "no theorem is about this decoder",
        "premises": [*premises],
        "bound": bound,
        "metric": "endings",
        "promises": promises and [*promises],
    }
    return {"numbers": {}, "statements": [statement], "measured": {"endings": measured} if measured else {}}


def probed(model, decoder, seed, value, finding=None, **more):
    numbers = {} if value is None else {"rate": number(value)}
    return replace(cell(model, decoder, seed, numbers, **more), probes={"endings": finding or found()})


def table(run):
    """Return the table as {cell: {heading: text}}."""
    headings, *rows = statement_rows(run)
    assert tuple(headings) == HEADINGS
    return {row[0]: dict(zip(headings[1:], row[1:], strict=True)) for row in rows}


def measured(tmp_path, *cells):
    (row,) = table(run_of(tmp_path, cells, {})).values()
    return row["measured"]


def test_a_promise_that_was_kept_is_said_to_be_kept(tmp_path):
    run = run_of(tmp_path, [probed("rnn", "greedy", 0, 0.0)], {})
    assert table(run) == {
        "rnn/greedy": {
            "source": "Theorem 1",
            "premises": "all hold",
            "what follows": "every output ends",
            "bound": "by step 7",
            "measured": "rate 0.00 %, as promised",
        }
    }
    assert broken_promises(run) == failing_premises(run) == []


@pytest.mark.parametrize("value", [0.004, 12.5, 100.0, -1e-9])
def test_a_promise_that_was_broken_is_shouted(tmp_path, value):
    """However small the difference is where it is rounded."""
    run = run_of(tmp_path, [probed("rnn", "greedy", 3, value)], {})
    assert table(run)["rnn/greedy"]["measured"] == f"rate {max(value, 0):.2f} %, AGAINST THE PROOF"
    (told,) = broken_promises(run)
    assert told.startswith(f"endings: rate of words/rnn/greedy/test/default, seed 3, is {value:g}; ")
    assert told.endswith("Theorem 1 promises 0 to 0.")


@pytest.mark.parametrize(("value", "kept"), [(9.99, False), (10.0, True), (15.0, True), (20.0, True), (20.01, False)])
def test_a_promise_is_an_interval_with_its_ends(tmp_path, value, kept):
    text = measured(tmp_path, probed("rnn", "greedy", 0, value, found(promises=(10.0, 20.0))))
    assert text.endswith("as promised" if kept else "AGAINST THE PROOF")


def test_one_seed_against_the_proof_is_enough(tmp_path):
    cells = [probed("rnn", "greedy", seed, value) for seed, value in enumerate([0.0, 0.0, 3.0])]
    run = run_of(tmp_path, cells, {})
    assert table(run)["rnn/greedy"]["measured"] == "rate 1.00 %, AGAINST THE PROOF"
    (told,) = broken_promises(run)
    assert "seed 2, is 3" in told


def test_seeds_share_a_row_and_other_cells_have_their_own_in_the_order_of_the_suite(tmp_path):
    cells = [probed(m, d, s, 0.0) for s in (1, 0) for m in ("lstm", "rnn") for d in ("beam", "greedy")]
    assert [*table(run_of(tmp_path, cells, {}))] == ["rnn/greedy", "rnn/beam", "lstm/greedy", "lstm/beam"]


def test_other_axes_are_named_where_they_differ(tmp_path):
    one = probed("rnn", "greedy", 0, 0.0)
    other = replace(one, cell={**one.cell, "split": "valid"})
    assert [*table(run_of(tmp_path, [one, other], {}))] == ["rnn/greedy/test", "rnn/greedy/valid"]


def test_bounds_that_differ_between_seeds_are_all_shown_if_they_are_few(tmp_path):
    cells = [probed("rnn", "greedy", seed, 0.0, found(bound=f"by step {7 + seed}")) for seed in range(5)]
    assert table(run_of(tmp_path, cells[:2], {}))["rnn/greedy"]["bound"] == "by step 7; by step 8"
    assert table(run_of(tmp_path, cells, {}))["rnn/greedy"]["bound"] == "by step 7; by step 8; by step 9; ..."
    assert table(run_of(tmp_path, cells[:1] * 2, {}))["rnn/greedy"]["bound"] == "by step 7"


def test_a_premise_that_fails_is_counted_and_named_with_its_models(tmp_path):
    broken = found(premises=(SMOOTH, LARGE), promises=None, bound="")
    cells = [
        probed(m, "greedy", s, 50.0, broken if m == "lstm" or s else None) for m in ("rnn", "lstm") for s in (0, 1)
    ]
    run = run_of(tmp_path, cells, {})
    rows = table(run)
    assert rows["rnn/greedy"]["premises"] == "1 of 2 hold"
    assert rows["rnn/greedy"]["what follows"] == "nothing, as a premise does not hold"
    assert rows["lstm/greedy"]["premises"] == "1 of 2 hold"
    assert rows["lstm/greedy"]["bound"] == "–"
    assert rows["lstm/greedy"]["measured"] == "rate 50.00 %", "nothing was promised"
    assert failing_premises(run) == ["Premise that does not hold (lstm, rnn): the weights are small."]


def test_a_seed_whose_promise_failed_with_its_premise_does_not_excuse_the_others(tmp_path):
    broken = found(premises=(SMOOTH, LARGE), promises=None, bound="")
    excused, guilty = probed("rnn", "greedy", 0, 50.0, broken), probed("rnn", "greedy", 1, 0.5)
    assert measured(tmp_path, excused, guilty).endswith("AGAINST THE PROOF")
    assert measured(tmp_path, excused, probed("rnn", "greedy", 1, 0.0)).endswith("as promised")


def test_without_a_theorem_there_is_none(tmp_path):
    nothing = found(source="", promises=None, premises=(), bound="")
    row = table(run_of(tmp_path, [probed("rnn", "greedy", 0, 7.0, nothing)], {}))["rnn/greedy"]
    assert [*row.values()] == ["none", "–", "no theorem is about this decoder", "–", "rate 7.00 %"]


@pytest.mark.parametrize("finding", [found(measured=None), found(measured="nats"), found()])
def test_what_was_not_measured_is_neither_kept_nor_broken(tmp_path, finding):
    """There is no such metric, the cell lacks it, or it failed."""
    failed = number(None, reason="out of memory")
    one = replace(probed("rnn", "greedy", 0, None, finding, status="failed"), numbers={"rate": failed})
    run = run_of(tmp_path, [one], {})
    assert table(run)["rnn/greedy"]["measured"] == "not measured"
    assert broken_promises(run) == []


def test_the_mean_is_over_the_seeds_that_were_measured(tmp_path):
    cells = [
        probed("rnn", "greedy", 0, 4.0),
        probed("rnn", "greedy", 1, None),
        probed("rnn", "greedy", 2, 5.0),
    ]
    assert measured(tmp_path, *cells) == "rate 4.50 %, AGAINST THE PROOF"


def test_two_probes_have_rows_of_their_own(tmp_path):
    one = probed("rnn", "greedy", 0, 0.0)
    both = replace(one, probes={"endings": found(), "lengths": found(source="Theorem 2", measured=None)})
    theorems = [row[1] for row in statement_rows(run_of(tmp_path, [both], {}))[1:]]
    assert theorems == ["Theorem 1", "Theorem 2"]


def test_a_run_without_probes_has_no_such_table(tmp_path):
    run = run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {})
    assert statement_rows(run) == []
    assert b"Probes" not in written(stored(run), tmp_path / "report")["report.md"]


def test_reports_carry_the_table_and_the_alarm(tmp_path):
    cells = [probed("rnn", "greedy", 0, 2.0), probed("lstm", "greedy", 0, 0.0, found(premises=(LARGE,)))]
    files = written(stored(run_of(tmp_path, cells, {})), tmp_path / "report")
    for name in ("report.md", "report.tex"):
        text = files[name].decode()
        assert text.count("AGAINST THE PROOF") == 1
        assert "as promised" in text
        assert "seed 0, is 2; Theorem 1 promises 0 to 0." in text
        assert "Premise that does not hold (lstm): the weights are small." in text
    told = json.loads(files["results.json"])["cells"]
    stated = [one["probes"]["endings"]["statements"] for one in told]
    assert [one["promises"] for (one,) in stated] == [[0.0, 0.0]] * 2


# in a run


class SureConfig(ProbeConfig):
    """Says that all draws end within `most` tokens, which nobody proved, and of other outputs what is always true."""

    name, with_decoder, limits = "sure", True, {"most": "max_tokens"}
    most: int = 1

    @classmethod
    def load(cls):
        return Sure


class Sure(Probe):
    def ask(self, model, decoder, batches):
        premise = Premise("the model is a table", hasattr(model, "table"))
        promises = (100.0 if decoder.name == "draw" else 0.0, 100.0)
        bound = f"by step {self.config.most}"
        return Finding(
            statements=(Statement("Theorem 0", "every output ends", (premise,), bound, "ended", promises),)
        )


class SeenConfig(ProbeConfig):
    """Says which rows it was given."""

    name = "seen"

    @classmethod
    def load(cls):
        return Seen


class Seen(Probe):
    def ask(self, model, decoder, batches):
        ids = sorted(number for batch in batches for number in batch.ids.tolist())
        assert decoder is None
        return Finding({"rows": float(len(ids))}, (Statement("Theorem 0", " ".join(map(str, ids))),))


@hookimpl
def bench_probes():
    return [SureConfig, SeenConfig]


@pytest.fixture
def go(tmp_path, suite_file):
    def run(**replaced):
        with extra(sys.modules[__name__]):
            path = suite_file(dedent(SUITE) + "probes:\n  sure: {name: sure}\n", **replaced)
            return bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)

    return run


@pytest.mark.slow
def test_a_run_probes_every_cell_and_holds_the_promise_against_what_came_out(go):
    run = go()
    assert {one.status for one in run.cells} == {"done"}
    assert {one.probes["sure"]["measured"]["ended"] for one in run.cells} == {"ended"}
    endings = {name: row["measured"].partition(", ")[2] for name, row in table(run).items()}
    kept, broken = "as promised", "AGAINST THE PROOF"
    assert endings == {"one/argmax": kept, "one/draw": broken, "two/argmax": kept, "two/draw": broken}
    assert all("by step 6" in row["bound"] and row["premises"] == "all hold" for row in table(run).values())
    drawn = [one.numbers["ended"].value for one in run.cells if one.cell["decoder"] == "draw"]
    assert len(broken_promises(run)) == sum(value < 100 for value in drawn) > 0


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize(
    ("metrics", "taken"),
    [
        ("late: {name: ended, most: 9}\n  ended: {name: ended, most: 6}", "ended"),
        ("late: {name: ended, most: 9}\n  ended: {name: ended, most: 7}", None),
        ("ended: {name: ended, most: 6}\n  again: {name: ended, most: 6}", "ended"),
    ],
)
def test_a_metric_with_another_limit_is_not_held_against_a_promise(go, metrics, taken):
    run = go(**{"ended: {name: ended}": metrics, "seeds: 2": "seeds: 1"})
    assert {one.probes["sure"]["measured"].get("ended") for one in run.cells} == {taken}
    if taken is None:
        assert {row["measured"] for row in table(run).values()} == {"not measured"}
        assert broken_promises(run) == []


def test_a_probe_is_given_the_very_rows_that_are_decoded(go, tmp_path):
    """Of its split, and no more than the limits leave."""
    limits = "limits: {max_tokens: 6, examples: 3}\nsplits: [valid, test]"
    rows = {"rows: [decoder]": "rows: [decoder, split]", "seeds: 2": "seeds: 1"}
    run = go(**{"limits: {max_tokens: 6}": limits, "sure: {name: sure}": "seen: {name: seen}", **rows})
    seen = {}
    for one in run.cells:
        predictions = Store(tmp_path / "store").get("decode", one.artifacts["decode"]).file("predictions.jsonl.gz")
        ids = " ".join(str(prediction.id) for prediction in read_predictions(predictions))
        (said,) = one.probes["seen"]["statements"]
        assert said["says"] == ids
        assert one.probes["seen"]["numbers"] == {"rows": 3.0}
        seen.setdefault(one.cell["split"], set()).add(ids)
    assert {len(ids.split()) for every in seen.values() for ids in every} == {3}
    assert seen["valid"] != seen["test"], "else the test would not tell them apart"


def test_what_different_seeds_say_is_all_told(tmp_path):
    nothing = found(promises=None, bound="")
    nothing["statements"][0]["says"] = "nothing is proven within 6 tokens"
    cells = [probed("rnn", "greedy", 0, 0.0), probed("rnn", "greedy", 1, 0.0, nothing)]
    row = table(run_of(tmp_path, cells, {}))["rnn/greedy"]
    assert row["what follows"] == "every output ends; nothing is proven within 6 tokens"


def test_what_is_not_a_number_is_not_measured_and_breaks_no_promise(tmp_path):
    run = run_of(tmp_path, [probed("rnn", "greedy", 0, float("nan"), found())], {})
    assert table(run)["rnn/greedy"]["measured"] == "not measured"
    assert not broken_promises(run)


def test_numbers_of_probes_are_told_with_their_spread_over_seeds(tmp_path):
    def asked(seed, value):
        return replace(cell("rnn", "greedy", seed, {}), probes={"depth": {**found(), "numbers": {"bits": value}}})

    run = run_of(tmp_path, [asked(0, 1.0), asked(1, 2.0)], {})
    assert number_rows(run) == [[*OF_NUMBERS], ["rnn/greedy", "depth", "bits", "1.5", "0.71", "2"]]
    (_, zero) = number_rows(run_of(tmp_path / "zero", [asked(0, -0.0)], {}))
    assert zero[3] == "0"
    files = written(stored(run), tmp_path / "report")
    for name in ("report.md", "report.tex", "report.html"):
        assert re.search(r"depth.*bits.*1\.5.*0\.71", files[name].decode(), re.DOTALL), name


def test_a_probe_of_models_is_asked_once_for_all_decoders(go):
    run = go(**{"sure: {name: sure}": "seen: {name: seen}", "seeds: 2": "seeds: 1"})
    keys = {(one.cell["model"], one.artifacts["probe/seen"]) for one in run.cells}
    assert len(run.cells) == 2 * len(keys) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rows": 1.0}, "Wrong.ask gave {'rows': 1.0}; expected a Finding."),
        (Finding({"bits": "many"}), "as 'bits'; expected a float."),
        (Finding(statements=("it ends",)), "among statements; expected a Statement."),
    ],
)
def test_what_is_no_finding_is_refused_by_name(given, told):
    class Wrong(Probe):
        def ask(self, model, decoder, batches):
            return given

    with pytest.raises(PluginError, match=re.escape(told)):
        check_finding(given, Wrong(None))
