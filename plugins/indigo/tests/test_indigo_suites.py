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
CONTROLS = "controls"  # whose outputs are exact or wrong
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
    wanted = "exact" if path.stem == CONTROLS else "bleu"
    assert path.stem == TIMES or all(metric == wanted and decoder for _, metric, decoder in chosen), chosen


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


@pytest.mark.parametrize("profile", ["smoke", "small", "paper"])
def test_controls_are_evaluated_after_the_last_update_of_one_schedule(profile):
    trainings = [training for _, _, training in entries(load(SUITES / "controls.yaml", profile))]
    assert len(trainings) > 6
    assert all(training == trainings[0] for training in trainings)
    assert trainings[0].evaluate_every == trainings[0].updates
    assert trainings[0].schedule[0].share == 0.3


@pytest.mark.parametrize("profile", ["small", "paper"])
def test_claims_about_searched_orders_have_the_premise_that_controls_tell(profile):
    for claim in language(load(SUITES / "controls.yaml", profile)).claims:
        about_search = any(dict(query.axes).get("model") == "annealed" for query in read(claim.expression).queries)
        assert bool(claim.requires) == about_search, claim.id
        assert not about_search or any("'right'" in text for text in claim.requires.values()), claim.id


@pytest.mark.parametrize("profile", ["smoke", "small", "paper"])
def test_recipes_differ_in_one_thing_at_a_time(profile):
    suite = load(SUITES / "recipes.yaml", profile)
    by_name = {name: training for name, _, training in entries(suite)}
    for weights in ("uniform", "annealed"):
        alone, bootstrapped = by_name[weights], by_name[f"bootstrap-{weights}"]
        assert sum(phase.updates for phase in alone.phases) == sum(phase.updates for phase in bootstrapped.phases)
        assert [phase.more["order"] for phase in bootstrapped.phases] == ["l2r", "searched"]
        assert [phase.more.get("weights", "uniform") for phase in (alone.phases[-1], bootstrapped.phases[-1])] == [
            weights
        ] * 2
    for prefix in ("", "bootstrap-"):
        first, second = (by_name[f"{prefix}{weights}"].phases[-1] for weights in ("uniform", "annealed"))
        kept = ("updates", "schedule", "warmup", "optimizer", "reset", "lr")
        assert all(getattr(first, key) == getattr(second, key) for key in kept)
    assert by_name["slots-first"] == by_name["bootstrap-annealed"]
