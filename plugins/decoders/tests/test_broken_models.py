"""No decoder takes anything out of what is no distribution."""

from __future__ import annotations

import pytest
import torch

from bench_authors.testing import Case, toys
from bench_core import PluginError
from bench_core.computing.guarded_log_probs import guarded
from bench_decoders import plugin

DECODERS = [
    plugin.AncestralConfig(max_tokens=5),
    plugin.GreedyConfig(max_tokens=5),
    plugin.BeamConfig(width=3, max_tokens=5),
    plugin.TopKConfig(k=2, max_tokens=5),
    plugin.TopKConfig(k=99, max_tokens=5),
    plugin.NucleusConfig(mass=0.6, max_tokens=5),
    plugin.NucleusConfig(mass=1, max_tokens=5),
    plugin.ConsistentTopKConfig(k=2, max_tokens=5),
    plugin.ConsistentNucleusConfig(mass=0.6, max_tokens=5),
    plugin.TemperatureConfig(temperature=0.5, max_tokens=5),
    plugin.ExhaustiveConfig(max_tokens=3),
]
VALUES = {"nan": torch.nan, "+inf": torch.inf, "above 0": 0.1, "all shut": -torch.inf}


def spoiled(log_probs, value):
    """Return log-probabilities of which one row is what none can be."""
    places = [-1, slice(None)] if value == -torch.inf else [-1, 1]
    log_probs[tuple(places)] = value
    return log_probs


def test_all_decoders_are_tried():
    assert {type(decoder) for decoder in DECODERS} == {*plugin.bench_decoders()}


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda config: config.name)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("method", ["start", "step"])
def test_what_is_no_distribution_is_never_decoded(decoder, value, method):
    case = Case.of(toys.ToyRecurrentConfig(), decoder)

    def broken(model, *given):
        log_probs, state = getattr(type(case.model), method)(case.model, *given)
        return spoiled(log_probs.clone(), value), state

    setattr(case.model, method, lambda *given: broken(case.model, *given))
    words = len(case.info.vocabulary)
    with (
        torch.no_grad(),
        pytest.raises(PluginError, match=rf"Recurrent\.{method} gave"),
        guarded(case.model, words),
    ):
        case.decoded()


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda config: config.name)
@pytest.mark.parametrize("model", [toys.ToyRecurrentConfig, toys.InsertionConfig])
def test_looking_changes_nothing(decoder, model):
    case = Case.of(model(), decoder)
    with torch.no_grad():
        alone = case.decoded()
        with guarded(case.model, len(case.info.vocabulary), thorough=True):
            assert case.decoded() == alone
