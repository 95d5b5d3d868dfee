"""Codebooks: the laws of every kind and of a user's own, with the mistakes that they must catch."""

from __future__ import annotations

from itertools import combinations
from types import ModuleType

import pytest
import torch
from torch.nn.functional import log_softmax

from bench_authors.testing import catches, float64
from bench_core import DataError, PluginError, Rng, State, SuiteError, TaskInfo, hookimpl
from bench_core.registry import extra, parts
from bench_ecoc.plugin import ECOCLMConfig
from bench_output_layers.api import Ecoc, Vectors, code_layer
from bench_output_layers.orders import by_count
from bench_output_layers.packed_codes import constant_columns, equal_rows, pack
from bench_output_layers.plugin import (
    BlendConfig,
    CodebookConfig,
    DenseConfig,
    GrayWalkConfig,
    HashedConfig,
    HybridConfig,
    IdentityConfig,
    VectorCodebookConfig,
)
from bench_output_layers.random_codes import hashed, projections, repaired
from bench_output_layers.vectors import read

RNG = Rng(11)


class RepeatedBinaryConfig(CodebookConfig):
    """The number of a token in binary, again and again."""

    def codewords(self, counts, bits, rng, vectors):
        base = max(1, (len(counts) - 1).bit_length())
        return (torch.arange(len(counts))[:, None] >> torch.arange(bits) % base & 1).to(torch.uint8)


class ThresholdConfig(VectorCodebookConfig):
    """The number of a token in binary, then whether each coordinate of its vector is above the median."""

    def codewords(self, counts, bits, rng, vectors):
        own = RepeatedBinaryConfig().codewords(counts, bits, rng, None)
        width = min(vectors.values.shape[1], bits - max(1, (len(counts) - 1).bit_length()))
        if width > 0:
            values = vectors.values[:, :width]
            own[:, bits - width :] = values > values.median(0).values
        return own


KINDS = {
    "random": GrayWalkConfig(order="random"),
    "unigram": GrayWalkConfig(),
    "embedding": GrayWalkConfig(order="embedding"),
    "tour": GrayWalkConfig(order="tour"),
    "dense": DenseConfig(),
    "hashed": HashedConfig(),
    "blend": BlendConfig(),
    "identity": IdentityConfig(),
    "hybrid": HybridConfig(frequent=1, rest=DenseConfig()),
    "hybrid-hashed": HybridConfig(frequent=1, rest=HashedConfig()),
    "hybrid-walk": HybridConfig(frequent=1),
    "own": RepeatedBinaryConfig(),
    "own-vectors": ThresholdConfig(),
}
EVERY = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _laboratory():
    with float64(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a file of word vectors of 60 words, of which w4 has none."""
    folder = tmp_path_factory.mktemp("vectors")
    values = torch.randn(60, 8, generator=torch.Generator().manual_seed(5)).tolist()
    lines = [
        f"w{word} " + " ".join(f"{number:.4f}" for number in row) for word, row in enumerate(values) if word != 4
    ]
    (folder / "vectors.txt").write_text("\n".join(lines))
    return folder


def info(tokens, counts=None, **files):
    counts = counts or [100 - 3 * token % 97 for token in range(tokens)]
    return TaskInfo([f"w{token}" for token in range(tokens)], counts, files=files)


def layer(kind, place, tokens=12, bits=12, rng=RNG, counts=None):
    """Return a layer whose codebook is ready, with weights so large that probabilities differ."""
    codes = KINDS[kind]
    made = code_layer(codes, 5, tokens, None if "identity" in kind else bits)
    made.setup(info(tokens, counts, vectors=place / "vectors.txt"), rng)
    assert not made.needs_statistics
    for weights in made.parameters():
        torch.nn.init.normal_(weights, std=2)
    return made.eval()


def coder(made):
    """Return the part of a layer that has the codewords."""
    return made if isinstance(made, Ecoc) else made.rest


def random_vectors(tokens, known=None, size=6):
    known = torch.ones(tokens, dtype=torch.bool) if known is None else known
    return Vectors("some.txt", torch.randn(tokens, size) * known[:, None], known)


# laws of every codebook


@EVERY
@pytest.mark.parametrize(("tokens", "bits"), [(2, 1), (2, 2), (3, 2), (8, 3), (12, 4), (12, 12), (60, 40)])
def test_codewords_differ_and_every_bit_varies(kind, place, tokens, bits):
    made = layer(kind, place, tokens, bits)
    codes = made.codebook
    assert codes.dtype == torch.uint8
    assert codes.shape == (len(made.coded), made.length)
    assert codes.max() <= 1
    assert len(codes.unique(dim=0)) == len(codes)
    if kind not in ("random", "unigram", "embedding", "tour"):
        assert constant_columns(codes) == []
    assert made.coded.sort().values.unique().equal(made.coded.sort().values)


@EVERY
def test_the_seed_decides(kind, place):
    first, again, other = (layer(kind, place, 30, 20, rng).codebook for rng in (RNG, RNG, RNG.fork("other")))
    assert first.equal(again)
    assert first.equal(other) == (kind in ("identity", "own", "own-vectors"))


@EVERY
@pytest.mark.parametrize(("tokens", "bits"), [(12, 12), (40, 25)])
def test_errors_within_half_of_the_smallest_distance_are_corrected_and_more_are_not(kind, place, tokens, bits):
    made = coder(layer(kind, place, tokens, bits))
    codes = made.codebook.int()
    distances = torch.cdist(codes.double(), codes.double(), p=1).round() + 1e9 * torch.eye(len(codes))
    smallest = int(distances.min())
    correct = (smallest - 1) // 2
    flipped = list(combinations(range(made.length), correct))[:: 1 + 40 * (correct > 1)]
    for columns in flipped or [()]:
        wrong = codes.clone()
        wrong[:, list(columns)] ^= 1
        assert made.nearest(wrong).tolist() == list(range(len(codes)))
    first, second = (distances == smallest).nonzero()[0].tolist()
    different = (codes[first] != codes[second]).nonzero()[:, 0]
    wrong = codes[first].clone()
    wrong[different[: smallest // 2 + 1]] ^= 1
    assert made.nearest(wrong) != first


@EVERY
def test_every_codebook_gives_the_products_of_its_codewords(kind, place):
    made = coder(layer(kind, place, 40, 20))
    z, codes = 3 * torch.randn(50, made.length), made.codebook.double()
    products = z @ codes.T
    torch.testing.assert_close(made.code_scores(z), products)
    assert made.best(z).equal(products.argmax(1))
    tokens = torch.arange(len(codes))
    assert made.codes(tokens).equal(codes)
    hidden = torch.randn(3, 5)
    log_probs, _ = made.log_probs(hidden, State())
    torch.testing.assert_close(log_probs, log_softmax(made.bits(hidden) @ codes.T, 1))
    units = torch.randn(1, 5).expand(len(codes), 5)
    assert (-made.bit_costs(units, tokens)).exp().sum() <= 1 + 1e-9
    costs, bits = made.bit_costs(units, tokens), made.bits(units)
    torch.testing.assert_close(costs, torch.nn.functional.softplus(bits).sum(1) - (bits * codes).sum(1))


@EVERY
def test_what_is_saved_is_what_is_loaded(kind, place, tmp_path):
    from safetensors.torch import load_file, save_file

    first, second = layer(kind, place, 30, 20), layer(kind, place, 30, 20, RNG.fork("other"))
    save_file(first.state_dict(), tmp_path / "weights.safetensors")
    second.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    hidden = torch.randn(2, 3, 5)
    assert second.log_probs(hidden, State())[0].equal(first.log_probs(hidden, State())[0])
    assert second.codebook.equal(first.codebook)
    assert second.coded.equal(first.coded)
    assert second.counts.equal(first.counts)


@EVERY
def test_counts_are_those_of_training_and_may_be_zero(kind, place):
    counts = [5, 0, 3, 0, 0, 9, 1, 0, 0, 0, 0, 0]
    made = layer(kind, place, counts=counts)
    assert made.counts.tolist() == counts
    assert len(made.codebook.unique(dim=0)) == len(made.coded)
    assert made.log_probs(torch.randn(2, 1, 5), State())[0].isfinite().all()
    silent = layer(kind, place, counts=[0] * 12)
    assert silent.log_probs(torch.randn(2, 1, 5), State())[0].isfinite().all()


@EVERY
def test_fewer_bits_than_tokens_need_are_refused(kind):
    if "identity" not in kind:
        with pytest.raises(SuiteError, match=r"codes of 3 bits cannot distinguish \d+ tokens. Set `bits` to 4"):
            code_layer(KINDS[kind], 5, 12, 3)


def test_codebooks_without_frequencies_need_no_counts():
    for kind in ("random", "dense", "own"):
        made = code_layer(KINDS[kind], 5, 12, 12)
        made.setup(TaskInfo([str(token) for token in range(12)]), RNG)
        assert made.counts.tolist() == [1] * 12
    for kind in ("unigram", "hybrid"):
        with pytest.raises(
            SuiteError, match=r"`codes: [a-z-]+` \w+ .*by token frequency, but the task has counts for 0"
        ):
            code_layer(KINDS[kind], 5, 12, 12).setup(TaskInfo([str(token) for token in range(12)]), RNG)


@pytest.mark.parametrize("kind", ["hashed", "blend", "embedding", "tour", "hybrid-hashed", "own-vectors"])
def test_until_vectors_are_learnt_codes_are_a_gray_walk(kind):
    made, sentences = code_layer(KINDS[kind], 5, 12, 12), [[1, 2, 3, 4], [5, 6, 7, 8, 9, 2], [2, 10]] * 3
    made.setup(info(12), RNG)
    before = made.codebook.clone()
    assert made.needs_statistics
    assert made.notes() == {}
    made.fit_statistics(sentences, info(12), RNG)
    assert not made.needs_statistics
    assert not made.codebook.equal(before)
    assert "skip-gram" in made.notes()["word vectors"]
    again = code_layer(KINDS[kind], 5, 12, 12)
    again.setup(info(12), RNG)
    again.fit_statistics(sentences, info(12), RNG)
    assert again.codebook.equal(made.codebook)


@pytest.mark.parametrize("kind", ["hashed", "blend", "embedding", "hybrid-hashed", "own-vectors"])
def test_a_vocabulary_without_vectors_is_refused(kind):
    made = code_layer(KINDS[kind], 5, 12, 12)
    made.setup(info(12), RNG)
    with pytest.raises(DataError, match=r"none of the 1[12] tokens with codewords has a word vector \(some.txt\)"):
        coder(made).assign(random_vectors(coder(made).tokens, torch.zeros(coder(made).tokens, dtype=torch.bool)))


def test_tokens_without_a_vector_are_counted_in_notes(place):
    assert layer("hashed", place).notes()["tokens without a vector"] == "1 of 12, which have random codewords"
    assert "covers 11 of 12 tokens" in layer("blend", place).notes()["word vectors"]
    assert layer("dense", place).notes() == {}


# hashing


def hash_bits(vectors, bits):
    return (projections(vectors, bits, RNG) > 0).to(torch.uint8)


def leaves_the_mean_in(vectors, bits):
    """Vectors are not centred."""
    return (vectors.values @ RNG.normal(torch.arange(vectors.values.shape[1]), 0, bits) > 0).to(torch.uint8)


def takes_a_direction_for_each_token(vectors, bits):
    """Every token has directions of its own."""
    return (RNG.normal(torch.arange(len(vectors.values)), 1, bits) > 0).to(torch.uint8)


def takes_coordinates(vectors, bits):
    """Signs of coordinates, repeated, in place of random projections."""
    values = vectors.values - vectors.values.mean(0)
    return (values[:, torch.arange(bits) % values.shape[1]] > 0).to(torch.uint8)


@catches(takes_a_direction_for_each_token, takes_coordinates)
def codewords_of_vectors_at_an_angle_differ_in_its_share_of_bits(hash_bits):
    """d t / pi bits, within three standard errors, for ten angles."""
    bits, pairs = 1000, 1
    for number in range(1, 11):
        angle = torch.tensor(torch.pi * number / 11)
        plane = torch.linalg.qr(torch.randn(12, 2, generator=torch.Generator().manual_seed(number))).Q.T
        first, second = plane[0], angle.cos() * plane[0] + angle.sin() * plane[1]
        values = torch.stack([first, second, -first, -second])  # their mean is 0
        codes = hash_bits(Vectors("planted", values, torch.ones(4, dtype=torch.bool)), bits)
        share = float(angle / torch.pi)
        differing = float((codes[0] != codes[1]).sum()) / bits
        assert abs(differing - share) < 3 * (share * (1 - share) / (bits * pairs)) ** 0.5, f"{number} / 11 pi"


@catches(leaves_the_mean_in)
def bits_are_balanced_where_vectors_have_a_common_part(hash_bits):
    values = torch.randn(400, 10, generator=torch.Generator().manual_seed(2)) + 5
    codes = hash_bits(Vectors("shifted", values, torch.ones(400, dtype=torch.bool)), 200)
    assert (codes.double().mean(0) - 0.5).abs().max() < 0.2


HASH_LAWS = (
    codewords_of_vectors_at_an_angle_differ_in_its_share_of_bits,
    bits_are_balanced_where_vectors_have_a_common_part,
)


@pytest.mark.parametrize("law", HASH_LAWS, ids=str)
def test_hashing_keeps_its_laws(law):
    law(hash_bits)


MISTAKES = [(law, mutant) for law in HASH_LAWS for mutant in law.mutants]


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_of_hashing_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


def test_equal_vectors_get_codewords_that_differ_in_as_few_bits_as_possible():
    vectors, counts = random_vectors(40), torch.arange(40)
    vectors.values[:6] = vectors.values[20]
    codes = hashed(counts, vectors, 60, 60, RNG).int()
    alone = hash_bits_of(vectors, counts)
    assert codes[20].equal(alone[20])  # the most frequent keeps its codeword
    assert codes[6:].equal(alone[6:])
    distances = (codes[:6] != codes[20]).sum(1)
    assert distances.tolist() == [1] * 6
    margins = projections(vectors, 60, RNG.fork("directions"))[20].abs()
    changed = {int((codes[token] != codes[20]).nonzero()) for token in range(6)}
    assert changed == set(margins.argsort()[:6].tolist())  # the least certain bits


def hash_bits_of(vectors, counts):
    return (projections(vectors, 60, RNG.fork("directions")) > 0).int()


def test_a_repaired_book_uses_every_codeword_if_it_must():
    for bits in (1, 3, 6):
        margins = torch.randn(2**bits, bits)
        codes = repaired(margins, torch.arange(2**bits))
        assert len(codes.unique(dim=0)) == 2**bits
    same = repaired(torch.zeros(64, 6), torch.arange(64))
    assert len(same.unique(dim=0)) == 64
    assert repaired(torch.ones(2, 5), torch.arange(2)).sum(0).tolist() == [1] * 5


def test_half_of_a_blend_is_hashed(place):
    blend, plain = layer("blend", place, 40, 30), layer("hashed", place, 40, 30)
    values = torch.randn(3000, 20)
    vectors = Vectors("some", torch.cat([values, values + 0.1 * torch.randn(3000, 20)]), torch.ones(6000) > 0)
    codes = BlendConfig().codewords(torch.ones(6000), 41, RNG, vectors)
    near = (codes[:3000] != codes[3000:]).double().mean(0)
    assert near[:21].max() < 0.1
    assert near[21:].min() > 0.4
    assert blend.codebook.shape == plain.codebook.shape


def test_hashed_codewords_of_tokens_without_vectors_are_as_far_as_chance():
    known = torch.arange(300) % 3 != 0
    codes = hashed(torch.ones(300), random_vectors(300, known), 200, 200, RNG)
    shares = codes[~known].double().mean(1)
    assert (shares - 0.5).abs().max() < 5 * (0.25 / 200) ** 0.5


# codebooks of users


@pytest.fixture
def third():
    """Install the codebooks of this file as another plugin would bring them."""
    module = ModuleType("bench_third")
    module.bench_codebooks = hookimpl(lambda: [RepeatedBinaryConfig, ThresholdConfig], specname="bench_codebooks")
    with extra(module):
        yield


def test_a_plugin_brings_a_codebook(third):
    assert "repeated-binary" in parts("codebook")
    config = ECOCLMConfig.model_validate({"codes": {"kind": "threshold", "vector_size": 7}, "bits": 6})
    assert config.codes == ThresholdConfig(vector_size=7)
    assert config.extras() == {"vectors"}
    lm = ECOCLMConfig.model_validate({"codes": "repeated-binary", "bits": 6, "hidden": 3}).load()(
        ECOCLMConfig.model_validate({"codes": "repeated-binary", "bits": 6, "hidden": 3}), info(8)
    )
    lm.setup(info(8), RNG)
    assert lm.head.codebook[5].tolist() == [1, 0, 1, 1, 0, 1]
    hybrid = ECOCLMConfig.model_validate({"codes": {"kind": "hybrid", "rest": "repeated-binary"}})
    assert hybrid.codes.rest == RepeatedBinaryConfig()


def spoiled(change):
    class Spoiled(CodebookConfig):
        """Dense codes, spoiled."""

        def codewords(self, counts, bits, rng, vectors):
            return change(DenseConfig().codewords(counts, bits, rng, vectors))

    return Spoiled()


def repeat(codes):
    codes[[4, 9]] = codes[2].clone()
    return codes


def hold(codes):
    codes[:, [3, 7]] = 1
    return codes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (repeat, r"'spoiled' assigned the same codeword to the tokens 'w2', 'w4', 'w9'. Make all codewords differ"),
        (lambda codes: codes * 0, r"the same codeword to the tokens 'w0', 'w1', 'w2' and 9 others"),
        (hold, r"'spoiled' has 2 of 12 bits with the same value in all codewords \(columns 3, 7\)"),
        (lambda codes: 2 * codes, r"'spoiled' returned the value 2. Codewords consist of 0 and 1"),
        (lambda codes: codes[:-1], r"'spoiled' returned torch.uint8 \[11, 12\]. Return a uint8 tensor \[12, 12\]"),
        (lambda codes: codes.float(), r"'spoiled' returned torch.float32 \[12, 12\]"),
        (lambda codes: codes.tolist(), r"'spoiled' returned list. Return a uint8 tensor"),
    ],
)
def test_what_is_no_codebook_is_refused_by_name(change, message):
    with pytest.raises(PluginError, match=message):
        code_layer(spoiled(change), 5, 12, 12).setup(info(12), RNG)


def test_equal_rows_are_found_in_every_place():
    codes = DenseConfig().codewords(torch.ones(50), 20, RNG, None)
    assert equal_rows(pack(codes)) == []
    for first, second in ((0, 49), (17, 18)):
        wrong = codes.clone()
        wrong[second] = wrong[first]
        assert equal_rows(pack(wrong)) == [first, second]


def test_a_bit_is_constant_whether_it_is_always_0_or_1():
    codes = torch.tensor([[0, 1, 0, 1], [0, 1, 1, 0]], dtype=torch.uint8)
    assert constant_columns(codes) == [0, 1]
    assert constant_columns(codes[:1]) == []


def test_codes_of_a_hybrid_are_hashed_from_the_vectors_of_the_same_tokens(place):
    made = layer("hybrid-hashed", place, 40, 30)
    vectors = read(place / "vectors.txt", info(40).vocabulary).of(made.coded)
    assert made.codebook.equal(HashedConfig().codewords(made.counts[made.coded], 30, RNG, vectors))


def test_ties_go_to_the_most_frequent_token(place):
    made = layer("dense", place)
    first = int(by_count(made.counts)[0])
    assert made.best(torch.zeros(2, 12)).tolist() == [first, first]


def test_a_codebook_that_needs_vectors_without_their_settings_is_an_error_of_its_author():
    class NeedyConfig(RepeatedBinaryConfig):
        def needs_vectors(self):
            return True

    layer = code_layer(NeedyConfig(), 4, 6)
    with pytest.raises(PluginError, match=r"'needy' needs word vectors.*extend `VectorCodebookConfig`"):
        layer.setup(TaskInfo([*"abcdef"], [1] * 6), RNG)
