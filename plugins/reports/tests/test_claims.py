"""Claims: what a suite may ask for, and how a run answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from bench_small.runs import HOSTILE, cell, number, run_of, sampled, stored, with_sections, written
from bench_small.suites import SUITE
from markdown_it import MarkdownIt
from scipy.stats import binomtest, ttest_1samp, ttest_ind

from bench_core.errors import SuiteError
from bench_core.runs.results import Score
from bench_core.suites.load import load
from bench_reports.content.claims import judge
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim
from bench_reports.render.report import screen, write_report

SEEDS = 10


def claim(expression, text="", name="C"):
    return Claim.model_validate({"id": name, "text": text, "assert": expression})


def run_with(tmp_path, cells, *expressions, **info):
    run = run_of(tmp_path, cells, {}, **info)
    claims = [one if isinstance(one, Claim) else claim(one) for one in expressions]
    return with_sections(run, claims=claims)


def cells_of(**values):
    """Return cells of greedy decoding with the rates of each model, seed by seed."""
    return [
        cell(model, "greedy", seed, {"rate": number(value)})
        for model, rates in values.items()
        for seed, value in enumerate(rates)
    ]


def judged(tmp_path, cells, expression, **info):
    (one,) = judge(run_with(tmp_path, cells, expression, **info))
    return one


LESS = "v('rate', model='rnn') < v('rate', model='lstm')"


@pytest.mark.parametrize(
    ("rnn", "lstm", "verdict"),
    [
        ([1.0] * SEEDS, [2.0] * SEEDS, "holds"),
        ([2.0] * SEEDS, [1.0] * SEEDS, "fails"),
        ([1.0] * SEEDS, [1.0] * SEEDS, "vacuous"),
        ([0.0, 1.0] * 5, [0.9, 0.2] * 5, "unclear"),
        ([0.9, 0.2] * 5, [0.0, 1.0] * 5, "unclear"),
        ([1.0], [2.0], "holds in this training run"),
        ([2.0], [1.0], "fails in this training run"),
        ([1.0, 1.1], [2.0, 2.2], "holds in these training runs"),
        ([1.0, 1.1, 0.9], [2.0, 2.2, 2.1], "holds"),
    ],
)
def test_verdicts(tmp_path, rnn, lstm, verdict):
    assert judged(tmp_path, cells_of(rnn=rnn, lstm=lstm), LESS).verdict == verdict


def test_decodings_of_the_same_trainings_are_paired_by_seed(tmp_path):
    """Every seed bears the claim out, however different seeds are from each other."""
    values = {"greedy": [10.0 * seed for seed in range(SEEDS)]}
    values["beam"] = [value + 0.1 + seed / 1_000 for seed, value in enumerate(values["greedy"])]
    cells = [
        replace(one, artifacts={"train": str(seed)})
        for decoder, rates in values.items()
        for seed, one in enumerate(
            cell("rnn", decoder, seed, {"rate": number(rate)}) for seed, rate in enumerate(rates)
        )
    ]
    less = "v('rate', decoder='greedy') < v('rate', decoder='beam')"
    assert judged(tmp_path, cells, less).verdict == "holds"
    apart = [replace(one, artifacts={}) for one in cells]
    assert judged(tmp_path, apart, less).verdict == "unclear"


FIXED = {"rnn": {"parameters": 10}, "lstm": {"parameters": 0, "one_system": True}}


def test_all_seeds_are_compared_with_a_system_that_is_one_and_the_remark_says_so(tmp_path):
    """Its one number stands beside every seed, and variance of trainings that it does not have is not asked for."""
    cells = cells_of(rnn=[1.0, 1.1, 0.9], lstm=[2.0])
    (one,) = judge(run_with(tmp_path, cells, LESS, models=FIXED))
    assert one.verdict == "holds"
    assert one.remarks == ["lstm is a fixed system: its training variance is unknown"]
    assert one.p == pytest.approx(ttest_1samp([1.0, 1.1, 0.9], 2.0, alternative="less").pvalue, rel=1e-3)
    (reverse,) = judge(run_with(tmp_path, cells, "v('rate', model='rnn') > v('rate', model='lstm')", models=FIXED))
    assert reverse.verdict == "fails"


def test_a_report_explains_the_verdicts_that_it_gives(tmp_path):
    def explained(**values):
        run = run_with(tmp_path, cells_of(**values), LESS)
        text = written(run, tmp_path / "report")["report.md"].decode()
        return [word for word in ("With fewer than three", "Vacuous:", "Not tested:") if word in text]

    assert explained(rnn=[1.0, 1.1], lstm=[2.0, 2.1]) == ["With fewer than three"]
    assert explained(rnn=[1.0, 1.1, 0.9], lstm=[2.0, 2.1, 2.2]) == []


def test_one_seed_of_a_model_without_parameters_is_no_system_that_stands_as_it_is(tmp_path):
    cells = cells_of(rnn=[1.0, 1.1, 0.9], lstm=[2.0])
    about = {"rnn": {"parameters": 10}, "lstm": {"parameters": 0}}
    (one,) = judge(run_with(tmp_path, cells, LESS, models=about))
    assert one.remarks[0].startswith("based on 1 seed; others have missing values")
    assert not any("fixed system" in text for text in one.remarks)


def test_several_seeds_of_a_system_that_is_one_are_none(tmp_path):
    """A run that was merged, or made by an older version, may have them: they are judged as seeds."""
    (one,) = judge(run_with(tmp_path, cells_of(rnn=[1.0, 1.1], lstm=[2.0, 2.0]), LESS, models=FIXED))
    assert not any("fixed system" in text for text in one.remarks)


def test_the_p_value_of_a_claim_is_that_of_its_test(tmp_path):
    rnn, lstm = [1.0, 1.3, 1.1, 0.7], [1.5, 1.2, 1.9, 1.4]
    one = judged(tmp_path, cells_of(rnn=rnn, lstm=lstm), LESS)
    assert one.p == pytest.approx(ttest_ind(rnn, lstm, equal_var=False, alternative="less").pvalue, rel=1e-4)
    assert one.record()["p"] == float(f"{one.p:.3g}")


def test_claims_are_tested_over_examples_too(tmp_path):
    def verdict(ours, theirs):
        hard = np.random.default_rng(0).normal(size=200)
        samples = {
            name: [(mean + hard + np.random.default_rng(seed).normal(size=200)).tolist() for mean in means]
            for name, (means, seed) in {"rnn": (ours, 1), "lstm": (theirs, 2)}.items()
        }
        return judged(tmp_path, sampled(tmp_path, samples), LESS).verdict

    assert verdict([5], [7]) == "holds in this training run"
    assert verdict([7], [5]) == "fails in this training run"
    assert verdict([5], [5.03]) == "unclear"
    assert verdict([5, 5.1, 5], [7, 7.2, 7]) == "holds"


def test_what_is_equal_without_any_variation_is_vacuous_and_shows_nothing_in_a_conjunction(tmp_path):
    def of(**cases):
        samples = {name: [[100.0] * some + [0.0] * (200 - some)] * 3 for name, some in cases.items()}
        return sampled(tmp_path, samples, scale="share")

    for text in (
        "v('rate', model='rnn') >= v('rate', model='lstm')",
        "not v('rate', model='rnn') < v('rate', model='lstm')",
    ):
        assert judged(tmp_path, of(rnn=0, lstm=0), text).verdict == "vacuous"
    both = "all(v('rate', model='rnn') < v('rate', model=m) for m in ['lstm', 'gru'])"
    one = judged(tmp_path, of(rnn=0, lstm=150, gru=0), both, names=("rnn", "lstm", "gru"))
    assert one.verdict == "unclear"
    left_out = "v('rate', model='rnn') < v('rate', model='gru')"
    assert one.remarks[0] == f"1 of 2 comparisons could not have turned out differently: {left_out}"
    assert judged(tmp_path, of(rnn=0, lstm=150), both.replace(", 'gru'", "")).verdict == "holds"


def test_equal_values_that_lie_at_no_bound_are_no_vacuous_ones(tmp_path):
    """Two systems with the same outputs are not unlike each other, which a claim of a difference must admit."""
    samples = {name: [[100.0] * 10 + [0.0] * 90] * 3 for name in ("rnn", "lstm")}
    assert judged(tmp_path, sampled(tmp_path, samples, scale="share"), LESS).verdict == "unclear"
    assert judged(tmp_path, sampled(tmp_path, samples, bounds=(0, 100)), LESS).verdict == "unclear"
    assert judged(tmp_path, sampled(tmp_path, samples, bounds=(10, 90)), LESS).verdict == "vacuous"


def test_a_margin_beside_zeros_is_tested_by_what_zeros_may_hide(tmp_path):
    """0 of 200 may come from more than 1 %, 0 of 20,000 from 0.02 %."""
    text = "v('rate', model='rnn') + 0.1 >= v('rate', model='lstm')"
    few, many = (
        sampled(tmp_path, {m: [[0.0] * size] * 3 for m in ("rnn", "lstm")}, scale="share") for size in (200, 20_000)
    )
    assert judged(tmp_path, many, text).verdict == "holds"
    sampled(tmp_path, {m: [[0.0] * 200] * 3 for m in ("rnn", "lstm")}, scale="share")
    assert judged(tmp_path, few, text).verdict == "unclear"


@pytest.mark.parametrize(
    ("cases", "verdict"), [(0, "holds in this training run"), (1, "unclear"), (12, "fails in this training run")]
)
def test_a_share_of_one_training_is_tested_exactly(tmp_path, cases, verdict):
    """P(none of 200 | 2 %) = 0.018, P(at most one) = 0.09, P(12 or more) = 0.001."""
    cells = sampled(tmp_path, {"rnn": [[100.0] * cases + [0.0] * (200 - cases)]}, scale="share")
    one = judged(tmp_path, cells, "v('rate', model='rnn') < 2")
    assert one.verdict == verdict
    assert one.p == pytest.approx(binomtest(cases, 200, 0.02, "less").pvalue)


def test_a_premise_that_is_not_met_leaves_a_claim_untested_and_is_named(tmp_path):
    def verdict(**requires):
        one = claim(LESS).model_copy(update={"requires": requires})
        return judged(tmp_path, cells_of(rnn=[1.0, 1.1, 0.9], lstm=[2.0, 2.2, 2.1]), one)

    assert verdict(trained="v('rate', model='lstm') < 3").verdict == "holds"
    lacking = verdict(trained="v('rate', model='lstm') < 2", other="v('rate', model='rnn') < 2")
    assert lacking.verdict == "not tested"
    assert lacking.remarks == ["premise not supported: trained (lstm 2.10 ± 0.10; p = 0.89)"]
    refuted = verdict(trained="v('rate', model='lstm') < 1.5")
    assert (refuted.verdict, refuted.remarks[0][:25]) == ("not tested", "premise refuted: trained ")
    unknown = verdict(trained="v('nats', model='lstm') < 2")
    assert unknown.verdict == "not tested"
    assert unknown.remarks == ["premise not tested: trained (v('nats', model='lstm') is missing: not measured)"]


def test_a_premise_that_is_true_of_the_means_and_no_more_is_not_shown(tmp_path):
    one = claim(LESS).model_copy(update={"requires": {"trained": "v('rate', model='lstm') < 2.15"}})
    found = judged(tmp_path, cells_of(rnn=[1.0, 1.1, 0.9], lstm=[2.0, 2.2, 2.1]), one)
    assert found.verdict == "not tested"
    assert found.remarks[0].startswith("premise not supported: trained (lstm 2.10 ± 0.10; p = 0.2")


def test_a_difference_below_the_error_of_an_estimate_is_not_tested(tmp_path):
    def verdict(error):
        rates = {"rnn": [1.0, 1.01, 0.99], "lstm": [1.2, 1.21, 1.19]}
        cells = [
            cell(model, "greedy", seed, {"rate": number(rate, error=error, kind="estimate")})
            for model, values in rates.items()
            for seed, rate in enumerate(values)
        ]
        return judged(tmp_path, cells, LESS)

    assert verdict(0.0).verdict == "holds"
    assert verdict(0.5).verdict == "not tested"
    assert "smaller than an estimate's error" in verdict(0.5).remarks[0]
    assert verdict(0.1).verdict == "unclear"


def test_without_what_tests_need_a_claim_is_not_tested_and_says_so(tmp_path):
    cells = [cell(m, "greedy", s, {"rate": number(1.0 + s, scale="")}) for m in ("rnn", "lstm") for s in range(3)]
    one = judged(tmp_path, cells, LESS)
    assert one.verdict == "not tested"
    assert one.remarks[0] == "not true for the means"
    assert "measured by an older version" in one.remarks[1]


def test_what_is_no_number_makes_a_claim_unclear_and_infinity_does_not(tmp_path):
    cells = cells_of(rnn=[1.0, nan], lstm=[1.0, inf])
    assert judged(tmp_path, cells, LESS).verdict == "unclear"
    assert judged(tmp_path, cells, LESS).remarks == ["v('rate', model='rnn') is not a number"]
    one = judged(tmp_path, cells, "v('rate', model='lstm') > 0")
    assert (one.verdict, one.remarks[0]) == ("not tested", "true for the means")
    assert one.remarks[1].endswith("not all numbers of its seeds and replicates are finite")


def test_a_value_that_is_missing_is_named_with_the_reason(tmp_path):
    cells = [
        *cells_of(rnn=[1.0, 2.0]),
        cell("lstm", "greedy", 0, status="failed", reason="the loss is nan"),
        cell("lstm", "greedy", 1, status="not run", reason="interrupted"),
    ]
    one = judged(tmp_path, cells, LESS)
    assert one.verdict == "not run"
    assert one.remarks == ["v('rate', model='lstm') is missing: failed, the loss is nan; not run, interrupted"]
    assert [str(value) for value in one.values] == ["rnn 1.50 ± 0.71", "lstm failed"]
    alone = judged(tmp_path, [*cells_of(rnn=[1.0]), cell("lstm", "greedy", 0)], LESS)
    assert alone.remarks == ["v('rate', model='lstm') is missing: not measured"]
    own = [*cells_of(rnn=[1.0]), cell("lstm", "greedy", 0, {"rate": Score(reason="no stop")}, "failed", "other")]
    assert judged(tmp_path, own, LESS).remarks == ["v('rate', model='lstm') is missing: failed, no stop"]


def test_a_name_that_the_profile_left_out_is_missing(tmp_path):
    one = judged(tmp_path, cells_of(rnn=[1.0]), "v('rate', model='gru') > 0", profile="small")
    assert (one.verdict, one.remarks) == (
        "not run",
        ["v('rate', model='gru') is missing: the run has no such cell (profile small)"],
    )
    assert judged(tmp_path, cells_of(rnn=[1.0]), "v('bleu') > 0").verdict == "not run"


def test_seeds_that_lack_a_value_are_left_out_everywhere_and_told(tmp_path):
    cells = [*cells_of(rnn=[0.0, 9.0, 0.0], lstm=[1.0, 1.0])]
    cells += [cell("lstm", "greedy", 2, status="failed", reason="out of memory")]
    cells[1] = cell("rnn", "greedy", 1, status="not run", reason="interrupted")
    one = judged(tmp_path, cells, LESS)
    assert one.verdict == "holds in this training run"
    assert one.remarks == [
        "based on 1 seed; others have missing values (v('rate', model='rnn'): not run, interrupted; "
        "v('rate', model='lstm'): failed, out of memory)"
    ]
    cells[0] = cell("rnn", "greedy", 0, status="failed")
    assert judged(tmp_path, cells, LESS).remarks == ["no seed has all of the values"]


def test_seeds_of_two_signatures_make_a_claim_unclear(tmp_path):
    cells = [cell("rnn", "greedy", s, {"rate": number(1.0, signature=f"v{s}")}) for s in (0, 1)]
    one = judged(tmp_path, cells, "v('rate') > 0")
    assert (one.verdict, one.remarks) == ("unclear", ["the numbers of v('rate') differ in kind or signature between seeds",
                                                      "the values of 'rate' differ in kind or signature"])  # fmt: skip


def test_a_bound_is_shown_as_one_and_a_comparison_with_other_kinds_is_remarked(tmp_path):
    kinds = {"rnn": "exact", "lstm": "bound"}
    cells = [cell(m, "greedy", s, {"rate": number(2.0, kind=k)}) for m, k in kinds.items() for s in (0, 1)]
    one = judged(tmp_path, cells, LESS)
    assert [str(value) for value in one.values] == ["rnn 2.00 ± 0.00", "lstm ≤ 2.00 ± 0.00"]
    assert (one.verdict, one.remarks[1]) == ("vacuous", "the values of 'rate' differ in kind or signature")


def test_cells_that_share_one_measurement_are_one_value(tmp_path):
    def cells(*keys):
        found = [cell("rnn", decoder, 0, {"rate": number(1.0)}) for decoder in ("greedy", "beam")]
        return [replace(one, artifacts={"measure/rate": key}) for one, key in zip(found, keys, strict=True)]

    assert judged(tmp_path, cells("a", "a"), "v('rate') == 1").verdict == "holds in this training run"
    one = judged(tmp_path, cells("a", "b"), "v('rate') == 1")
    assert one.remarks == ["v('rate') is missing: several cells match: decoder greedy or beam"]


def test_a_run_with_a_claim_that_cannot_be_read_is_still_reported(tmp_path):
    run = stored(run_with(tmp_path, cells_of(rnn=[1.0]), "exit()", "v('rate', model='rnn') == 1"))
    files = written(run, tmp_path / "report")
    assert [one["verdict"] for one in json.loads(files["results.json"])["claims"]] == [
        "not run",
        "holds in this training run",
    ]


def test_reports_tell_claims_verdicts_and_values(tmp_path):
    cells = cells_of(rnn=[1.0, 2.0], lstm=[3.0, 5.0])  # two seeds
    run = stored(run_with(tmp_path, cells, claim(LESS, "RNNs do\nbetter", "M2"), claim("v('rate', model='rnn') < 1")))
    files = written(run, tmp_path / "report")
    text = files["report.md"].decode()
    assert text.index("## t") < text.index("## Claims")
    assert re.search(r"\| M2 +\| holds in these training runs +\| RNNs do better +\|", text)
    assert re.search(r"\| C +\| fails in these training runs +\| +\|", text)
    assert "- M2: rate rnn 1.50 ± 0.71, lstm 4.00 ± 1.41; p &lt; 1e-6.\n" in text
    assert "A claim holds if its p-value is at most 5 %" in text
    assert r"\item[M2, holds in these training runs] RNNs do" in files["report.tex"].decode()
    assert "M2       holds in these training runs  RNNs do better" in screen(run)
    assert "  M2: rate rnn 1.50 ± 0.71, lstm 4.00 ± 1.41; p < 1e-6." in screen(run)
    first = json.loads(files["results.json"])["claims"][0]
    assert {name: value for name, value in first.items() if name != "values"} == {
        "id": "M2", "text": "RNNs do\nbetter", "assert": LESS, "verdict": "holds in these training runs", "p": 1e-12,
        "adjusted": None, "primary": False, "remarks": [], "note": "", "requires": {},
    }  # fmt: skip
    assert first["values"][1] == {
        "metric": "rate", "axes": {"model": "lstm"}, "status": "done", "reason": "", "mean": 4.0,
        "std": pytest.approx(2**0.5), "n": 2,
    }  # fmt: skip


def test_reports_without_claims_have_no_section(tmp_path):
    run = run_of(tmp_path, cells_of(rnn=[1.0]), {})
    files = written(run, tmp_path / "report")
    assert not any(b"Claims" in files[name] for name in ("report.md", "report.tex"))
    assert "Claims" not in screen(run)
    assert json.loads(files["results.json"])["claims"] == []


def hostile_claims(tmp_path):
    cells = [
        cell(HOSTILE, "greedy", 0, {"rate": number(1.0)}),
        cell("rnn", "greedy", 0, status="failed", reason=HOSTILE),
    ]
    claims = [claim(f"v('rate', model={HOSTILE!r}) > 0", HOSTILE), claim("v('rate', model='rnn') > 0", name="D")]
    run = run_with(tmp_path, cells, *claims, claim(HOSTILE, HOSTILE, "E"), names=(HOSTILE, "rnn"))
    return replace(run, suite=run.suite.model_copy(update={"note": HOSTILE}))


def test_hostile_claims_are_escaped(tmp_path):
    run = hostile_claims(tmp_path)
    assert [one.verdict for one in judge(run)] == ["holds in this training run", "not run", "not run"]
    files = written(run, tmp_path / "report")
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(files["report.md"].decode())
    assert "<script" not in html
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", files["report.md"].decode())
    text = files["report.tex"].decode()
    assert text.isascii()
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", screen(run))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_of_claims_compiles(tmp_path):
    folder = tmp_path / "report"
    write_report(hostile_claims(tmp_path), folder)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_note_stands_among_the_facts(tmp_path):
    run = run_of(tmp_path, [], {})
    run = replace(run, suite=run.suite.model_copy(update={"note": "Two\nlines.\n"}))
    assert "- Note: Two lines.\n" in written(run, tmp_path / "report")["report.md"].decode()


def mistakes(path, **options):
    with pytest.raises(SuiteError) as error:
        load(path, **options)
    return str(error.value).replace(str(path), "S")


def suite_with(*expressions, more=""):
    lines = [f'  - {{id: C{n}, text: t, assert: "{text}"}}\n' for n, text in enumerate(expressions)]
    return SUITE.replace("profiles:\n", f"claims:\n{''.join(lines)}profiles:\n") + more


LINE = SUITE[: SUITE.index("profiles:")].count("\n") + 2  # of the first claim


def test_claims_of_a_suite_are_resolved(suite_file):
    text = suite_with(
        "v('ended', model='one', decoder='draw') > 0", "all(v('nats', model=m) > 0 for m in ['one', 'two'])"
    )
    suite = load(suite_file(text))
    assert [one.id for one in language(suite).claims] == ["C0", "C1"]
    assert suite.effective["claims"][1]["assert"] == "all(v('nats', model=m) > 0 for m in ['one', 'two'])"


def test_all_mistakes_in_claims_are_told_at_once_with_their_place(suite_file):
    text = suite_with(
        "v('endde', model='oen', decoder='draw') > nothing",
        "v('ended', model='one') > 0",
        "v('ended', model='one', decoder='draw'",
        "v('ended', decoder='draw', split='dev', task='words', hardware='gpu') > 0",
        "v('ended', decoder='argmax', model='one') < foo()",
    )
    found = mistakes(suite_file(text)).splitlines()
    wanted = [
        (0, "no metric of this suite is called 'endde'. Did you mean 'ended'?"),
        (0, "no model of this suite is called 'oen'. Did you mean 'one'?"),
        (0, "unknown name 'nothing'."),
        (1, "v('ended', model='one') does not say which decoder: argmax, draw. Add one, such as `decoder='argmax'`."),
        (2, "not a valid expression: "),
        (3, "no hardware of this suite is called 'gpu'. Known: default."),
        (3, "no split of this suite is called 'dev'. Known: test."),
        (4, "unknown function 'foo'."),
    ]
    assert len(found) == len(wanted) + 1
    for line, (place, message) in zip(found, sorted(wanted), strict=False):
        assert line.startswith(f"S:{LINE + place}:23: {message}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{id: C, text: t}", "the key 'assert' is missing"),
        ("{id: C, text: t, asert: x, assert: \"v('nats', model='one') > 0\"}", "unknown key 'asert'. Did you mean 'assert'"),
        ("{id: C, text: t, assert: true}", "'assert' must be text (found true)"),
        ("{id: '', text: t, assert: \"v('nats', model='one') > 0\"}", "'id' has invalid characters"),
        ("{id: C, assert: \"v('nats', model='one') > 0\"}", "the key 'text' is missing"),
        ("v('nats', model='one') > 0", "an entry of 'claims' must be a mapping"),
    ],
)  # fmt: skip
def test_entries_that_are_no_claims_are_refused(suite_file, entry, message):
    text = SUITE.replace("profiles:\n", f"claims:\n  - {entry}\nprofiles:\n")
    found = mistakes(suite_file(text))
    assert message in found
    assert f"S:{LINE}:" in found


def test_two_claims_cannot_have_one_id(suite_file):
    text = suite_with("v('nats', model='one') > 0", "v('nats', model='two') > 0").replace("id: C1", "id: C0")
    assert f"S:{LINE + 1}:6: two claims have the id 'C0'." in mistakes(suite_file(text))


def test_an_axis_may_be_left_out_where_skips_leave_one_name(suite_file):
    text = suite_with("v('ended', decoder='argmax') > 0 and v('nats') > 0")
    skip = "seeds: 2\nskip: [{model: two, decoder: argmax}, {model: two, metric: nats}]\n"
    load(suite_file(text.replace("seeds: 2\n", skip)))
    assert "v('nats') does not say which model: one, two." in mistakes(suite_file(text))
    none = text.replace("decoder='argmax'", "decoder='argmax', model='two'").replace("seeds: 2\n", skip)
    found = mistakes(suite_file(none))
    assert "v('ended', model='two', decoder='argmax') has no value: the suite skips every matching cell" in found


def test_names_that_a_profile_leaves_out_are_no_mistakes(suite_file):
    text = suite_with(
        "v('ended', model='two', decoder='draw') > v('nats', model='one')",
        more="  less: {models: {two: null}, metrics: {ended: null}, tables: []}\n",
    )
    load(suite_file(text), "less")
    text = suite_with(
        "v('ended', model='two', decoder='draw', split='test') > 0", more="  other: {splits: [train]}\n"
    )
    load(suite_file(text), "other")
    assert "'three'" in mistakes(suite_file(text.replace("model='two'", "model='three'")), profile="other")


def test_a_grid_is_no_value(suite_file):
    text = suite_with("v('ended', model='two', decoder='draw') > 0 and v('nats', model='two/scale=1') > 0")
    text = text.replace("two: {name: bigram, scale: 2.0}", "two: {name: bigram, grid: {scale: [1, 2]}}")
    found = mistakes(suite_file(text))
    assert "model 'two' is a grid. Name one of its combinations, such as 'two/scale=1'." in found
    assert found.count("\n") == 0


def test_claims_come_out_of_a_run_as_they_should(suite_file, tmp_path):
    import bench_core

    text = suite_with("v('nats', model='one') > 0", "v('ended', model='one', decoder='argmax') > 99")
    run = bench_core.run(suite_file(text), profile="tiny", store=tmp_path / "store", out=tmp_path / "runs")
    assert [one.verdict for one in judge(run)] == ["holds in this training run", "fails in this training run"]
