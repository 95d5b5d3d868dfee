"""The codebook probe: its numbers against brute force and known codebooks."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import normalize

from bench_core import Rng, TaskInfo
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig
from bench_output_layers import codebook_probe
from bench_output_layers.api import Vectors
from bench_output_layers.codebook_probe import (
    CodebookProbe,
    frequency_bands,
    measure,
    nearest_distances,
    similarity_correlation,
    spectrum,
)
from bench_output_layers.plugin import CodebookProbeConfig, DenseConfig, HashedConfig

RNG = Rng(4)


def dense(tokens, bits):
    return DenseConfig().codewords(torch.ones(tokens), bits, RNG, None)


def all_of(codes):
    return measure(codes, torch.arange(len(codes)), nearest_distances(codes), None)


def model(**codes):
    config = ECOCLMConfig.model_validate({"hidden": 4, "embedding": 4, "bits": 30, "codes": codes})
    info = TaskInfo([f"w{token}" for token in range(50)], [50 - token for token in range(50)])
    lm = config.load()(config, info)
    lm.setup(info, Rng(1))
    return lm


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_distances_are_to_the_nearest_other_codeword(monkeypatch, chunk):
    monkeypatch.setattr(codebook_probe, "CHUNK_CODES", chunk)
    codes = dense(40, 25)
    distances = (codes[:, None] != codes[None]).sum(2) + 1000 * torch.eye(40, dtype=torch.int64)
    assert nearest_distances(codes).equal(distances.amin(1))


def test_an_identity_has_distance_two_and_all_directions():
    numbers = all_of(torch.eye(20, dtype=torch.uint8))
    assert numbers == {
        "smallest nearest distance": 2,
        "mean nearest distance": 2,
        "corrected bits": 0,
        "rank": 19,
        "directions with 90 % of variance": 18,  # of 19 equal ones
    }


def test_repeated_bits_add_no_direction_and_correct_errors():
    four = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.uint8)
    codes = four.repeat(1, 7)
    assert spectrum(codes) == (2, 2)
    assert all_of(codes)["corrected bits"] == 3  # distance 7
    assert spectrum(four[:, :1].repeat(1, 5)) == (1, 1)
    assert spectrum(four[:1]) == (0, 0)


def test_bands_are_of_frequency_ranks_and_hold_only_coded_tokens():
    counts = torch.tensor([5, 1, 9, 7, 3, 2])
    bands = frequency_bands(counts, torch.arange(6), (2, 4))
    assert {name: rows.tolist() for name, rows in bands.items()} == {
        "all": [0, 1, 2, 3, 4, 5],
        "ranks 1 to 2": [2, 3],
        "ranks 3 to 4": [0, 4],
        "ranks 5 to 6": [1, 5],
    }
    coded = torch.tensor([0, 4, 5, 1])
    rarer = frequency_bands(counts, coded, (2, 4))
    assert {name: rows.tolist() for name, rows in rarer.items()} == {
        "all": [0, 1, 2, 3],
        "ranks 3 to 4": [0, 1],
        "ranks 5 to 6": [2, 3],
    }
    assert [*frequency_bands(counts, torch.arange(6), (100, 1000))] == ["all", "ranks 1 to 6"]


def test_hashed_codes_are_as_far_as_their_vectors_and_dense_codes_are_not():
    values = normalize(torch.randn(300, 5, generator=torch.Generator().manual_seed(3)), dim=1)
    vectors, rows = Vectors("some", values, torch.arange(300) % 5 != 0), torch.arange(300)
    codes = HashedConfig().codewords(torch.ones(300), 400, RNG, vectors)
    assert similarity_correlation(codes, rows, vectors) > 0.95
    assert abs(similarity_correlation(dense(300, 400), rows, vectors)) < 0.05
    assert similarity_correlation(codes, rows[::5], vectors) is None  # without vectors
    equal = Vectors("equal", torch.ones(300, 5), torch.ones(300, dtype=torch.bool))
    assert similarity_correlation(codes, rows, equal) is None


def test_a_probe_measures_the_codebook_of_a_model(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("\n".join(f"w{token} {token} {token % 3} 1" for token in range(40)))
    probe = CodebookProbe(CodebookProbeConfig(bands=[10, 30], vectors=path))
    for codes in ({"kind": "dense"}, {"kind": "hybrid", "frequent": 20}):
        lm = model(**codes)
        finding = probe.ask(lm, None, [])
        bands = {name.partition(":")[0] for name in finding.numbers}
        expected = {"all", "ranks 1 to 10", "ranks 11 to 30", "ranks 31 to 50"}
        assert bands == (expected if codes["kind"] == "dense" else expected - {"ranks 1 to 10"})
        assert "all: correlation with vectors" in finding.numbers
        smallest = int(nearest_distances(lm.head.codebook).min())
        assert finding.numbers["all: smallest nearest distance"] == smallest
        assert finding.numbers["all: corrected bits"] == (smallest - 1) // 2
    plain = CodebookProbe(CodebookProbeConfig()).ask(model(kind="dense"), None, [])
    assert not any("vectors" in name for name in plain.numbers)


def test_a_model_without_codewords_has_no_numbers():
    config = SoftmaxLMConfig(hidden=4, embedding=4)
    lm = config.load()(config, TaskInfo(["a", "b"], [1, 1]))
    finding = CodebookProbe(CodebookProbeConfig()).ask(lm, None, [])
    assert finding.numbers == {}
    assert finding.statements[0].says == "the model has fewer than two codewords"


def test_bands_rise():
    with pytest.raises(ValidationError, match=r"`bands` must be increasing"):
        CodebookProbeConfig(bands=[100, 100])
