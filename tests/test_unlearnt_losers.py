"""A claim that a model cannot do something does not hold of one that has learnt nothing, as after a single update."""

from __future__ import annotations

from pathlib import Path

import pytest
from claim_values import can, comparisons

import bench_core
from bench_core.suites.load import load
from bench_reports.content.claims import judge
from bench_reports.language.expressions import read
from bench_reports.language.of_suite import language

SUITES = Path(__file__).parent.parent / "suites"
UNTRAINED = {  # perplexities of the loser before it has learnt anything, which claims of its weakness must exclude
    "rnn/lag R5": "v('perplexity', task='lag-6', model='rnn') > 4",
    "rnn/lag R5-gru": "v('perplexity', task='lag-6', model='rnn') > 4",
    "rnn/bidirectional R7": "v('leak', model='bidirectional') > 40",
    "rnn/bptt R4": "v('perplexity', model='truncated-0', split='test') > 40",
    "rnn/bptt R4-detach": "v('perplexity', model='truncated-0', split='test') > 40",
    "rnn/bptt R4-none": "v('perplexity', model='truncated-0', split='test') > 40",
    "rnn/bptt R4-randomized": "v('perplexity', model='randomized-0.5', split='test') > 40",
    "rnn/bptt R4-regularization": "v('perplexity', model='truncated-5', split='test') > 40",
    "rnn/characters gates": "v('perplexity', model='rnn') > 40",
    "rnn/characters variants": "v('perplexity', model='rnn') > 40",
    "rnn/characters deep": "v('perplexity', model='lstm') > 40",
    "rnn/clipping R6-usual": "v('perplexity', task='characters', model='unclipped') < 48",
    "rnn/clipping R6-rate": "v('perplexity', task='characters', model='unclipped-10x') < 48",
    "rnn/clipping R6-exploding-unclipped": "v('perplexity', task='long', model='exploding') < 48",
    "rnn/partition sequential": "v('perplexity', task='random', model='gru') > 40",
    "rnn/encoders directions": "v('perplexity', model='forward') > 500",
    "rnn/encoders attention": "v('perplexity', model='bidirectional') > 500",
    "strlm/table-1 M2": "v('perplexity', model='tanh-rnn') > 3000",
    "strlm/table-8 M2": "v('perplexity', model='tanh-rnn') > 3000",
    "strlm/table-3 M5-1e-4": "v('perplexity', model='lstm-st-1e-4') > 3000",
    "strlm/table-9 M6": "v('perplexity', model='lstm-st-1e-2') > 3000",
    "strlm/table-9 repetition": "v('perplexity', model='lstm-st-1e-3') > 3000",
    "strlm/table-10 M7": "v('perplexity', model='tanh-rnn', split='test') > 3000",
    "strlm/table-4 M8-epsilon": "v('perplexity', model='gpt2-st-1e-3', task='wikitext-103') > 3000",
    "strlm/figure-3 M9": "v('perplexity', model='lstm-st-1e-3') > 3000",
}


def conditions(*texts):
    return [one for text in texts for one in comparisons(read(text).term)]


@pytest.mark.quick(6, 5)
@pytest.mark.parametrize("name", UNTRAINED)
def test_a_claim_holds_of_no_model_that_has_learnt_nothing(name):
    suite, _, claim = name.partition(" ")
    (about,) = (one for one in language(load(SUITES / f"{suite}.yaml")).claims if one.id == claim)
    wanted = conditions(about.expression, *about.requires.values())
    assert can(wanted)
    assert not can([*wanted, *conditions(UNTRAINED[name])])


@pytest.mark.parametrize(
    ("suite", "model", "claims"),
    [
        pytest.param("lag", "rnn", ["R5", "R5-gru"], marks=pytest.mark.nightly),
        pytest.param("bidirectional", "bidirectional", ["R7"], marks=pytest.mark.nightly),
    ],
)
def test_after_a_single_update_a_model_is_not_said_to_be_incapable(suite, model, claims, tmp_path):
    once = [f"models.{model}.training.{name}=1" for name in ("updates", "evaluate_every")]
    settings = [*once, f"models.{model}.training.epochs=null", "limits.scored=300"]
    run = bench_core.run(
        SUITES / f"rnn/{suite}.yaml",
        profile="smoke",
        settings=settings,
        store=tmp_path / "store",
        out=tmp_path / "runs",
    )
    verdicts = {one.claim.id: one.verdict for one in judge(run)}
    assert {name: verdicts[name] for name in claims} == dict.fromkeys(claims, "not tested")
