"""What a suite may say of both models, and what is refused before anything is built."""

import pytest
from pydantic import ValidationError

from bench_core import DataError
from bench_core.planning.stage_maker import described
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


def code(**settings):
    return ECOCLMConfig.model_validate({"codes": settings})


def test_vectors_are_for_codebooks_that_read_them(tmp_path):
    with pytest.raises(ValidationError, match="`vectors` are read for `order: embedding`"):
        code(kind="gray-walk", vectors="glove.txt")
    with pytest.raises(ValidationError, match=r"codes.vectors\n.*unknown key"):
        code(kind="dense", vectors="glove.txt")
    (tmp_path / "glove.txt").write_text("a 1\n")
    hashed = {"kind": "hashed", "vectors": "glove.txt"}
    for settings in (
        hashed,
        {"kind": "gray-walk", "order": "tour", "vectors": "glove.txt"},
        {"kind": "hybrid", "rest": hashed},
    ):
        assert code(**settings).files(tmp_path) == {"vectors": tmp_path / "glove.txt"}
        assert code(**settings).extras() == set()
        with pytest.raises(DataError, match=r"glove.txt were not found. Provide a file in word2vec"):
            code(**settings).files(tmp_path / "elsewhere")
    for settings in (
        {"kind": "hashed"},
        {"kind": "gray-walk", "order": "embedding"},
        {"kind": "hybrid", "rest": "blend"},
    ):
        assert code(**settings).files(tmp_path) == {}
        assert code(**settings).extras() == {"vectors"}


@pytest.mark.parametrize("inputs", ["clvms", "dlvms", "flips"])
def test_bits_are_not_replaced_where_frequent_tokens_have_none(inputs):
    with pytest.raises(ValidationError, match=r"frequent tokens of `codes: hybrid` have none. Choose `inputs: sched"):
        ECOCLMConfig.model_validate({"codes": "hybrid", "inputs": inputs})
    ECOCLMConfig.model_validate({"codes": {"kind": "hybrid", "frequent": 0}, "inputs": inputs})


EQUAL = [
    ("dense", {"kind": "dense"}),
    ("gray-walk", {"kind": "gray-walk", "order": "unigram"}),
    ("gray-walk", {"kind": "gray-walk", "vector_size": 100}),  # unused
    ("hashed", {"kind": "hashed", "vector_size": 300}),
    ({"kind": "hashed", "vectors": "a"}, {"kind": "hashed", "vectors": "a", "vector_size": 5}),
    ("hashed", {"kind": "hybrid", "frequent": 0, "rest": "hashed"}),
    ("hybrid", {"kind": "hybrid", "frequent": 1000, "rest": {"kind": "dense"}}),
]


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_settings_equal_in_meaning_are_equal_in_keys(first, second):
    one, other = (described(ECOCLMConfig.model_validate({"codes": codes})) for codes in (first, second))
    assert one == other
    assert (
        ECOCLMConfig.model_validate({"codes": one["codes"]}).codes
        == ECOCLMConfig.model_validate({"codes": first}).codes
    )


def test_other_settings_have_other_keys():
    codes = ["gray-walk", "dense", "hashed", "blend", "identity", "hybrid", {"kind": "hashed", "vector_size": 5},
             {"kind": "gray-walk", "order": "tour"}, {"kind": "hybrid", "rest": "hashed"}]  # fmt: skip
    keys = {str(described(ECOCLMConfig.model_validate({"codes": each}))) for each in codes}
    assert len(keys) == len(codes)


@pytest.mark.parametrize(
    ("former", "codes"),
    [
        ({"order": "tour", "vector_size": 9}, {"kind": "gray-walk", "order": "tour", "vector_size": 9}),
        ({"order": "embedding", "vectors": "a"}, {"kind": "gray-walk", "order": "embedding", "vectors": "a"}),
        ({"vector_size": 9}, "gray-walk"),
        ({"order": "identity", "vector_size": 9}, "identity"),
    ],
)
def test_former_settings_are_read_with_a_warning(former, codes):
    with pytest.warns(FutureWarning, match=r"of ecoc-lm will not be read in the next release. Write `codes: {kind: "):
        config = ECOCLMConfig.model_validate(former | {"bits": 7})
    assert config == ECOCLMConfig.model_validate({"codes": codes, "bits": 7})
    with pytest.raises(ValidationError, match="former form of settings of `codes`, which is also set"):
        ECOCLMConfig.model_validate(former | {"codes": codes})


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("dens", "codes.kind\n.*no codebook is called 'dens'. Did you mean 'dense'"),
        ({"kind": "hashed", "vector_sise": 5}, "codes.vector_sise\n.*Did you mean 'vector_size'"),
        (
            {"kind": "hybrid", "rest": {"kind": "hashed", "vector_size": 0}},
            "codes.rest.vector_size\n.*greater than 0",
        ),
        ({"kind": "hybrid", "rest": "hybrid"}, "`rest` of a hybrid codebook cannot be `hybrid`"),
        ({"order": "tour"}, "a mapping with `kind`, such as"),
        (3, "a mapping with `kind`, such as"),
    ],
)
def test_wrong_codes_are_named_by_their_keys(codes, message):
    with pytest.raises(ValidationError, match=message):
        ECOCLMConfig.model_validate({"codes": codes})


def test_classes_by_similarity_read_or_learn_vectors(tmp_path):
    def config(**output):
        return SoftmaxLMConfig.model_validate({"output": {"kind": "hierarchical", **output}})

    assert config(order="embedding").extras() == {"vectors"}
    assert config(order="embedding").files(tmp_path) == config().files(tmp_path) == {}
    given = config(order="embedding", vectors="glove.txt")
    assert given.extras() == config().extras() == SoftmaxLMConfig().extras() == set()
    with pytest.raises(DataError, match=r"word vectors .*glove\.txt were not found"):
        given.files(tmp_path)
    (tmp_path / "glove.txt").write_text("a 1\n")
    assert given.files(tmp_path) == {"vectors": tmp_path / "glove.txt"}
    with pytest.raises(ValidationError, match="`vectors` are read for `order: embedding`, not unigram"):
        config(vectors="glove.txt")


def test_a_vector_size_that_is_not_used_does_not_distinguish_models():
    def output(**settings):
        return SoftmaxLMConfig.model_validate({"output": {"kind": "hierarchical", **settings}}).output

    assert output(vector_size=7) == output()
    assert output(order="embedding", vectors="a.txt", vector_size=7) == output(order="embedding", vectors="a.txt")
    assert output(order="embedding", vector_size=7) != output(order="embedding")


def test_factors_are_numbers_or_fall():
    assert (
        ECOCLMConfig.model_validate({"inputs": {"kind": "clvms", "factors": "falling"}}).inputs.factors == "falling"
    )
    with pytest.raises(ValidationError):
        ECOCLMConfig.model_validate({"inputs": {"kind": "clvms", "factors": "rising"}})
    with pytest.raises(ValidationError, match="`factors` apply to the bits of ecoc-lm only"):
        SoftmaxLMConfig.model_validate({"output": "hierarchical", "inputs": {"kind": "clvms", "factors": "falling"}})
