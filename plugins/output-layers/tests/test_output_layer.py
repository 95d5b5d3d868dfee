"""The output layer of codes: hand values, laws with their mutants, groups, searches, and what it is set up from."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn.functional import log_softmax, logsigmoid, softplus

from bench_authors.testing import catches, float64
from bench_core import Batch, DataError, Rng, State, SuiteError, TaskInfo, Training
from bench_output_layers import code_table
from bench_output_layers.codes import Ecoc
from bench_output_layers.gray_walk import codewords
from bench_output_layers.layer import FullSoftmax
from bench_output_layers.packed_codes import base_bits, pack
from bench_output_layers.plugin import GrayWalkConfig, IdentityConfig
from bench_output_layers.scan import Scan

RNG = Rng(7)
TRAINING = Training(step=3, steps=10, epoch=0, epochs=1, rng=RNG)
ORDERS = ("random", "unigram", "embedding", "tour")


@pytest.fixture(autouse=True)
def _laboratory():
    with float64(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def info(tokens, counts=None, **files):
    return TaskInfo([f"w{token}" for token in range(tokens)], counts or list(range(tokens, 0, -1)), files=files)


def gray(order, **settings):
    return GrayWalkConfig(order=order, vector_size=6, **settings)


def layer(tokens=11, bits=9, order="unigram", group=1, kind=Ecoc, hidden=5, spread=3.0):
    """Return a layer that is set up, with weights so large that probabilities differ."""
    made = kind(hidden, tokens, bits, gray(order), group)
    made.setup(info(tokens), RNG)
    nn.init.normal_(made.linear.weight, std=spread)
    return made.eval()


def batch_of(gold):
    """Return a batch of one row."""
    gold = torch.as_tensor(gold)[None]
    return Batch(torch.zeros(1, dtype=torch.int64), gold[:, :1] * 0, gold, torch.tensor([gold.shape[1]]))


def codes_of(made):
    return made.codebook.double()


def near(found, wanted, tolerance=1e-9):
    torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(wanted), atol=tolerance, rtol=tolerance)


# mistakes


class LeavesSoftplusIn(Ecoc):
    """What training minimises, taken for a distribution over tokens."""

    def naive(self, z):
        return super().naive(z) - softplus(z).sum(-1, keepdim=True)

    def log_probs(self, hidden, past):
        return self.scores(hidden), past

    def log_probs_of(self, units, gold):
        return self.scores(units).gather(1, gold[:, None])[:, 0]


class LeavesTheZerosOut(Ecoc):
    """Bits that are 0 cost nothing."""

    def bit_costs(self, units, gold):
        return -(self.codes(gold) * logsigmoid(self.bits(units))).sum(1)


class AveragesBits(Ecoc):
    """The mean over bits in place of the sum."""

    def bit_costs(self, units, gold):
        return super().bit_costs(units, gold) / self.length


class ReadsCodesByRank(Ecoc):
    """A token's id is taken for its rank."""

    def codes(self, tokens):
        return super().codes(self.table.order[tokens])


# laws


@catches(LeavesSoftplusIn)
def probabilities_of_tokens_sum_to_one(kind):
    for group in (1, 3):
        made = layer(kind=kind, group=group)
        log_probs, _ = made.log_probs(torch.randn(4, 2, 5), State())
        near(log_probs.exp().sum(2), torch.ones(4, 2))


@catches(LeavesTheZerosOut, AveragesBits, ReadsCodesByRank)
def the_cost_is_that_of_the_code(kind):
    made = layer(kind=kind, order="random")
    hidden, gold = torch.randn(11, 5), torch.arange(11)
    z, codes = made.bits(hidden), codes_of(made)
    wanted = codes * logsigmoid(z) + (1 - codes) * logsigmoid(-z)
    near(made.bit_costs(hidden, gold), -wanted.sum(1))


@catches(LeavesTheZerosOut, AveragesBits)
def tokens_have_no_more_than_all_of_the_mass(kind):
    """The sum of e^s is at most 1, and 1 where every code is a token's; so bits bound the perplexity."""
    for tokens, bits, whole in ((11, 9, False), (8, 3, True), (16, 4, True), (16, 5, False)):
        made = layer(tokens, bits, kind=kind)
        hidden = torch.randn(1, 5).expand(tokens, 5)
        mass = (-made.bit_costs(hidden, torch.arange(tokens))).exp().sum()
        assert mass <= 1 + 1e-9
        if whole:
            near(mass, 1.0)
        rows, past = hidden[None], State()
        bound, _ = made.score(rows, batch_of(range(tokens)), past, "bits")
        exact, _ = made.score(rows, batch_of(range(tokens)), past, "exact")
        assert (bound <= exact + 1e-9).all()


@catches(LeavesSoftplusIn)
def scores_are_steps(kind):
    """The score of a row is what decoding says of its tokens; that softplus cancels is seen in differences."""
    made = layer(kind=kind, order="random")
    hidden, gold = torch.randn(1, 6, 5), torch.tensor([4, 0, 10, 4, 2, 7])
    exact, _ = made.score(hidden, batch_of(gold), State(), "exact")
    z, codes = made.bits(hidden[0]), codes_of(made)
    near(exact, log_softmax(z @ codes.T, 1).gather(1, gold[:, None])[:, 0])
    near(made.log_probs(hidden, State())[0][0].gather(1, gold[:, None])[:, 0], exact)


@catches(LeavesTheZerosOut, AveragesBits, ReadsCodesByRank)
def the_gradient_of_a_bit_is_what_it_lacks(kind):
    """d cost / d z = sig(z) - C."""
    made = layer(kind=kind, order="random", hidden=9)
    made.linear.weight.data.copy_(torch.eye(9))
    with torch.enable_grad():
        z = torch.randn(11, 9, requires_grad=True)
        gold = torch.arange(11)
        (found,) = torch.autograd.grad(made.bit_costs(z, gold).sum(), z)
        near(found, (made.bits(z)).sigmoid() - codes_of(made))
        assert torch.autograd.gradcheck(lambda z: made.bit_costs(z, gold), z)


LAWS = (
    probabilities_of_tokens_sum_to_one,
    the_cost_is_that_of_the_code,
    tokens_have_no_more_than_all_of_the_mass,
    scores_are_steps,
    the_gradient_of_a_bit_is_what_it_lacks,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_layer_keeps_its_laws(law):
    law(Ecoc)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


def by_hand():
    """Return the layer of section 8: 000, 011, 110, 101, its logits those given."""
    made = layer(4, 3, hidden=3)
    made.linear.weight.data.copy_(torch.eye(3))
    nn.init.zeros_(made.linear.bias)
    return made, torch.tensor([[2.0, -1.0, 0.5]])


def test_hand_values_come_out():
    made, z = by_hand()
    assert made.codebook.tolist() == [[0, 0, 0], [0, 1, 1], [1, 1, 0], [1, 0, 1]]
    costs = made.bit_costs(z.expand(4, 3), torch.arange(4))
    near(costs, torch.tensor([3.41427, 3.91427, 2.41427, 0.91427]), 1e-5)
    near((-costs).exp().sum(), 0.543099, 1e-6)
    log_probs = made.log_probs(z[:, None], State())[0][0, 0]
    near(log_probs.exp(), torch.tensor([0.060579, 0.036743, 0.164671, 0.738006]), 1e-6)
    near(-log_probs[3], 0.303803, 1e-6)
    assert made.best(z).tolist() == [3]


def test_the_most_probable_token_has_the_highest_product():
    made = layer(order="random")
    z = made.bits(torch.randn(50, 5))
    products = z @ codes_of(made).T
    near(made.code_scores(z), products)
    assert made.best(z).equal(products.argmax(1))
    near(made.scores(torch.zeros(2, 3, 5))[1, 2], made.linear.bias @ codes_of(made).T)


def test_identity_is_the_full_softmax_itself():
    made, full = Ecoc(5, 11, None, IdentityConfig()), FullSoftmax(5, 11)
    made.setup(info(11), RNG)
    full.logits.load_state_dict(made.linear.state_dict())
    hidden = torch.randn(3, 2, 5)
    assert made.log_probs(hidden, State())[0].equal(full.log_probs(hidden, State())[0])
    assert made.codebook.equal(torch.eye(11, dtype=torch.uint8))
    assert made.nearest(made.codes(torch.arange(11))).tolist() == list(range(11))


def test_equals_go_to_the_lower_rank():
    made = layer(40, 12, "random")
    assert made.best(torch.zeros(2, 12)).tolist() == [int(made.table.ranks.argmin())] * 2
    z = torch.randint(-2, 3, (300, 12)).double()
    products = z @ codes_of(made).T
    for found, row in zip(made.best(z).tolist(), products, strict=True):
        assert found == min(
            (row == row.max()).nonzero()[:, 0].tolist(), key=lambda token: int(made.table.ranks[token])
        )


def test_the_nearest_codeword_is_that_with_the_fewest_differences():
    made = layer(40, 12, "random")
    codes = torch.randint(0, 2, (4, 50, 12))
    distance = (codes[:, :, None] != made.codebook).sum(3)
    found = made.nearest(codes)
    ties = 0
    for row, token in zip(distance.flatten(0, 1), found.flatten().tolist(), strict=True):
        nearest = (row == row.min()).nonzero()[:, 0].tolist()
        ties += len(nearest) > 1
        assert token == min(nearest, key=lambda other: int(made.table.ranks[other]))
    assert ties > 20


def test_few_wrong_bits_are_corrected():
    """As many as fewer than half of the smallest distance."""
    made = layer(12, 12, "random")
    codes = made.codebook.int()
    smallest = min(int((codes[one] != codes[other]).sum()) for one, other in combinations(range(12), 2))
    for number in range((smallest - 1) // 2 + 1):
        for columns in combinations(range(12), number):
            wrong = codes.clone()
            wrong[:, list(columns)] ^= 1
            assert made.nearest(wrong).tolist() == list(range(12))


@pytest.mark.parametrize(("tokens", "bits"), [(2, 1), (3, 3), (50, 50), (700, 10), (1000, 11), (3000, 700)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_scan_is_the_product_with_the_codebook(tokens, bits, dtype):
    codes, ranks = codewords(tokens, bits, RNG), torch.randperm(tokens)
    by_token, z = codes[ranks], 5 * torch.randn(70, bits, dtype=dtype)
    scan = Scan(pack(by_token), ranks, bits, dtype)
    tolerance = 1e-3 if dtype == torch.float32 else 1e-10
    near(scan(z), z @ by_token.to(dtype).T, tolerance)
    near(scan.by_rank(z), z @ codes.to(dtype).T, tolerance)


def test_scanned_or_multiplied_the_layer_gives_the_same(monkeypatch):
    made = layer(300, 40, "random", group=2)
    hidden, code = torch.randn(3, 30, 5), torch.randint(0, 2, (90, 40))
    with torch.no_grad():
        dense = [made.log_probs(hidden, State())[0], made.best(made.bits(hidden)), made.nearest(code)]
        monkeypatch.setattr(code_table, "MAX_MATMUL_BITS", 0)
        monkeypatch.setattr(code_table, "CHUNK_SCORES", 2000)
        scanned = [made.log_probs(hidden, State())[0], made.best(made.bits(hidden)), made.nearest(code)]
    near(scanned[0], dense[0])
    assert scanned[1].equal(dense[1])
    assert scanned[2].equal(dense[2])
    learnt = made.log_probs(hidden, State())[0]  # with gradients, so by multiplication
    near(learnt, dense[0])
    learnt[0, 0, 3].backward()
    assert made.linear.weight.grad.any()


# groups


def words_of(made, token):
    """Return the codewords of a token, by the definition."""
    order, base = made.table.ranks.argsort(), base_bits(made.tokens)
    own, rank = made.codebook[token].tolist(), int(made.table.ranks[token])
    found = [own]
    if rank:
        before = made.codebook[order[rank - 1]].tolist()
        flipped = [column for column in range(base, made.length) if own[column] != before[column]]
        found += [
            [bit ^ (place == column) for place, bit in enumerate(own)]
            for column in flipped[: made.table.own_checks.shape[1]]
        ]
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("order", ["unigram", "random"])
def test_a_group_costs_as_its_best_codeword_and_weighs_as_all_of_them(order):
    made = layer(order=order, group=3)
    hidden = torch.randn(7, 5)
    z = made.bits(hidden)
    products = [z @ words_of(made, token).T for token in range(11)]
    assert {product.shape[1] for product in products} == {1, 2, 3}
    best = torch.stack([product.amax(1) for product in products], 1)  # [7, V]
    summed = torch.stack([product.logsumexp(1) for product in products], 1)
    for token in range(11):
        gold = torch.full((7,), token)
        near(made.bit_costs(hidden, gold), softplus(z).sum(1) - best[:, token])
    near(made.log_probs(hidden[None], State())[0][0], summed.log_softmax(1))
    assert made.best(z).equal(best.argmax(1))
    assert not best.argmax(1).equal((z @ codes_of(made).T).argmax(1))  # here a flipped bit decides


def test_groups_are_disjoint_and_bits_still_bound_the_perplexity():
    made = layer(group=4)
    words = torch.cat([words_of(made, token) for token in range(11)])
    assert len(words.unique(dim=0)) == len(words) > 22
    rows, gold = torch.randn(1, 11, 5), batch_of(range(11))
    assert (made.score(rows, gold, State(), "bits")[0] <= made.score(rows, gold, State(), "exact")[0]).all()


# training and scoring


def test_training_never_looks_at_another_token(monkeypatch):
    made = layer(group=2).train()
    monkeypatch.setattr(made.table, "products", lambda z: pytest.fail("all tokens were scored"))
    hidden, batch = torch.randn(1, 3, 5), batch_of([1, 2, 3])
    costs, _ = made.loss(hidden, batch, State(), TRAINING)
    near(costs, made.bit_costs(hidden[0], batch.gold[0]))
    monkeypatch.undo()
    near(made.eval().loss(hidden, batch, State(), TRAINING)[0], costs)
    exact = -made.score(hidden, batch, State(), "exact")[0]
    assert (exact < costs).all()


def test_scores_do_not_depend_on_how_many_are_computed_together(monkeypatch):
    made = layer()
    hidden, batch = torch.randn(1, 9, 5), batch_of(range(9))
    whole = [made.score(hidden, batch, State(), by)[0] for by in ("exact", "bits")]
    monkeypatch.setattr("bench_output_layers.layer.LOGITS", 25)
    for by, wanted in zip(("exact", "bits"), whole, strict=True):
        near(made.score(hidden, batch, State(), by)[0], wanted)


def test_there_may_be_no_position_to_look_at(monkeypatch):
    for small in (0, 2**20):
        monkeypatch.setattr(code_table, "MAX_MATMUL_BITS", small)
        made = layer(100, 40, group=2)
        with torch.no_grad():
            assert made.best(torch.zeros(0, 40)).shape == made.nearest(torch.zeros(0, 40)).shape == (0,)
            assert made.log_probs(torch.zeros(0, 1, 5), State())[0].shape == (0, 1, 100)
            assert made.bit_errors(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_bit_errors_are_the_share_of_bits_beyond_the_threshold():
    made, z = by_hand()
    hidden = torch.cat([z, -z, 0 * z])  # 101, 010, and what is not above the threshold counts as 0
    near(made.bit_errors(hidden, torch.tensor([3, 3, 3])), torch.tensor([0, 1, 2 / 3]))
    near(made.bit_errors(hidden, torch.tensor([0, 2, 0])), torch.tensor([2 / 3, 1 / 3, 0]))


# set-up


def test_bits_begin_as_probable_as_they_are_in_training():
    made = Ecoc(5, 4, 3, gray("unigram"))
    made.setup(info(4, [6, 5, 4, 1]), RNG)
    near(made.linear.bias.sigmoid(), torch.tensor([5 / 16, 9 / 16, 6 / 16]))
    made.setup(info(4, [6, 0, 0, 0]), RNG)
    assert made.linear.bias.isfinite().all()
    assert (made.linear.bias < -2).all()


def test_all_orders_share_the_codewords():
    wanted = codewords(11, 9, RNG.fork("checks"))
    for order in ORDERS:
        made = layer(order=order)
        if made.needs_statistics:
            made.fit_statistics([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 3], info(11), RNG.fork("survey"))
        assert made.codebook[made.table.ranks.argsort()].equal(wanted)
    assert layer(order="unigram").table.ranks.tolist() == list(range(11))
    assert sorted(layer(order="random").table.ranks.tolist()) == list(range(11))


@pytest.mark.parametrize("order", ["embedding", "tour"])
def test_vectors_of_a_file_make_the_order(tmp_path, order):
    path = tmp_path / "plane.txt"
    path.write_text("w2 1 0\nw3 0.6 0.8\nw1 0.7 -0.7\nw0 0.9 0.1\nother 1 1\n")
    made = Ecoc(5, 5, 5, gray(order), group=2)
    made.setup(info(5, [1, 2, 8, 4, 9], vectors=path), RNG)
    wanted = {"embedding": [2, 0, 1, 3, 4], "tour": [2, 0, 3, 1, 4]}[order]
    assert made.table.ranks.argsort().tolist() == wanted
    assert not made.needs_statistics
    assert made.notes() == {
        "word vectors": "plane.txt, 2 dimensions; covers 4 of 5 tokens (80.0%) and 62.5% of the training text",
        "tokens without a vector": "1 of 5, which come last, by count",
    }
    for token in range(5):
        near(made.table.own_checks[token] >= 0, torch.tensor([len(words_of(made, token)) > 1]))


def test_vectors_are_learnt_where_there_is_no_file():
    made, counted = layer(order="embedding", group=2), info(11, [1, 2, 9, *range(8)])
    assert made.needs_statistics
    assert made.table.ranks.tolist() == list(range(11))  # by count, until then
    assert made.notes() == {}
    sentences = [[1, 2, 3, 4], [5, 6, 7, 8, 9, 2], [2, 10]] * 3
    made.setup(counted, RNG)
    made.fit_statistics(sentences, counted, RNG)
    order = made.table.ranks.argsort().tolist()
    assert order[0] == 2  # the most frequent
    assert order[-1] == 0  # never read, so without a vector
    assert "skip-gram" in made.notes()["word vectors"]
    assert "6 dimensions" in made.notes()["word vectors"]
    assert not made.needs_statistics
    again = layer(order="embedding", group=2)
    again.setup(counted, RNG)
    again.fit_statistics(sentences, counted, RNG)
    for name, buffer in made.named_buffers():
        assert buffer.equal(again.get_buffer(name)), name


def test_a_codebook_is_kept_with_the_weights():
    first, second = layer(order="random"), layer(order="unigram")
    hidden = torch.randn(2, 1, 5)
    with torch.inference_mode():
        assert not second.log_probs(hidden, State())[0].equal(first.log_probs(hidden, State())[0])
    second.load_state_dict(first.state_dict())
    assert second.log_probs(hidden, State())[0].equal(first.log_probs(hidden, State())[0])
    assert second.codebook.equal(first.codebook)
    second.log_probs(hidden, State())[0].sum().backward()  # though it was first made without gradients


def test_building_computes_nothing():
    with torch.device("meta"):
        made = Ecoc(5, 11, 9, gray("embedding"), 2)
    assert all(tensor.is_meta for tensor in made.state_dict().values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 3}, "codes of 3 bits cannot distinguish 11 tokens. Set `bits` to 4 or more"),
        ({"bits": 12}, "longer than the number of tokens, 11. Set `bits` to a number from 4 to 11"),
        ({"bits": 10, "codebook": IdentityConfig()}, "a bit for each of 11 tokens, so `bits` cannot be 10"),
        ({"bits": 9, "group": 0}, "a group of 0 codewords"),
        ({"bits": None, "codebook": IdentityConfig(), "group": 2}, "a group of 2 codewords .* `codes: identity`"),
    ],
)
def test_codes_that_cannot_be_are_refused(settings, message):
    with pytest.raises(SuiteError, match=message):
        Ecoc(5, 11, **{"codebook": gray("unigram"), **settings})


def test_without_a_length_codes_are_as_short_as_can_be():
    assert Ecoc(5, 11, None, gray("unigram")).length == 4
    assert Ecoc(5, 2, None, gray("unigram")).length == 1
    assert Ecoc(5, 11, None, IdentityConfig()).length == 11


def test_an_order_by_counts_needs_counts(tmp_path):
    made = Ecoc(5, 3, None, gray("unigram"))
    with pytest.raises(
        SuiteError, match=r"`codes: gray-walk` ranks tokens by token frequency.* counts for 0 of its 3"
    ):
        made.setup(TaskInfo(["a", "b", "c"]), RNG)
    Ecoc(5, 3, None, gray("random")).setup(TaskInfo(["a", "b", "c"]), RNG)
    (tmp_path / "other.txt").write_text("x 1 2\n")
    with pytest.raises(DataError, match="any of the 3 tokens"):
        Ecoc(5, 3, None, gray("tour")).setup(info(3, vectors=tmp_path / "other.txt"), RNG)


# training by tokens


@pytest.mark.parametrize("group", [1, 3])
def test_tokens_have_biases_where_they_are_trained_exactly(group):
    made = layer(order="random", group=group)
    exact = Ecoc(5, 11, 9, gray("random"), group, exact=True, gain=1)
    exact.load_state_dict(made.state_dict() | {"token_bias": torch.randn(11)})
    exact.eval()
    hidden, rows = torch.randn(1, 11, 5), batch_of(range(11))
    near(exact.scores(hidden), made.scores(hidden) + exact.token_bias)
    likely = torch.randn(40, 9)
    if group == 1:
        assert exact.best(likely).equal((likely @ codes_of(made).T + exact.token_bias).argmax(1))
    (exact.loss(hidden, rows, State(), TRAINING)[0].sum()).backward()
    assert exact.token_bias.grad.any()
    bound, sure = (exact.score(hidden, rows, State(), by)[0] for by in ("bits", "exact"))
    assert (bound <= sure + 1e-9).all()
    assert made.token_bias is None
    assert Ecoc(5, 11, None, IdentityConfig(), exact=True).token_bias is None  # its bits have biases


def test_bits_are_a_bound_however_large_the_biases_of_tokens_are():
    exact = Ecoc(5, 8, 3, gray("random"), exact=True, gain=1)
    exact.setup(info(8), RNG)
    exact.token_bias.data += 1 + torch.rand(8)  # all codes are tokens, so the bound is tight
    hidden, rows = torch.randn(1, 8, 5), batch_of(range(8))
    bound, sure = (exact.score(hidden, rows, State(), by)[0] for by in ("bits", "exact"))
    assert (bound <= sure + 1e-9).all()


@pytest.mark.parametrize("call", ["best", "nearest", "bit_errors"])
def test_logits_that_are_not_numbers_are_named_rather_than_ranked(call):
    made = layer()
    made.linear.weight.data[2] = torch.nan
    hidden = torch.randn(4, 5)
    arguments = (hidden, torch.arange(4)) if call == "bit_errors" else (made.bits(hidden),)
    with pytest.raises(SuiteError, match=r"logits of bits are NaN at 4 of 4 positions.*lower `lr`"):
        getattr(made, call)(*arguments)
