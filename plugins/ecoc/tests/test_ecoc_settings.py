"""What a suite may say of both models, and what is refused before anything is built."""

import pytest
from pydantic import ValidationError

from bench_core import DataError
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig
from bench_ecoc.settings import CLVMS, Dropout, Gold, Scheduled
from bench_output_layers.settings import FullOutputLayer, Hierarchical

CONFIGS = [ECOCLMConfig, SoftmaxLMConfig]


def test_a_bare_kind_stands_for_a_mapping():
    config = SoftmaxLMConfig.model_validate({"output": "hierarchical", "inputs": "clvms"})
    assert (config.output, config.inputs) == (Hierarchical(kind="hierarchical"), CLVMS(kind="clvms"))


def test_by_default_gold_is_read_and_the_softmax_is_full():
    assert SoftmaxLMConfig().output == FullOutputLayer()
    assert all(config().inputs == Gold() for config in CONFIGS)


def test_one_rate_of_dropout_stands_for_all():
    assert ECOCLMConfig.model_validate({"dropout": 0.5}).dropout == Dropout(input=0.5, hidden=0.5, output=0.5)
    assert ECOCLMConfig.model_validate({"dropout": {"hidden": 0}}).dropout == Dropout(hidden=0)


@pytest.mark.parametrize("rate", [1.0, -0.1, True, {"cells": 0.1}])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(ValidationError, match="dropout"):
        ECOCLMConfig.model_validate({"dropout": rate})


@pytest.mark.parametrize("inputs", ["clvms", "dlvms"])
@pytest.mark.parametrize("output", ["full", "sampled", "nce", {"kind": "adaptive", "cutoffs": [2]}])
def test_latents_are_replaced_only_where_there_are_any(inputs, output):
    with pytest.raises(ValidationError, match=r"`output: \w+` has none. Choose `inputs: scheduled`"):
        SoftmaxLMConfig.model_validate({"output": output, "inputs": inputs})


def test_bits_are_flipped_only_where_there_are_any():
    with pytest.raises(ValidationError, match="which only ecoc-lm has"):
        SoftmaxLMConfig.model_validate({"output": "hierarchical", "inputs": "flips"})
    with pytest.raises(ValidationError, match="`factors` apply to the bits of ecoc-lm"):
        SoftmaxLMConfig.model_validate({"output": "hierarchical", "inputs": {"kind": "clvms", "factors": [1, 1]}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": {"kind": "scheduled", "tau_max": 1.5}},
        {"inputs": {"kind": "scheduled", "temperature": 1.0}},
        {"inputs": {"kind": "soft", "temperature": 0.0}},
        {"inputs": {"kind": "clvms", "factors": [1, 2]}},
        {"inputs": "sheduled"},
    ],
)
def test_settings_that_a_method_has_not_are_refused(wrong):
    with pytest.raises(ValidationError, match="inputs"):
        ECOCLMConfig.model_validate(wrong)


@pytest.mark.parametrize("cutoffs", [[], [4, 4], [5, 3], [0]])
def test_cutoffs_rise(cutoffs):
    with pytest.raises(ValidationError, match="cutoffs"):
        SoftmaxLMConfig.model_validate({"output": {"kind": "adaptive", "cutoffs": cutoffs}})


@pytest.mark.parametrize("config", CONFIGS)
def test_embeddings_are_sparse_unless_all_are_mixed(config):
    assert config().sparse_embedding
    assert config(inputs=Scheduled(kind="scheduled")).sparse_embedding
    assert not config.model_validate({"inputs": "soft"}).sparse_embedding
    assert not config(sparse=False).sparse_embedding
    with pytest.raises(ValidationError, match="mixes all embeddings"):
        config.model_validate({"inputs": "soft", "sparse": True})
    assert config() == config(sparse=True) != config(sparse=False)
    assert config.model_validate({"inputs": "soft"}) == config.model_validate({"inputs": "soft", "sparse": False})


def test_a_tied_softmax_needs_equal_widths_and_a_weight_for_each_token():
    assert SoftmaxLMConfig(tied=True).embedding == SoftmaxLMConfig(tied=True).hidden
    with pytest.raises(ValidationError, match=r"must equal `hidden`; they are 100 and 400"):
        SoftmaxLMConfig(tied=True, embedding=100)
    with pytest.raises(ValidationError, match="`output: adaptive` has no weight for each token"):
        SoftmaxLMConfig.model_validate({"tied": True, "output": {"kind": "adaptive", "cutoffs": [2]}})


@pytest.mark.parametrize(("output", "sparse"), [("full", False), ("sampled", True), ("hierarchical", True)])
def test_a_tied_embedding_is_sparse_unless_the_softmax_is_full(output, sparse):
    assert SoftmaxLMConfig.model_validate({"tied": True, "output": output}).sparse == sparse
    if not sparse:
        with pytest.raises(ValidationError, match="uses all embeddings in a full softmax, so every update changes"):
            SoftmaxLMConfig.model_validate({"tied": True, "output": output, "sparse": True})


def test_vectors_are_for_orders_that_read_them(tmp_path):
    with pytest.raises(ValidationError, match="`vectors` are read for `order: embedding`"):
        ECOCLMConfig(order="unigram", vectors="glove.txt")
    config = ECOCLMConfig(order="embedding", vectors="glove.txt")
    with pytest.raises(DataError, match=r"glove.txt were not found. Provide a file in word2vec"):
        config.files(tmp_path)
    (tmp_path / "glove.txt").write_text("a 1\n")
    assert config.files(tmp_path) == {"vectors": tmp_path / "glove.txt"}
    assert ECOCLMConfig(order="embedding").files(tmp_path) == {}
