"""Claims about what trainings cost: `v('cost.train.cpu_seconds', model='lstm')`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_small.runs import cell, number, run_of, with_sections
from bench_small.suites import SUITE

from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.content.claims import judge
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim

CHEAPER = "v('cost.train.cpu_seconds', model='rnn') < v('cost.train.cpu_seconds', model='lstm')"
SECONDS = {"rnn": [10.0, 11.0, 10.5], "lstm": [20.0, 22.0, 21.0]}


def judged(tmp_path, expression=CHEAPER, seconds=SECONDS, **requires):
    """Return what becomes of a claim, in a run of two decoders for each training."""
    trainings = [(model, seed) for model, several in seconds.items() for seed in range(len(several))]
    cells = [
        replace(
            cell(model, decoder, seed, {"rate": number(1.0)}), artifacts={"train": f"{model}{seed}".ljust(64, "t")}
        )
        for model, seed in trainings
        for decoder in ("greedy", "beam")
    ]
    run = run_of(tmp_path, cells, {})
    claim = Claim.model_validate({"id": "C", "text": "t", "assert": expression, "requires": requires})
    run = with_sections(run, claims=[claim])
    run.folder.mkdir(exist_ok=True)
    lines = [
        f"train,x,{f'{model}{seed}'.ljust(16, 't')},99,{'' if (cost := seconds[model][seed]) is None else cost}"
        for model, seed in trainings
    ]
    (run.folder / "costs.csv").write_text("\n".join(["stage,what,key,seconds,cpu_seconds", *lines, ""]))
    (found,) = judge(run)
    return found


def test_a_cost_is_a_value_over_trainings_whatever_decodes_after_them(tmp_path):
    found = judged(tmp_path)
    assert found.verdict == "holds"
    assert [str(one) for one in found.values] == ["rnn 10.50 ± 0.50", "lstm 21.00 ± 1.00"]
    assert judged(tmp_path, CHEAPER.replace("<", ">")).verdict == "fails"


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ({"rnn": [10.0, 11.0, 30.0], "lstm": [12.0, 13.0, 11.0]}, "unclear"),
        ({"rnn": [10.0], "lstm": [20.0]}, "holds in this training run"),
        ({"rnn": [10.0, 11.0, 10.5], "lstm": [None] * 3}, "not run"),
        ({"rnn": [0.0] * 3, "lstm": [20.0, 22.0, 21.0]}, "not tested"),
    ],
)
def test_costs_that_vary_or_are_missing_show_nothing(tmp_path, seconds, verdict):
    assert judged(tmp_path, seconds=seconds).verdict == verdict


def test_factors_of_costs_are_tested(tmp_path):
    twice = f"ratio({CHEAPER.replace(' <', ',')})"
    assert judged(tmp_path, f"{twice} < 0.7").verdict == "holds"
    assert judged(tmp_path, f"{twice} < 0.3").verdict == "fails"


def test_premises_speak_of_costs_too(tmp_path):
    found = judged(tmp_path, slow="v('cost.train.cpu_seconds', model='lstm') > 100")
    assert found.verdict == "not tested"


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("v('cost.train.second', model='one') < 1", "no training cost is called 'cost.train.second'"),
        ("v('cost.decode.seconds', model='one') < 1", "no training cost is called 'cost.decode.seconds'"),
        ("v('cost.train.seconds', task='words') < 1", "does not say which model"),
        ("v('cost.train.seconds', model='one') == 1", "no test can show that measured numbers are equal"),
        ("v('cost.train.seconds', model='one') >= 0", "this is true for all scores within the bounds"),
    ],
)
def test_a_claim_about_costs_that_says_nothing_is_refused(suite_file, expression, told):
    claims = f'claims: [{{id: C, text: t, assert: "{expression}"}}]\nprofiles:'
    with pytest.raises(SuiteError, match=told):
        load(suite_file(SUITE.replace("profiles:", claims)))


def test_a_claim_about_the_cost_of_seeds_that_share_one_training_is_refused(suite_file):
    fits = "claims: [{id: C, text: t, assert: \"v('cost.train.seconds', model='one') < 1\"}]\nprofiles:"
    text = SUITE.replace("profiles:", fits)
    assert language(load(suite_file(text))).claims
    with pytest.raises(SuiteError, match="vmapped seeds share one training cost"):
        load(suite_file(text.replace("epochs: 3,", "epochs: 3, vmap_seeds: true,")))
