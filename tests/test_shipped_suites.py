"""The trainings and claims of the shipped suites have none of the faults that once left claims untested.

`faults` recognises them by what models, metrics and schedules declare, and is tried on suites with a fault put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from claim_values import walk
from torch import nn

from bench_authors.testing import tiny_batch
from bench_core import Kind, Rng, Scoring, TaskInfo, Training
from bench_core.config import ModelConfig
from bench_core.planning.planner import likelihood
from bench_core.suites import yaml_source as located
from bench_core.suites.load import load
from bench_core.suites.suite import Suite
from bench_ecoc.plugin import ECOCLMConfig
from bench_reports.language.expressions import COMPARISONS, Term, read
from bench_reports.language.of_suite import language
from bench_ssm.plugin import DeepSSMConfig
from bench_training.optimizers import optimizers
from bench_training.schedules import LearningRates
from bench_training.settings import Schedule, TrainingConfig

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
SEEDS = 3  # of a verdict on other trainings than these
EPOCH, LOOKS = 100, 50  # updates of an epoch, whatever the corpus; places at which a rate is looked at
EQUALITIES = {"==", "!="}


@pytest.mark.quick(12)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_no_profile_of_a_shipped_suite_has_a_known_fault(path):
    for profile in (None, *located.read(path).data.get("profiles", ())):
        assert faults(load(path, profile)) == [], profile


def faults(suite: Suite) -> list[str]:
    """Return what would leave claims of a suite untested or empty, in words."""
    found = [*_by_readings(suite), *_early_falls(suite), *_few_seeds(suite), *_of_claims(suite)]
    return list(dict.fromkeys(found))


def _by_readings(suite: Suite) -> Iterator[str]:
    """Yield where weights are judged by a likelihood that they are not trained by."""
    for name, training, config in _trained(suite):
        judges = {"select": training.select, **({"stop": training.stop} if training.stop else {})}
        judged = {key: one.metric for key, one in judges.items()}
        plateau = any(one.name == "plateau" for _, several, _ in training.schedules for one in several)
        judged |= {f"choose {one.id}": one.by for one in language(suite).choose if not one.model or name in one.model}
        for key, metric in judged.items():
            by = likelihood(suite.metrics[metric], config)[0] if metric in suite.metrics else ""
            if by and by not in trained_by(config):
                also = ", and the plateau with it" if plateau and key == "select" else ""
                yield f"{name}: {key}{also} by {metric}, which reads {by}; trained by {' or '.join(trained_by(config))}"


def trained_by(config: ModelConfig) -> list[str]:
    """Return the likelihoods that are minus the loss: one that `loss` names, else bounds, else exact ones."""
    if getattr(config, "loss", None) in config.likelihoods:
        return [config.loss]
    kinds = dict(config.likelihoods)
    for kind in (Kind.BOUND, Kind.EXACT, Kind.ESTIMATE):
        if of_kind := [name for name, one in kinds.items() if one is kind]:
            return of_kind
    return []


def _early_falls(suite: Suite) -> Iterator[str]:
    """Yield latent models whose rate falls in the first half, while their latent variables are not in use yet."""
    for name, training, config in _trained(suite):
        kinds = {*config.likelihoods.values()}
        if Kind.ESTIMATE in kinds and Kind.EXACT not in kinds:  # what is latent can only be averaged over
            for keys, schedules, warmup in training.schedules:
                if _falls_early(training, schedules, warmup, _updates(training, keys)):
                    yield f"{name}: the learning rate falls in the first half of `{'.'.join(map(str, keys))}`"


def _updates(training: TrainingConfig, keys: tuple[str | int, ...]) -> int:
    """Return the updates that a schedule counts, as far as a suite says them."""
    length = training.phases[int(keys[1])] if keys[0] == "phases" else training
    return length.updates or training.updates or EPOCH * (length.epochs or training.epochs or 10)


def _falls_early(training: TrainingConfig, schedules: tuple[Schedule, ...], warmup: int, updates: int) -> bool:
    (optimizer,) = optimizers(nn.Linear(1, 1, bias=False), training, torch.device("cpu"))
    rates = LearningRates([optimizer], schedules, warmup, updates, EPOCH)
    rates.begin()
    seen = []
    for update in sorted({max(1, updates * look // (2 * LOOKS)) for look in range(LOOKS + 1)} | {max(1, warmup)}):
        rates.set(update)
        seen.append(optimizer.param_groups[0]["lr"])
    return seen[-1] < max(seen)


def _few_seeds(suite: Suite) -> Iterator[str]:
    if suite.profile == "small" and suite.models and len(suite.seeds) < SEEDS:  # tables of data have none
        yield f"{len(suite.seeds)} seeds, of which nothing follows for other trainings"


def _of_claims(suite: Suite) -> Iterator[str]:
    for claim in language(suite).claims:
        for text in (claim.expression, *claim.requires.values()):
            term = read(text).term
            if term is not None:
                yield from (f"{claim.id}: {fault}" for fault in _of_term(term))


def _of_term(term: Term, quantified: bool = False) -> Iterator[str]:
    if term.operation in COMPARISONS.values():
        queries = [one.query for one in walk(term) if one.query is not None]
        places = {
            tuple((axis, name) for axis, name in one.axes if axis not in ("decoder", "split")) for one in queries
        }
        decoders = {dict(one.axes).get("decoder") for one in queries}
        if queries and term.operation in EQUALITIES:
            yield f"{term} is an equality of measurements"
        if len(places) == 1 and len(decoders) > 1 and not quantified:
            yield f"{term} compares decoders of the same weights, not in every training"
        return
    for part in term.parts:
        yield from _of_term(part, quantified or term.operation == "in_every_training")


def _trained(suite: Suite) -> Iterator[tuple[str, TrainingConfig, ModelConfig]]:
    for name, entry in suite.models.items():
        for one in entry.all:
            if one.training.trains and not one.config.is_untrainable():
                yield name, one.training, one.config


# What is recognised


@pytest.mark.parametrize(
    ("config", "others"),
    [
        (ECOCLMConfig(hidden=4, embedding=4, layers=1, bits=4), {"exact"}),
        (ECOCLMConfig(hidden=4, embedding=4, layers=1, bits=4, loss="exact"), {"bits"}),
        (DeepSSMConfig(state=2, trajectories=50), {"smc", "trajectories"}),
    ],
    ids=["codes by bits", "codes by tokens", "state space"],
)
def test_the_likelihood_that_a_model_is_trained_by_is_minus_its_loss_and_others_are_not(config, others):
    torch.manual_seed(0)
    info = TaskInfo(["</s>", *"abcdefgh"], [9, 8, 7, 6, 5, 4, 3, 2, 1])
    model = config.load()(config, info)
    model.setup(info, Rng(1))
    model.eval()
    batch, rng = tiny_batch(), Rng(2)
    loss = float(model.loss(batch, Training(0, 1, 0, 1, rng)).value.detach())

    def scored(by: str) -> float:
        return -float(model.score(batch, Scoring(by, rng)).log_probs.detach().sum() / batch.length.sum())

    assert [scored(by) for by in trained_by(config)] == pytest.approx([loss], rel=1e-5)
    assert {*trained_by(config)} | others == {*config.likelihoods}
    assert all(abs(scored(by) - loss) > 1e-2 for by in others)


def changed(path: str, profile: str, *settings: str) -> Suite:
    return load(SUITES / path, profile, settings)


def with_claim(suite: Suite, expression: str, **requires: str) -> Suite:
    changes: dict[str, Any] = {"expression": expression, "requires": requires}
    return replace(
        suite, sections={**suite.sections, "claims": [language(suite).claims[0].model_copy(update=changes)]}
    )


LATE = "training.schedule=[{name: constant, share: 0.8}, linear]"
FAULTY = {
    "weights by a reading of the bits": (
        lambda: changed("ecoc/ablations.yaml", "small", "training.select={metric: perplexity, split: valid}"),
        "group-4: select, and the plateau with it by perplexity, which reads exact; trained by bits",
    ),
    "an end of training by a reading of the bits": (
        lambda: changed("ecoc/figure-2.yaml", "paper", "training.stop={metric: perplexity, patience: 2}"),
        "bits-20: stop by perplexity, which reads exact; trained by bits",
    ),
    "weights by an estimate that is not the bound": (
        lambda: changed("ssm/table-2.yaml", "gpu", "training.select={metric: H-test, split: valid}"),
        "2xtril-10: select by H-test, which reads trajectories; trained by elbo",
    ),
    "codes trained by tokens, and judged by bits": (
        lambda: changed("ecoc/ablations.yaml", "small", "training.select={metric: bits-perplexity, split: valid}"),
        "trained-exactly: select, and the plateau with it by bits-perplexity, which reads bits; trained by exact",
    ),
    "a linear fall": (
        lambda: changed("ssm/table-3.yaml", "small", "training.schedule=linear"),
        "tril-id: the learning rate falls in the first half of `schedule`",
    ),
    "a cosine without a warm-up": (
        lambda: changed("ssm/table-1.yaml", "gpu", "training.schedule=cosine", "training.warmup=0"),
        "tril/training.lr=0.002: the learning rate falls in the first half of `schedule`",
    ),
    "steps of torch": (
        lambda: changed("ssm/table-1.yaml", "web", "training.schedule={name: StepLR, step_size: 1000}"),
        "2xtril/training.lr=0.005: the learning rate falls in the first half of `schedule`",
    ),
    "a constant rate that is too short": (
        lambda: changed("ssm/table-2.yaml", "small", LATE.replace("0.8", "0.3")),
        "2xtril-10: the learning rate falls in the first half of `schedule`",
    ),
    "two seeds": (
        lambda: load(SUITES / "ssm" / "table-1.yaml", "small", seeds=2),
        "2 seeds, of which nothing follows",
    ),
    "a claim of equality": (
        lambda: with_claim(changed("ssm/table-1.yaml", "small"), "v('in-V', model='tril') == 0.5"),
        "T1-a: v('in-V', model='tril') == 0.5 is an equality of measurements",
    ),
    "a premise of equality": (
        lambda: with_claim(
            changed("ssm/table-1.yaml", "small"), "v('in-V', model='tril') > 0.5", some="v('Ibar', model='tril') != 0"
        ),
        "T1-a: v('Ibar', model='tril') != 0 is an equality of measurements",
    ),
    "decoders of the same weights": (
        lambda: with_claim(
            changed("ssm/table-2.yaml", "small"),
            "v('P2', task='standard', model='2xtril-10', decoder='likeliest') "
            "< 2 * v('P3', task='standard', model='2xtril-10', decoder='sample')",
        ),
        "compares decoders of the same weights, not in every training",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_found_in_a_suite_into_which_it_is_put(name):
    make, text = FAULTY[name]
    found = faults(make())
    assert any(text in one for one in found), found


def test_decoders_of_different_models_and_rates_that_fall_late_are_no_faults():
    apart = (
        "v('P2', task='vocabulary', model='2xtril-10', decoder='likeliest') "
        "< v('P2', task='vocabulary', model='baseline-8d', decoder='sample')"
    )
    assert faults(with_claim(changed("ssm/table-2.yaml", "small", LATE), apart)) == []
    late = "training.schedule=[{name: constant, updates: 3000}, cosine]"
    assert faults(changed("ssm/table-3.yaml", "small", late)) == []
    assert faults(changed("ecoc/table-1.yaml", "small", "training.schedule=linear")) == []
