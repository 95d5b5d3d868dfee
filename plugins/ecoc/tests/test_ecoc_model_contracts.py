"""Both models keep the contracts, whatever their output layer, source and way of reading."""

import pytest

from bench_authors.testing import Case, check_model
from bench_core import Source
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig

SMALL = {"embedding": 6, "hidden": 6, "sparse": False, "initial_scale": 0.4, "dropout": 0.1}
OUTPUTS = [
    "full",
    {"kind": "sampled", "samples": 3, "by": "uniform"},
    {"kind": "sampled", "samples": 3},
    {"kind": "nce", "samples": 8},
    {"kind": "hierarchical", "order": "random", "size": 2},
    {"kind": "adaptive", "cutoffs": [2]},
]
CODES = [
    {},
    {"codes": {"kind": "gray-walk", "order": "random"}, "bits": 5},
    {"codes": "identity"},
    {"codes": {"kind": "gray-walk", "order": "embedding"}, "bits": 4},  # until it is surveyed, by counts
    {"codes": "dense", "bits": 5},
    {"codes": {"kind": "hybrid", "frequent": 3}, "bits": 5},
    {"codes": {"kind": "hybrid", "frequent": 2}, "bits": 4, "loss": "exact"},
    {"bits": 5, "group": 2},
    {"bits": 4, "loss": "exact"},
    {"bits": 4, "cell": "gru", "layers": 1},
    {"bits": 5, "reading": {"kind": "maximum-entropy", "penalty": 0.3}},
    {"bits": 5, "reading": {"kind": "maximum-entropy", "steps": 1}},
    {"codes": {"kind": "hybrid", "frequent": 3}, "bits": 5, "reading": "maximum-entropy"},
]
INPUTS = ["scheduled", "soft", {"kind": "clvms", "constant": True}, "dlvms", {"kind": "flips", "k": 2}]


def settings_of(one):
    return one if isinstance(one, str) else "-".join(map(str, one.values())) or "default"


@pytest.mark.quick(2)
@pytest.mark.parametrize("output", OUTPUTS, ids=settings_of)
def test_every_output_layer_keeps_the_contracts(output):
    check_model(Case.of(SoftmaxLMConfig.model_validate({**SMALL, "output": output})))


@pytest.mark.quick(1)
@pytest.mark.parametrize("output", ["hierarchical", "full", {"kind": "sampled", "samples": 3}], ids=settings_of)
def test_a_tied_softmax_keeps_the_contracts(output):
    check_model(Case.of(SoftmaxLMConfig.model_validate({**SMALL, "tied": True, "output": output})))


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("code", CODES, ids=settings_of)
def test_every_code_keeps_the_contracts(code):
    check_model(Case.of(ECOCLMConfig.model_validate(SMALL | code)))


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("inputs", INPUTS, ids=settings_of)
def test_a_code_keeps_the_contracts_whatever_is_read_in_training(inputs):
    check_model(Case.of(ECOCLMConfig.model_validate({**SMALL, "bits": 4, "inputs": inputs})))


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("inputs", ["scheduled", "soft", "clvms", "dlvms"])
def test_a_hierarchical_softmax_keeps_the_contracts_whatever_is_read_in_training(inputs):
    output = {"kind": "hierarchical", "size": 2}
    check_model(Case.of(SoftmaxLMConfig.model_validate({**SMALL, "output": output, "inputs": inputs})))


@pytest.mark.quick(2)
@pytest.mark.parametrize("source", [Source.VECTOR, Source.GRID])
@pytest.mark.parametrize("config", [ECOCLMConfig, SoftmaxLMConfig])
def test_a_model_with_a_source_keeps_the_contracts(config, source):
    check_model(Case.of(config.model_validate({**SMALL, "inputs": "scheduled"}), source=source))
