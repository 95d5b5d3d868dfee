"""Claims that are judged together: what one implies, Holm's correction, and how many hold by chance."""

from __future__ import annotations

import json
import re
from random import Random

import numpy as np
import pytest
from bench_small.runs import cell, number, run_of, sampled, stored, with_sections, written

from bench_reports.content.claims import judge
from bench_reports.language.schema import Claim

NAMES = ("a", "b", "c")


def claim(name, expression, **more):
    return Claim.model_validate({"id": name, "text": "", "assert": expression, **more})


def with_claims(run, *claims):
    return with_sections(run, claims=[*claims])


def verdicts(run, *claims):
    return {one.claim.id: one for one in judge(with_claims(run, *claims))}


def rates(tmp_path, **values):
    cells = [
        cell(name, "greedy", seed, {"rate": number(value, bounds=(0, 100))})
        for name, several in values.items()
        for seed, value in enumerate(several)
    ]
    return run_of(tmp_path, cells, {}, names=(*values,))


def v(name, metric="rate"):
    return f"v('{metric}', model='{name}')"


ONE = {"a": [1.0, 1.1, 0.9], "b": [1.5, 1.2, 1.75], "c": [1.0, 1.2, 0.9]}


def test_a_claim_that_implies_one_that_is_not_shown_is_not_shown_itself(tmp_path):
    run, stronger, weaker = (
        rates(tmp_path, **ONE),
        claim("S", f"{v('a')} < {v('b')}"),
        claim("W", f"{v('a')} < {v('b')} or {v('a')} < {v('c')}"),
    )
    alone, both = verdicts(run, stronger), verdicts(run, stronger, weaker)
    assert alone["S"].verdict == "holds"
    assert both["W"].verdict == both["S"].verdict == "unclear"
    assert both["S"].p == alone["S"].p
    assert both["S"].adjusted == both["W"].p == pytest.approx(2 * both["S"].p)
    assert both["S"].remarks[0].startswith("it implies W, which does not hold (p = 0.0")


def test_a_claim_does_not_fail_while_one_that_implies_it_does_not(tmp_path):
    weaker, stronger = claim("W", f"{v('b')} < {v('a')}"), claim("S", f"{v('b')} < {v('a')} and {v('c')} < {v('a')}")
    run = rates(tmp_path, **ONE)
    assert verdicts(run, weaker)["W"].verdict == "fails"
    both = verdicts(run, weaker, stronger)
    assert both["W"].verdict == both["S"].verdict == "unclear"
    assert "S, which implies it, does not fail" in both["W"].remarks


def test_claims_that_imply_nothing_of_each_other_are_judged_as_if_alone(tmp_path):
    run = rates(tmp_path, **ONE)
    some = [claim("X", f"{v('a')} < {v('b')}"), claim("Y", f"{v('a')} < {v('c')}"), claim("Z", f"{v('c')} < 1")]
    together = verdicts(run, *some)
    assert all(together[one.id] == verdicts(run, one)[one.id] for one in some)


def test_primary_claims_are_corrected_for_their_number(tmp_path):
    run = rates(tmp_path, **ONE)

    def family(count, **more):
        others = [claim(f"O{n}", f"{v('c')} < {n + 2}", primary=True) for n in range(count - 1)]
        return verdicts(run, claim("P", f"{v('a')} < {v('b')}", primary=True, **more), *others)["P"]

    alone, three = family(1), family(3)
    assert (alone.verdict, three.verdict) == ("holds", "holds")
    assert alone.remarks[0] == f"p = {alone.p:.2g} after Holm's correction over 1 primary claim"
    lone = verdicts(
        run,
        *[
            claim(f"P{n}", text, primary=True)
            for n, text in enumerate([f"{v('a')} < {v('b')}", f"{v('a')} < {v('c')}"])
        ],
    )
    assert lone["P0"].verdict == "unclear"
    assert lone["P0"].adjusted == pytest.approx(2 * lone["P0"].p)
    assert lone["P1"].adjusted == pytest.approx(max(lone["P1"].p, 2 * lone["P0"].p))


def test_primary_claims_that_were_not_tested_count_too(tmp_path):
    run = rates(tmp_path, **ONE)
    missing = claim("M", "v('rate', model='lstm') > 1", primary=True)
    one = verdicts(run, claim("P", f"{v('a')} < {v('b')}", primary=True), missing)["P"]
    assert one.adjusted == pytest.approx(2 * one.p)


def test_a_report_says_how_many_claims_there_are_and_how_many_would_hold_by_chance(tmp_path):
    run = rates(tmp_path, **ONE)
    some = [claim(f"C{n}", f"{v('a')} < {v('b')} + {n}") for n in range(4)]
    run = stored(
        with_claims(run, *some, claim("P", f"{v('a')} < 50", primary=True), claim("M", "v('rate', model='lstm') > 1"))
    )
    files = written(run, tmp_path / "report")
    line = (
        "6 claims, 5 tested; 1 primary, with a family-wise error rate of at most 5 %; "
        "if none were true, at most 0.2 of the others would be expected to hold by chance."
    )
    for name in ("report.md", "report.html", "report.tex"):
        assert line in re.sub(r"\s+", " ", files[name].decode()).replace("\\%", "%"), name
    recorded = {one["id"]: one for one in json.loads(files["results.json"])["claims"]}
    assert recorded["P"]["primary"]
    assert not recorded["C0"]["primary"]


def pair(generator):
    """Return two claims about three values, of which the first implies the second."""
    a, b, c = (v(name) for name in generator.sample(NAMES, 3))
    low, more = generator.choice([1, 2, 5, 20, 50]), generator.choice([0.5, 1, 3, 30])
    atom = generator.choice(
        [f"{a} < {b}", f"{a} <= {low}", f"{a} > {b} + {more}", f"{a} > 1.5 * {b}", f"abs({a} - {b}) < {more}"]
    )
    other = generator.choice([f"{b} < {c}", f"{c} > {low}", f"not ({c} < {b})", f"{c} - {b} > {b} - {a}"])
    return generator.choice(
        [
            (f"{a} <= {low}", f"{a} <= {low + more}"), (f"{atom} and {other}", atom), (atom, f"{atom} or {other}"),
            (f"{a} > {b} + {more}", f"{a} > {b}"), (f"max({a}, {b}) < {c}", f"{a} < {c}"), (f"{a} < {b}", f"min({a}, {c}) < {b}"),
            (f"in_every_training({atom} and {other})", f"in_every_training({other})"),
            (f"in_every_training({atom})", f"in_every_training({atom} or {other})"),
            (f"{a} >= 1.5 * {b} + {more}", f"{a} > {b}"), (f"abs({a} - {b}) < {more}", f"{a} < {b} + {more}"),
            (f"{a} < {b} < {c}", f"{a} < {c}"), (f"not ({atom} or {other})", f"not ({other})"), (f"{a} <= {low}", f"{a} <= {b} + {low}"),
        ]
    )  # fmt: skip


def runs(tmp_path, generator, scale):
    """Yield runs of three values that are often equal, zero or far apart, in one to four trainings."""
    number_of = 0
    while True:
        number_of += 1
        seeds, size = generator.choice([1, 2, 3, 3, 4]), generator.choice([30, 60, 120])
        drawn = np.random.default_rng(generator.randrange(2**32))
        if scale == "share":
            chance = {name: drawn.choice([0, 0, 0.01, 0.05, 0.1, 0.3, 0.9], seeds) for name in NAMES}
            hard = drawn.random(size)
            samples = {
                m: [(100.0 * (0.5 * hard + 0.5 * drawn.random(size) < p)).tolist() for p in each]
                for m, each in chance.items()
            }
        else:
            level = {name: drawn.choice([1, 2, 2.5, 20, 60]) for name in NAMES}
            samples = {
                m: [(x + drawn.normal(0, 1) + drawn.normal(0, 2, size)).clip(0, 100).tolist() for _ in range(seeds)]
                for m, x in level.items()
            }
        folder = tmp_path / str(number_of)
        folder.mkdir()
        cells = sampled(folder, samples, scale=scale, bounds=(0, 100))
        yield run_of(folder, cells, {}, names=NAMES)


def incoherent(tmp_path, seed, count, pairs_each=20):
    """Yield pairs of claims of which the stronger holds and the weaker does not, or the weaker fails alone."""
    generator = Random(seed)
    for scale in ("share", "linear"):
        (tmp_path / scale).mkdir()
        some = runs(tmp_path / scale, generator, scale)
        for _ in range(count // pairs_each // 2):
            run = next(some)
            for _ in range(pairs_each):
                texts = pair(generator)
                stronger, weaker = judge(with_claims(run, *map(claim, ("S", "W"), texts)))
                if stronger.verdict.startswith("holds") and not weaker.verdict.startswith("holds"):
                    yield texts, stronger, weaker
                if weaker.verdict.startswith("fails") and not stronger.verdict.startswith("fails"):
                    yield texts, stronger, weaker


def test_no_claim_holds_without_what_it_implies(tmp_path):
    assert [*incoherent(tmp_path, 1, 80)] == []


@pytest.mark.nightly
def test_of_ten_thousand_pairs_none_has_the_stronger_claim_hold_and_the_weaker_not(tmp_path):
    assert [*incoherent(tmp_path, 2, 10_000)] == []


def test_pairs_find_verdicts_that_do_not_respect_implication(tmp_path, monkeypatch):
    from bench_reports.content import claim_families

    monkeypatch.setattr(claim_families, "_demote", lambda *_: False)
    assert [*incoherent(tmp_path, 1, 80)]
