"""Sampled, noise-contrastive, hierarchical and adaptive softmax: hand values, and laws with their mutants."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, log_softmax

from bench_authors.testing import catches, float64
from bench_core import Batch, Rng, State, SuiteError, TaskInfo, Training
from bench_core.kit import Softmax
from bench_output_layers import adaptive, hierarchical, nce, sampled, vectors
from bench_output_layers.layer import FullSoftmax

RNG = Rng(5)


@pytest.fixture(autouse=True)
def _laboratory():
    with float64(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def training(turn=0):
    return Training(step=turn, steps=10, epoch=0, epochs=1, rng=RNG.fork(turn))


def info(*counts):
    return TaskInfo([f"w{token}" for token in range(len(counts))], counts)


def batch_of(gold):
    """Return a batch of one row."""
    gold = torch.as_tensor(gold)[None]
    return Batch(torch.zeros(1, dtype=torch.int64), gold[:, :1] * 0, gold, torch.tensor([gold.shape[1]]))


def near(found, wanted, tolerance=1e-9):
    torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(wanted), atol=tolerance, rtol=tolerance)


def everywhere(made, units, tokens):
    """Return what an output layer says of each token alone after `units` [M, H], [M, V]."""
    return torch.stack([made.log_probs_of(units, torch.full((len(units),), token)) for token in range(tokens)], 1)


# every layer

COUNTS = (3, 40, 7, 7, 1, 90, 12, 5, 5, 2, 66, 0, 1)
MAKERS = {
    "full": lambda: FullSoftmax(6, 13),
    "sampled-uniform": lambda: sampled.SampledSoftmax(6, 13, 5, "uniform"),
    "sampled-unigram": lambda: sampled.SampledSoftmax(6, 13, 5, "unigram"),
    "nce": lambda: nce.NCE(6, 13, 4),
    "hierarchical-random": lambda: hierarchical.HierarchicalSoftmax(6, 13, "random", 5),
    "hierarchical-unigram": lambda: hierarchical.HierarchicalSoftmax(6, 13, "unigram"),
    "hierarchical-alone": lambda: hierarchical.HierarchicalSoftmax(6, 13, "unigram", 1),
    "adaptive": lambda: adaptive.AdaptiveSoftmax(6, 13, (4, 9)),
}


@pytest.fixture(params=MAKERS)
def made(request):
    made = MAKERS[request.param]()
    made.setup(info(*COUNTS), RNG)
    for weights in made.parameters():
        nn.init.normal_(weights)
    return made


def test_probabilities_sum_to_one_and_scores_are_those_of_steps(made):
    hidden, gold = torch.randn(1, 20, 6), torch.arange(20) % 13
    log_probs, _ = made.log_probs(hidden, State())
    near(log_probs.logsumexp(2), torch.zeros(1, 20))
    near(made.score(hidden, batch_of(gold), State(), "exact")[0], log_probs[0].gather(1, gold[:, None])[:, 0])
    near(everywhere(made, hidden[0], 13), log_probs[0])
    near(made.scores(hidden.view(4, 5, 6)).log_softmax(2), log_probs.view(4, 5, 13))


def test_only_training_approximates(made):
    hidden, batch = torch.randn(1, 7, 6), batch_of([1, 5, 10, 6, 2, 3, 0])
    exact = -made.score(hidden, batch, State(), "exact")[0]
    near(made.eval().loss(hidden, batch, State(), training())[0], exact)
    with torch.no_grad():
        near(made.train().loss(hidden, batch, State(), training())[0], exact)
    learnt = made.loss(hidden, batch, State(), training())[0]
    approximates = isinstance(made, sampled.SampledHead)
    assert approximates != torch.allclose(learnt, exact)
    learnt.sum().backward()
    assert all(weights.grad is not None for weights in made.parameters())


def test_what_is_computed_together_does_not_matter(made, monkeypatch):
    hidden, batch = torch.randn(1, 7, 6), batch_of([1, 5, 10, 6, 2, 3, 0])
    wanted = made.score(hidden, batch, State(), "exact")[0], made.loss(hidden, batch, State(), training())[0]
    monkeypatch.setattr("bench_output_layers.layer.LOGITS", 30)
    near(made.score(hidden, batch, State(), "exact")[0], wanted[0])
    near(made.loss(hidden, batch, State(), training())[0], wanted[1])


def test_everything_that_is_set_up_is_kept_with_the_weights(made, request):
    name = request.node.callspec.params["made"]
    other = MAKERS[name]()
    other.load_state_dict(made.state_dict())
    hidden = torch.randn(1, 3, 6)
    assert other.log_probs(hidden, State())[0].equal(made.log_probs(hidden, State())[0])
    batch = batch_of([1, 5, 10])
    assert other.loss(hidden, batch, State(), training())[0].equal(made.loss(hidden, batch, State(), training())[0])


def test_building_computes_nothing():
    with torch.device("meta"):
        for maker in MAKERS.values():
            assert all(tensor.is_meta for tensor in maker().state_dict().values())


def test_the_full_softmax_is_that_of_the_recurrent_models():
    ours = FullSoftmax(6, 13)
    theirs = Softmax(ours.logits)
    hidden = torch.randn(2, 3, 6)
    assert ours.log_probs(hidden, State())[0].equal(theirs.log_probs(hidden, State())[0])


@pytest.mark.parametrize("name", ["full", "sampled-unigram", "nce", "hierarchical-unigram"])
def test_a_matrix_of_logits_can_be_the_embedding(name):
    made, embedding = MAKERS[name](), nn.Embedding(13, 6)
    made.tie(embedding)
    assert any(weights is embedding.weight for weights in made.parameters())
    made.setup(info(*COUNTS), RNG)
    before = made.scores(torch.ones(1, 6))
    embedding.weight.data.mul_(2)
    assert not made.scores(torch.ones(1, 6)).allclose(before)


def test_an_adaptive_softmax_has_no_matrix_to_tie():
    with pytest.raises(SuiteError, match="has no weight"):
        MAKERS["adaptive"]().tie(nn.Embedding(13, 6))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["sampled", "nce", "hierarchical"])
def test_gradients_of_rows_may_be_sparse(name, sparse):
    made = {
        "sampled": lambda: sampled.SampledSoftmax(6, 13, 2, "uniform", sparse=sparse),
        "nce": lambda: nce.NCE(6, 13, 2, sparse=sparse),
        "hierarchical": lambda: hierarchical.HierarchicalSoftmax(6, 13, "unigram", 3, sparse=sparse),
    }[name]()
    made.setup(info(*COUNTS), RNG)
    made.loss(torch.randn(1, 2, 6), batch_of([1, 5]), State(), training())[0].sum().backward()
    (rows,) = [module.weight for module in made.modules() if isinstance(module, nn.Embedding)]
    assert rows.grad.is_sparse == sparse
    touched = rows.grad.to_dense().any(1).sum()
    assert 2 <= touched <= 12


@pytest.mark.parametrize("name", ["sampled-unigram", "nce", "hierarchical-unigram", "adaptive"])
def test_what_goes_by_counts_needs_them(name):
    with pytest.raises(SuiteError, match=r"this output layer .* by token frequency.* counts for 0 of its 13"):
        MAKERS[name]().setup(TaskInfo([f"w{token}" for token in range(13)]), RNG)


# sampled softmax


class ForgetsQ(sampled.SampledSoftmax):
    """Logits are not corrected by how often a token is drawn."""

    def log_expected_count(self, tokens, samples):
        return torch.zeros(tokens.shape)


class CorrectsUpwards(sampled.SampledSoftmax):
    """Logits are raised by log(S Q) rather than lowered."""

    def log_expected_count(self, tokens, samples):
        return -super().log_expected_count(tokens, samples)


class CountsGoldTwice(sampled.SampledSoftmax):
    """A drawn token that is gold stays."""

    def costs_against(self, drawn, units, gold):
        own = self.scores_of(units, gold) - self.log_expected_count(gold, len(drawn))
        others = linear(units, self.rows(drawn), self.bias[drawn] - self.log_expected_count(drawn, len(drawn)))
        return cross_entropy(torch.cat([own[:, None], others], 1), torch.zeros_like(gold), reduction="none")


class ForgetsHowManyAreDrawn(sampled.SampledSoftmax):
    """Gold is corrected by Q, the others by S Q."""

    def costs_against(self, drawn, units, gold):
        own = self.scores_of(units, gold) - self.log_q[gold]
        others = linear(units, self.rows(drawn), self.bias[drawn] - self.log_expected_count(drawn, len(drawn)))
        others = others.masked_fill(gold[:, None] == drawn, -torch.inf)
        return cross_entropy(torch.cat([own[:, None], others], 1), torch.zeros_like(gold), reduction="none")


def small(kind, samples, by="unigram"):
    made = kind(2, 6, samples, by)
    made.setup(info(1, 30, 12, 4, 2, 1), RNG)
    for weights in made.parameters():
        nn.init.normal_(weights, generator=torch.Generator().manual_seed(3))
    return made


@catches(CountsGoldTwice, ForgetsHowManyAreDrawn)
def all_tokens_drawn_once_are_the_full_softmax(kind):
    made, units, gold = small(kind, 6, "uniform"), torch.randn(5, 2), torch.tensor([3, 0, 5, 5, 1])
    full = cross_entropy(made.scores(units), gold, reduction="none")
    near(made.costs_against(torch.tensor([4, 1, 0, 5, 3, 2]), units, gold), full)
    assert made.costs_against(torch.tensor([3]), units[:1], gold[:1]) == 0  # nothing is left to confuse it with


@catches(ForgetsQ, CorrectsUpwards)
def the_mean_gradient_comes_to_that_of_the_full_softmax(kind):
    units, gold = torch.tensor([[0.3, -0.8]]), torch.tensor([4])

    with torch.enable_grad():

        def off(samples, draws):
            made = small(kind, samples)
            (full,) = torch.autograd.grad(cross_entropy(made.scores(units), gold), made.bias)
            found = torch.zeros(6)
            for turn in range(draws):
                costs = made.costs(units, gold, batch_of(gold), training(turn))
                found += torch.autograd.grad(costs.sum(), made.bias)[0] / draws
            return float((found - full).norm() / full.norm())

        few, many = off(2, 300), off(400, 60)
        assert many < 0.06
        assert many < few / 3


SAMPLED_LAWS = (all_tokens_drawn_once_are_the_full_softmax, the_mean_gradient_comes_to_that_of_the_full_softmax)
SAMPLED_MISTAKES = [(law, mutant) for law in SAMPLED_LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", SAMPLED_LAWS, ids=str)
def test_sampled_softmax_keeps_its_laws(law):
    law(sampled.SampledSoftmax)


@pytest.mark.parametrize(
    ("law", "mutant"), SAMPLED_MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in SAMPLED_MISTAKES]
)
def test_every_law_of_sampled_softmax_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


def test_tokens_are_drawn_as_often_as_they_are_counted():
    made = small(sampled.SampledSoftmax, 5)
    drawn = made.draw(RNG.shared("draws", (20_000,)))
    shares = torch.bincount(drawn, minlength=6) / 20_000
    near(shares, torch.tensor([1, 30, 12, 4, 2, 1]) / 50, 0.02)
    edges = torch.tensor([1e-18, 0.0199, 0.0201, 1 - 1e-16])
    assert made.draw(edges).tolist() == [0, 0, 1, 5]
    uniform = small(sampled.SampledSoftmax, 5, "uniform")
    near(uniform.log_q.exp(), torch.full((6,), 1 / 6))


def test_a_token_that_was_never_counted_still_costs_something_finite():
    made = sampled.SampledSoftmax(2, 3, 4, "unigram")
    made.setup(info(0, 5, 5), RNG)
    assert made.costs(torch.randn(1, 2), torch.tensor([0]), batch_of([0]), training()).isfinite().all()


def test_there_must_be_something_to_draw():
    with pytest.raises(SuiteError, match="cannot sample 0 tokens"):
        nce.NCE(2, 3, 0)


# noise-contrastive estimation


class ForgetsTheNumberOfNoise(nce.NCE):
    """Scores are compared with log Q, not log(k Q)."""

    def log_expected_count(self, tokens, samples):
        return self.log_q[tokens]


class ForgetsTheNoise(nce.NCE):
    """Scores are compared with nothing: negative sampling."""

    def log_expected_count(self, tokens, samples):
        return torch.zeros(tokens.shape)


@catches(ForgetsTheNumberOfNoise, ForgetsTheNoise)
def telling_gold_from_noise_is_as_by_hand(kind):
    made = kind(1, 3, 2)
    made.setup(info(5, 3, 2), RNG)
    made.bias.data.copy_(torch.tensor([2.0, 1.0, 0.0]))
    right = torch.tensor([0.880797, 0.819184, 0.714286])
    wanted = -right[0].log() - (1 - right[1]).log() - (1 - right[2]).log()
    near(made.costs_against(torch.tensor([[1, 2]]), torch.zeros(1, 1), torch.tensor([0])), wanted[None], 1e-5)


@catches(ForgetsTheNumberOfNoise, ForgetsTheNoise)
def the_best_scores_are_log_probabilities(kind):
    """Of tokens without a context, p of them, from noise that is uniform: then Z is 1."""
    made, frequent = kind(1, 5, 20), torch.tensor([8, 6, 3, 2, 1])
    made.setup(info(4, 4, 4, 4, 4), RNG)
    near(made.bias, torch.full((5,), -torch.log(torch.tensor(5.0)).item()))
    gold, rng = torch.arange(5).repeat_interleave(frequent), torch.arange(5).repeat(4).expand(20, 20)
    with torch.enable_grad():
        optimizer = torch.optim.LBFGS([made.bias], max_iter=100, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

        def cost():
            optimizer.zero_grad()
            total = made.costs_against(rng, torch.zeros(20, 1), gold).sum()
            total.backward()
            return total

        optimizer.step(cost)
    near(made.bias.detach(), (frequent / 20).log(), 1e-5)
    near(made.scores(torch.zeros(2, 1)).logsumexp(1).detach(), torch.zeros(2), 1e-5)


NCE_LAWS = (telling_gold_from_noise_is_as_by_hand, the_best_scores_are_log_probabilities)
NCE_MISTAKES = [(law, mutant) for law in NCE_LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", NCE_LAWS, ids=str)
def test_noise_contrastive_estimation_keeps_its_laws(law):
    law(nce.NCE)


@pytest.mark.parametrize(
    ("law", "mutant"), NCE_MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in NCE_MISTAKES]
)
def test_every_law_of_noise_contrastive_estimation_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


def test_noise_belongs_to_a_position_of_an_example():
    """So that a row costs the same in another batch, however much that is padded."""
    made = nce.NCE(3, 6, 4)
    made.setup(info(1, 30, 12, 4, 2, 1), RNG)
    hidden = torch.randn(2, 4, 3)
    gold = torch.tensor([[1, 2, 0, 0], [3, 1, 2, 0]])
    both = Batch(torch.tensor([8, 9]), gold[:, :1] * 0, gold, torch.tensor([3, 4]))
    first = Batch(torch.tensor([8]), gold[:1, :1] * 0, gold[:1, :3], torch.tensor([3]))
    together = made.loss(hidden, both, State(), training())[0]
    near(made.loss(hidden[:1, :3], first, State(), training())[0], together[:3])
    again = made.loss(hidden, both, State(), training(1))[0]
    assert not again.allclose(together)


# hierarchical softmax


class PadsWithZero(hierarchical.HierarchicalSoftmax):
    """The last class has as many leaves as all others."""

    def leaf_logits(self, hidden, classes):
        return super().leaf_logits(hidden, classes).nan_to_num(neginf=0.0)


class NamesLeavesByRank(hierarchical.HierarchicalSoftmax):
    """A token is looked for where its id would be, not its rank."""

    def log_probs_of(self, units, gold):
        return super().log_probs_of(units, self.member.view(-1)[gold])


@catches(PadsWithZero, NamesLeavesByRank)
def leaves_and_classes_share_the_mass(kind):
    made = kind(4, 37, "random")
    made.setup(info(*range(1, 38)), RNG)
    units = torch.randn(6, 4)
    alone = everywhere(made, units, 37)
    near(alone.logsumexp(1), torch.zeros(6), 1e-6)
    near(made.log_probs(units[None], State())[0][0], alone)


HIERARCHICAL_MISTAKES = leaves_and_classes_share_the_mass.mutants


def test_hierarchical_softmax_keeps_its_law():
    leaves_and_classes_share_the_mass(hierarchical.HierarchicalSoftmax)


@pytest.mark.parametrize("mutant", HIERARCHICAL_MISTAKES, ids=lambda mutant: mutant.__name__)
def test_the_law_of_hierarchical_softmax_catches_its_mutants(mutant):
    with pytest.raises(AssertionError):
        leaves_and_classes_share_the_mass(mutant)


def test_classes_and_leaves_multiply_as_by_hand():
    made = hierarchical.HierarchicalSoftmax(1, 4, "unigram", 2)
    made.setup(info(4, 3, 2, 1), RNG)
    made.classes.bias.data.copy_(torch.tensor([0.6, 0.4]).log())
    made.bias.data.copy_(torch.tensor([0.7, 0.3, 0.5, 0.5]).log())
    near(made.log_probs(torch.zeros(1, 1, 1), State())[0].exp().view(-1), torch.tensor([0.42, 0.18, 0.2, 0.2]))


def test_classes_are_tens_of_an_order():
    made = hierarchical.HierarchicalSoftmax(2, 25, "unigram")
    made.setup(info(*range(25)), RNG)  # the last is the most frequent
    assert made.member[0].tolist() == list(range(24, 14, -1))
    assert made.member[2].tolist() == [4, 3, 2, 1, 0, -1, -1, -1, -1, -1]
    assert made.sizes.tolist() == [10, 10, 5]
    for token in range(25):
        assert made.member[made.class_of[token], made.index_of[token]] == token
    assert made.leaf_logits(torch.zeros(1, 2), torch.tensor([2])).isneginf().tolist() == [[False] * 5 + [True] * 5]
    assert made.leaf_logits(torch.zeros(3, 4, 2), torch.zeros(3, 4, dtype=torch.int64)).shape == (3, 4, 10)
    with pytest.raises(SuiteError, match="a class cannot have 0 tokens"):
        hierarchical.HierarchicalSoftmax(2, 25, "unigram", 0)


VECTORS = {"w0": [1, 0], "w1": [0, 1], "w2": [1, 1], "w3": [-1, 0.1]}  # similar to w1: w2, w3, w0


def written_vectors(folder):
    path = folder / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items()))
    return path


def check_that_classes_are_of_similar_tokens(layer, path):
    made = layer(3, 5, "embedding", 2)
    given = replace(info(5, 9, 1, 1, 50), files={"vectors": path})
    made.setup(given, RNG)
    assert not made.needs_statistics
    assert made.member.tolist() == [[1, 2], [3, 0], [4, -1]]  # the most frequent token with a vector comes first
    assert made.notes()["word vectors"].startswith("vectors.txt, 2 dimensions; covers 4 of 5 tokens (80.0%)")
    return made


class ByCount(hierarchical.HierarchicalSoftmax):
    """Mutant: the vectors are ignored."""

    def _place_by(self, vectors, info):
        super()._place_by(vectors, info)
        self.place(hierarchical.by_count(torch.tensor(info.counts)))


def test_the_embedding_order_makes_classes_of_similar_tokens(tmp_path):
    made = check_that_classes_are_of_similar_tokens(hierarchical.HierarchicalSoftmax, written_vectors(tmp_path))
    near(made.log_probs(torch.randn(1, 4, 3), State())[0].logsumexp(2), torch.zeros(1, 4))


def test_classes_by_count_instead_of_similarity_are_caught(tmp_path):
    with pytest.raises(AssertionError):
        check_that_classes_are_of_similar_tokens(ByCount, written_vectors(tmp_path))


def test_without_a_file_vectors_are_learned_from_sentences_and_classes_are_by_count_until_then(monkeypatch):
    asked = []

    def learn(sentences, vocabulary, size, rng):
        asked.append((sentences, [*vocabulary], size))
        numbers = torch.tensor([*VECTORS.values(), [0, 0]])
        return vectors.Vectors("learned", numbers, torch.arange(5) < 4)

    monkeypatch.setattr(vectors, "learn", learn)
    made, given = hierarchical.HierarchicalSoftmax(3, 5, "embedding", 2, vector_size=7), info(5, 9, 1, 1, 50)
    made.setup(given, RNG)
    assert made.needs_statistics
    assert made.member.tolist() == [[4, 1], [0, 2], [3, -1]]
    made.fit_statistics([[1, 2]], given, RNG)
    assert asked == [([[1, 2]], given.vocabulary, 7)]
    assert made.member.tolist() == [[1, 2], [3, 0], [4, -1]]
    made.fit_statistics([[1, 2]], given, RNG)
    assert len(asked) == 1
    other = hierarchical.HierarchicalSoftmax(3, 5, "embedding", 2)
    other.load_state_dict(made.state_dict())
    assert other.member.equal(made.member), "a stored model keeps its classes"


def test_orders_without_vectors_need_no_statistics():
    for order in ("random", "unigram"):
        made = hierarchical.HierarchicalSoftmax(2, 5, order)
        made.setup(info(*range(5)), RNG)
        made.fit_statistics([[1]], info(*range(5)), RNG)
        assert not made.needs_statistics


# adaptive softmax


def test_head_and_tail_multiply_as_by_hand():
    made = adaptive.AdaptiveSoftmax(1, 4, (2,))
    made.setup(info(3, 1, 4, 2), RNG)  # by rank: 2, 0, 3, 1
    made.head.bias.data.copy_(torch.tensor([1.0, 0.0, 0.5]))
    made.tails[0][1].bias.data.copy_(torch.tensor([0.2, -0.2]))
    probs = made.log_probs(torch.zeros(1, 1, 1), State())[0].exp().view(-1)
    near(probs[[2, 0, 3, 1]], torch.tensor([0.50648, 0.18632, 0.18391, 0.12328]), 1e-5)


def test_clusters_are_those_of_torch_where_tokens_are_sorted():
    made = adaptive.AdaptiveSoftmax(32, 50, (10, 20))
    made.setup(info(*range(50, 0, -1)), RNG)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(32, 50, [10, 20], div_value=4.0, head_bias=True)
    made.head.load_state_dict(theirs.head.state_dict())
    for tail, other in zip(made.tails, theirs.tail, strict=True):
        nn.init.zeros_(tail[1].bias)
        tail[0].weight.data.copy_(other[0].weight)
        tail[1].weight.data.copy_(other[1].weight)
    units, gold = torch.randn(60, 32), torch.arange(60) % 50
    near(made.log_probs(units[None], State())[0][0], theirs.log_prob(units))
    near(made.log_probs_of(units, gold), theirs(units, gold).output)


def test_a_rare_token_costs_no_other_cluster_anything():
    made = adaptive.AdaptiveSoftmax(6, 13, (4, 9))
    made.setup(info(*range(13, 0, -1)), RNG)
    made.log_probs_of(torch.randn(2, 6), torch.tensor([1, 10])).sum().backward()
    assert not made.tails[0][1].weight.grad.any()
    assert made.tails[1][1].weight.grad.any()


@pytest.mark.parametrize("cutoffs", [(), (0, 4), (4, 4), (5, 3), (4, 13), (20,)])
def test_cutoffs_rise_within_the_vocabulary(cutoffs):
    with pytest.raises(SuiteError, match=r"cutoffs .* above 0 and below the number of tokens, 13"):
        adaptive.AdaptiveSoftmax(6, 13, cutoffs)


def test_the_softmax_of_scores_is_what_noise_contrastive_estimation_is_tested_by():
    made = nce.NCE(4, 7, 3)
    made.setup(info(*range(7, 0, -1)), RNG)
    units = torch.randn(3, 4)
    near(made.log_probs(units[None], State())[0][0], log_softmax(units @ made.rows.weight.T + made.bias, 1))
