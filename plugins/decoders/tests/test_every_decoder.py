"""What holds of all decoders, left to right and by insertion."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_decoder, toys
from bench_core import Rng
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    ExhaustiveConfig,
    GreedyConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
    bench_decoders,
)

CONFIGS = [
    AncestralConfig(max_tokens=6),
    GreedyConfig(max_tokens=6),
    TopKConfig(max_tokens=6, k=2),
    TopKConfig(max_tokens=6, k=3, temperature=1.7),
    NucleusConfig(max_tokens=6, mass=0.7),
    ConsistentTopKConfig(max_tokens=6, k=1),
    ConsistentNucleusConfig(max_tokens=6, mass=0.3),
    TemperatureConfig(max_tokens=6, temperature=0.8),
    BeamConfig(max_tokens=6, width=3, finish="first"),
    BeamConfig(max_tokens=6, width=3, outputs=3, alpha=0.6),
    BeamConfig(max_tokens=6, width=2, finish="exhausted", candidates="finished_and_alive", alpha=0.6, outputs=2),
    BeamConfig(max_tokens=6, width=3, candidates="all_prefixes", alpha=1, count_stop=False, outputs=4),
    ExhaustiveConfig(max_tokens=3, outputs=3, candidates="finished_and_alive"),
]
LIMITS = [1, 2, 6, 3, 2, 6, 1, 5, 4, 6, 3, 2]


@pytest.fixture(params=["recurrent", "insertion"])
def model(request):
    return request.getfixturevalue(request.param)(vocabulary=4, seed=3)


@pytest.fixture(params=CONFIGS, ids=lambda config: config.name)
def config(request):
    return request.param


def decode(config, model, rows):
    return config.load()(config).decode(model, rows, Rng(2))


@pytest.mark.quick(3, 10)
@pytest.mark.parametrize("toy", [toys.ToyRecurrentConfig, toys.ToyEncoderDecoderConfig, toys.InsertionConfig])
def test_the_contracts_are_kept(toy, config):
    check_decoder(Case.of(toy(), config))


def test_an_example_decodes_alike_alone_and_in_any_batch(model, batch, config):
    rows = batch(12, LIMITS, first=70)
    together = decode(config, model, rows)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    mixed = decode(config, model, rows.select(order))
    assert [mixed[i] for i in order.argsort().tolist()] == together
    assert [decode(config, model, rows.select(torch.tensor([i])))[0] for i in range(12)] == together
    assert len({str(found) for found in together}) > 6, "the case must bite"


def test_limits_and_phases_are_kept(model, batch, config):
    finished = []
    for most, found in zip(LIMITS, decode(config, model, batch(12, LIMITS)), strict=True):
        for hypothesis in found:
            assert hypothesis.tokens == model.read(hypothesis.actions)
            assert len(hypothesis.actions) == model.actions_per_token * len(hypothesis.tokens)  # stop at word steps
            assert len(hypothesis.tokens) + hypothesis.finished <= min(most, config.max_tokens)
            if getattr(config, "candidates", "") != "all_prefixes":
                assert hypothesis.finished or len(hypothesis.tokens) == min(most, config.max_tokens)
            finished.append(hypothesis.finished)
    assert any(finished)


@pytest.mark.parametrize("config", CONFIGS[:8], ids=lambda config: config.name)
def test_a_finished_row_leaves_the_batch(recurrent, batch, config):
    model = recurrent(seed=5)
    found = [row[0] for row in decode(config, model, batch(60))]
    assert model.stepped == sum(len(h.actions) - (not h.finished) for h in found)
    assert any(h.finished for h in found)


def test_rows_are_all_given_something_where_nothing_counts(table, batch):
    at_once = table(lambda prefix: (1.0, 0.0))
    for config in (BeamConfig(count_stop=False), ExhaustiveConfig(count_stop=False, max_tokens=3)):
        ((found,),) = decode(config, at_once, batch(1))
        assert (found.tokens, found.finished, found.log_prob) == ([], True, 0)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (TopKConfig, {"k": 0}),
        (TopKConfig, {}),
        (NucleusConfig, {"mass": 1.1}),
        (NucleusConfig, {"mass": -0.1}),
        (NucleusConfig, {"mass": 0.5, "temperature": 0}),
        (TemperatureConfig, {}),
        (TemperatureConfig, {"temperature": -1}),
        (BeamConfig, {"width": 0}),
        (BeamConfig, {"finish": "last"}),
        (BeamConfig, {"alpha": -0.5}),
        (GreedyConfig, {"temperature": 0.5}),
        (AncestralConfig, {"max_tokens": 0}),
    ],
)
def test_settings_without_a_meaning_are_refused(config, settings):
    with pytest.raises(ValidationError):
        config(**settings)


def test_every_decoder_is_offered_once():
    names = [config.name for config in bench_decoders()]
    assert len(set(names)) == len(names)
    assert set(names) == {config.name for config in CONFIGS}


def test_the_face_of_the_plugin_imports_no_torch():
    code = "import sys, bench_decoders.plugin as p; p.BeamConfig(); assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
