"""The suites of the paper, in every profile: searched orders are trained, selected and judged as the paper's are."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from bench_core.suites import yaml_source as located
from bench_core.suites.load import load as loaded
from bench_reports.language.expressions import read
from bench_reports.language.of_suite import language

SUITES = Path(__file__).parents[3] / "suites" / "indigo"
PROFILES = [
    pytest.param(path, profile, id=f"{path.stem}-{profile}")
    for path in sorted(SUITES.glob("*.yaml"))
    for profile in located.read(path).data["profiles"]
]
TIMES = "table-6"  # trains for some updates, to measure times alone
FEWEST_SEEDS = 3
load = cache(loaded)


def entries(suite):
    """Yield the name, the settings and the training of every model that is trained, for each task."""
    for name, model in suite.models.items():
        for task in suite.tasks:
            entry = model.at(task)
            if entry.training.trains:
                yield name, entry.config, entry.training


@pytest.mark.parametrize(("path", "profile"), PROFILES)
def test_models_are_selected_by_what_they_write(path, profile):
    suite = load(path, profile)
    chosen = [(name, one.select.metric, one.select.decoder) for name, _, one in entries(suite)]
    assert path.stem == TIMES or all(metric == "bleu" and decoder for _, metric, decoder in chosen), chosen


@pytest.mark.parametrize(("path", "profile"), PROFILES)
def test_searched_orders_begin_an_optimizer_a_warm_up_and_a_schedule_of_their_own(path, profile):
    for name, _, training in entries(load(path, profile)):
        for phase in training.phases[1:]:
            assert phase.optimizer is not None, name
            assert phase.warmup, name
            assert phase.schedule is not None, name


@pytest.mark.parametrize(("path", "profile"), PROFILES)
def test_claims_speak_of_the_outputs_that_tables_show(path, profile):
    suite = load(path, profile)
    candidates = {
        name for choice in language(suite).choose for several in choice.decoders.values() for name in several
    }
    terms = [text for claim in language(suite).claims for text in (claim.expression, *claim.requires.values())]
    by_decoder = {
        dict(query.axes).get("decoder") for text in terms for query in read(text).queries if not query.chosen
    }
    if path.stem != "figure-3":  # a claim about every width
        assert not by_decoder & candidates


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_small_has_three_seeds_and_states_its_cost(path):
    suite = load(path, "small")
    assert len(suite.seeds) >= FEWEST_SEEDS or not suite.models
    (row,) = (line for line in (SUITES / "README.md").read_text().splitlines() if f"| [`{path.name}`]" in line)
    assert any(sign.isdigit() for sign in row.rsplit("|", 2)[1])


def test_django_shares_its_vocabulary_and_is_read_20_to_50_times():
    suite = load(SUITES / "table-4.yaml", "paper")
    assert all(task.shared for task in suite.tasks.values())
    for _, config, training in entries(suite):
        assert config.shared
        assert (
            20 <= sum(phase.epochs for phase in training.phases) + (0 if training.phases else training.epochs) <= 50
        )
