"""What is read instead of gold tokens: each method against its definition, and against plausible mistakes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from bench_core import Rng, SuiteError, TaskInfo, Training
from bench_ecoc import inputs
from bench_ecoc.inputs import (
    MAX_LOGIT,
    Argmax,
    BitFlips,
    Mix,
    MixedClass,
    MixedCode,
    RelaxedClass,
    RelaxedCode,
    ReplacedPositions,
    SampledToken,
    SoftArgmax,
    concrete,
    falling,
    gumbel,
    method,
    soft_argmax,
)
from bench_ecoc.settings import CLVMS, DLVMS, Flips, Gold, Scheduled, Soft
from bench_output_layers.codes import Ecoc
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.layer import FullSoftmax
from bench_output_layers.plugin import GrayWalkConfig

TOKENS, HIDDEN, BITS, ROWS = 23, 6, 9, 40
INFO = TaskInfo(vocabulary=["</s>", *(f"w{i}" for i in range(1, TOKENS))], counts=list(range(TOKENS, 0, -1)))
RNG = Rng(3)


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def layer(kind):
    made = {
        "full": lambda: FullSoftmax(HIDDEN, TOKENS),
        "ecoc": lambda: Ecoc(HIDDEN, TOKENS, BITS, GrayWalkConfig(order="random")),
        "hierarchical": lambda: HierarchicalSoftmax(HIDDEN, TOKENS, "random", 5),
    }[kind]()
    made.setup(INFO, Rng(1))
    with torch.no_grad():
        for weights in made.parameters():
            weights.mul_(3)
    return made


def made(settings, kind):
    return method(settings, layer(kind), nn.Embedding(TOKENS, 4))


def places(method, coins=None):
    """Return 40 positions; `coins` is one truth for all latents, or that of each."""
    truth = torch.tensor([coins]).expand(ROWS, method.latents)
    return ReplacedPositions(
        torch.randn(ROWS, HIDDEN), torch.randint(0, TOKENS, (ROWS,)), truth, torch.arange(ROWS), 3
    )


def mix(share=0.5, temperature=0.7):
    return Mix(share, temperature, RNG)


METHODS = [
    (Scheduled(kind="scheduled"), "full"),
    (Scheduled(kind="scheduled"), "ecoc"),
    (Scheduled(kind="scheduled"), "hierarchical"),
    (SAMPLED := Scheduled(kind="scheduled", choice="sample"), "full"),
    (SAMPLED, "ecoc"),
    (SAMPLED, "hierarchical"),
    (Soft(kind="soft"), "full"),
    (Soft(kind="soft"), "ecoc"),
    (Soft(kind="soft"), "hierarchical"),
    (CLVMS(kind="clvms"), "ecoc"),
    (CLVMS(kind="clvms"), "hierarchical"),
    (DLVMS(kind="dlvms"), "ecoc"),
    (DLVMS(kind="dlvms"), "hierarchical"),
    (Flips(kind="flips"), "ecoc"),
]
every = pytest.mark.parametrize(("settings", "kind"), METHODS, ids=lambda one: getattr(one, "kind", one))
LATENT = [one for one in METHODS if one[0].kind in ("clvms", "dlvms")]


# coins


def check_that_coins_fall_as_often_as_told(method):
    ids = torch.arange(2000)
    for share in (0.0, 0.1, 1.0):
        coins = method.coins(ids, 5, mix(share)).double().mean(0)
        assert coins.sub(share).abs().max() <= 0.04 * (share not in (0, 1))


def check_that_every_latent_has_its_own_coin(method):
    coins = method.coins(torch.arange(2000), 5, mix(0.5)).double()
    assert torch.corrcoef(coins.T).sub(torch.eye(method.latents)).abs().max() < 0.1


class OnTheGoldSide(MixedCode):
    """Mutant: p_mix is the probability of gold."""

    def coins(self, ids, step, mix):
        return ~super().coins(ids, step, mix)


class OneForAll(MixedCode):
    """Mutant: all bits share a coin."""

    def coins(self, ids, step, mix):
        return super().coins(ids, step, mix)[:, :1].expand(-1, self.latents)


@every
def test_coins_fall_as_often_as_told(settings, kind):
    check_that_coins_fall_as_often_as_told(made(settings, kind))


@pytest.mark.parametrize(("settings", "kind"), LATENT, ids=lambda one: getattr(one, "kind", one))
def test_every_latent_has_its_own_coin(settings, kind):
    found = made(settings, kind)
    assert found.latents == (BITS if kind == "ecoc" else 2)
    check_that_every_latent_has_its_own_coin(found)


def test_a_probability_on_the_gold_side_is_caught():
    with pytest.raises(AssertionError):
        check_that_coins_fall_as_often_as_told(
            OnTheGoldSide(CLVMS(kind="clvms"), layer("ecoc"), nn.Embedding(TOKENS, 4))
        )


def test_one_coin_for_all_bits_is_caught():
    mutant = OneForAll(CLVMS(kind="clvms"), layer("ecoc"), nn.Embedding(TOKENS, 4))
    check_that_coins_fall_as_often_as_told(mutant)
    with pytest.raises(AssertionError):
        check_that_every_latent_has_its_own_coin(mutant)


@pytest.mark.parametrize("settings", [CLVMS, DLVMS])
def test_every_bit_can_have_a_probability_of_its_own(settings):
    factors = tuple(i / (BITS - 1) for i in range(BITS))
    found = made(settings(kind=settings.__name__.lower(), factors=factors), "ecoc")
    shares = found.coins(torch.arange(2000), 5, mix(0.8)).double().mean(0)
    torch.testing.assert_close(shares, 0.8 * torch.tensor(factors), rtol=0, atol=0.05)


def check_that_probabilities_fall_from_the_first_bit_to_the_last(method):
    shares = method.coins(torch.arange(4000), 5, mix(0.8)).double().mean(0)
    expected = 0.8 * torch.arange(BITS, 0, -1) / BITS
    assert (shares - expected).abs().max() < 5 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("settings", [CLVMS, DLVMS])
def test_falling_probabilities_fall_linearly_from_the_first_bit_to_the_last(settings):
    assert falling(4) == (1, 0.75, 0.5, 0.25)
    name = settings.__name__.lower()
    check_that_probabilities_fall_from_the_first_bit_to_the_last(made(settings(kind=name, factors="falling"), "ecoc"))


def test_factors_in_reverse_order_are_caught(monkeypatch):
    monkeypatch.setattr(inputs, "falling", lambda bits: falling(bits)[::-1])
    with pytest.raises(AssertionError):
        check_that_probabilities_fall_from_the_first_bit_to_the_last(
            made(CLVMS(kind="clvms", factors="falling"), "ecoc")
        )


def test_coins_and_noise_depend_on_the_example_and_the_step_alone():
    found, ids = made(CLVMS(kind="clvms"), "ecoc"), torch.arange(50)
    coins = found.coins(ids, 5, mix())
    assert torch.equal(found.coins(ids.flip(0), 5, mix()).flip(0), coins)
    assert torch.equal(torch.cat([found.coins(ids[i : i + 1], 5, mix()) for i in range(50)]), coins)
    assert not torch.equal(found.coins(ids, 6, mix()), coins)


@every
def test_a_position_is_replaced_alike_alone_and_among_others(settings, kind):
    found = made(settings, kind)
    here = places(found, True)
    together = found.read(here, mix()).embeddings
    for row in (0, 17):
        own = torch.tensor([row])
        alone = ReplacedPositions(here.hidden[own], here.gold[own], here.coins[own], here.ids[own], here.step)
        torch.testing.assert_close(found.read(alone, mix()).embeddings, together[own])


# what is read


@pytest.mark.parametrize(("settings", "kind"), LATENT, ids=lambda one: getattr(one, "kind", one))
def test_gold_latents_read_as_the_gold_token(settings, kind):
    found = made(settings, kind)
    here = places(found, False)
    torch.testing.assert_close(found.read(here, mix()).embeddings, found.embed(here.gold), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["full", "ecoc", "hierarchical"])
def test_scheduled_sampling_reads_the_most_probable_token(kind):
    found = made(Scheduled(kind="scheduled"), kind)
    here = places(found, True)
    log_probs, _ = found.output.log_probs(here.hidden[:, None], found.output.start(here.hidden[:, :0, None]))
    assert torch.equal(found.read(here, mix()).embeddings, found.embed(log_probs[:, 0].argmax(1)))


def check_that_tokens_are_sampled(method):
    """With 5 standard errors, in each of three distributions."""
    draws = 20_000
    for hidden in torch.randn(3, HIDDEN) / 2:
        here = ReplacedPositions(
            hidden.expand(draws, -1), torch.zeros(draws).long(), torch.ones(draws, 1).bool(), torch.arange(draws), 3
        )
        expected = method.output.distribution(hidden[None])[0].exp()
        shares = method.tokens(here, mix()).bincount(minlength=TOKENS) / draws
        errors = (expected * (1 - expected) / draws).sqrt()
        assert ((shares - expected).abs() <= 5 * errors + 1e-12).all()
        used = expected * draws >= 5
        statistic = (draws * (shares - expected).square() / expected)[used].sum()
        degrees = used.sum() - 1
        assert statistic < degrees + 5 * (2 * degrees) ** 0.5


class Greedy(SampledToken):
    """Mutant: the argmax instead of a sample."""

    tokens = Argmax.tokens


class SameForAll(SampledToken):
    """Mutant: all examples share a random number."""

    def tokens(self, places, mix):
        return super().tokens(replace(places, ids=torch.zeros_like(places.ids)), mix)


class BitByBit(SampledToken):
    """Mutant: independently sampled bits, and the nearest token."""

    def tokens(self, places, mix):
        bits = self.output.bits(places.hidden)
        uniform = mix.rng.fork("sample").uniform(places.ids, places.step, self.output.length)
        return self.output.nearest((uniform < bits.sigmoid()).to(bits.dtype))


@pytest.mark.parametrize("kind", ["full", "ecoc", "hierarchical"])
def test_sampled_tokens_follow_the_distribution_that_decoders_use(kind):
    found = made(SAMPLED, kind)
    assert type(found) is SampledToken
    check_that_tokens_are_sampled(found)


@pytest.mark.parametrize("mutant", [Greedy, SameForAll, BitByBit])
def test_tokens_that_are_not_sampled_from_the_distribution_are_caught(mutant):
    with pytest.raises(AssertionError):
        check_that_tokens_are_sampled(mutant(SAMPLED, layer("ecoc"), nn.Embedding(TOKENS, 4)))


def test_samples_differ_between_steps():
    found = made(SAMPLED, "full")
    here = places(found, True)
    assert not torch.equal(found.tokens(here, mix()), found.tokens(replace(here, step=4), mix()))


def check_that_the_share_of_other_tokens_is_right(method):
    """Against the embedding, if that of token v is the v-th unit vector."""
    method.embed = nn.Embedding.from_pretrained(torch.eye(TOKENS))
    for coins in ([True], [False, True], [True, False]) if method.latents == 2 else ([True],):
        here = places(method, coins if method.latents == 2 else True)
        read = method.read(here, mix())
        gold = read.embeddings.gather(1, here.gold[:, None])[:, 0]
        torch.testing.assert_close(read.changed, 1 - gold, rtol=0, atol=1e-9)


@every
def test_the_share_of_other_tokens_is_what_an_embedding_lacks_of_the_gold_token(settings, kind):
    check_that_the_share_of_other_tokens_is_right(made(settings, kind))


def test_a_share_of_the_gold_class_instead_of_the_gold_token_is_caught():
    class GoldClass(RelaxedClass):
        def read(self, places, mix):
            gold = self.output.class_of[places.gold]
            weights, classes = self._classes(places, mix, gold)
            return replace(super().read(places, mix), changed=1 - (weights * (classes == gold[:, None])).sum(1))

    with pytest.raises(AssertionError):
        check_that_the_share_of_other_tokens_is_right(
            GoldClass(DLVMS(kind="dlvms"), layer("hierarchical"), nn.Embedding(TOKENS, 4))
        )


@every
def test_steps_may_differ_between_positions(settings, kind):
    found = made(settings, kind)
    here, steps = places(found, True), torch.arange(ROWS) % 3
    together = found.read(replace(here, step=steps), mix()).embeddings
    for step in range(3):
        own = found.read(replace(here, step=step), mix()).embeddings
        torch.testing.assert_close(together[steps == step], own[steps == step])
    torch.testing.assert_close(
        found.coins(here.ids, steps, mix())[steps == 1], found.coins(here.ids, 1, mix())[steps == 1]
    )


def test_a_soft_argmax_has_the_values_of_the_specification():
    scores = torch.tensor([2.0, 1.0, 0.0])
    torch.testing.assert_close(soft_argmax(scores, 1), torch.tensor([0.66524, 0.24473, 0.09003]), rtol=0, atol=5e-6)
    torch.testing.assert_close(soft_argmax(scores, 0.1), torch.tensor([0.999955, 0.000045, 0]), rtol=0, atol=5e-7)


@pytest.mark.parametrize("kind", ["full", "ecoc", "hierarchical"])
def test_soft_scheduled_sampling_mixes_embeddings_by_probability(kind):
    found = made(Soft(kind="soft"), kind)
    here = places(found, True)
    log_probs, _ = found.output.log_probs(here.hidden[:, None], found.output.start(here.hidden[:, :0, None]))
    torch.testing.assert_close(
        found.read(here, mix(temperature=1)).embeddings, log_probs[:, 0].exp() @ found.embed.weight
    )
    hard = Argmax(Scheduled(kind="scheduled"), found.output, found.embed).read(here, mix()).embeddings
    torch.testing.assert_close(found.read(here, mix(temperature=1e-9)).embeddings, hard)


def nearest(code, output):
    """Return the token whose codeword differs from a code in the fewest bits; ties to the lower rank."""
    distance = (output.codebook.double() - code).abs().sum(1)
    return min(range(TOKENS), key=lambda token: (distance[token].item(), output.table.ranks[token].item()))


def test_mixed_codes_read_as_their_nearest_token():
    found = made(CLVMS(kind="clvms"), "ecoc")
    here = places(found, True)
    here = ReplacedPositions(here.hidden, here.gold, found.coins(here.ids, 3, mix()), here.ids, 3)
    bits = found.output.bits(here.hidden)
    for row, token in enumerate(found.tokens(here, mix()).tolist()):
        gold = found.output.codebook[here.gold[row]].double()
        code = torch.where(here.coins[row], (bits[row] > 0).double(), gold)
        assert token == nearest(code, found.output)


def test_codes_that_are_all_predicted_read_as_the_nearest_token_of_the_predicted_bits():
    found = made(CLVMS(kind="clvms"), "ecoc")
    here = places(found, True)
    bits = found.output.bits(here.hidden) > 0
    assert found.tokens(here, mix()).tolist() == [nearest(code.double(), found.output) for code in bits]
    assert (found.tokens(here, mix()) != here.gold).any()


def test_a_bit_at_its_threshold_is_predicted_as_0():
    found = made(CLVMS(kind="clvms"), "ecoc")
    nn.init.zeros_(found.output.linear.weight)
    nn.init.zeros_(found.output.linear.bias)
    token = nearest(torch.zeros(BITS), found.output)
    assert found.tokens(places(found, True), mix()).tolist() == [token] * ROWS


def test_what_is_chosen_hard_has_no_gradient_through_the_choice():
    for settings, kind in METHODS:
        found = made(settings, kind)
        here = places(found, True)
        here.hidden.requires_grad_()
        found.read(here, mix()).embeddings.square().sum().backward()
        assert (here.hidden.grad is None) == (settings.kind in ("scheduled", "clvms")), (settings, kind)
        assert found.embed.weight.grad.any()


def check_that_relaxed_bits_are_renormalised_over_tokens(method):
    """Against the product of the bits' probabilities, one by one."""
    here = places(method, True)
    here = ReplacedPositions(here.hidden, here.gold, method.coins(here.ids, 3, mix()), here.ids, 3)
    tokens, weights = method.weights(here, mix())
    uniform = RNG.fork("concrete").uniform(here.ids, 3, BITS)
    logits = (method.output.bits(here.hidden) + uniform.log() - (1 - uniform).log()) / 0.7
    codes = method.output.codebook.double()
    for row in range(ROWS):
        gold = codes[here.gold[row]]
        relaxed = torch.where(
            here.coins[row], logits[row].clamp(-30, 30), torch.where(gold > 0, 30.0, -30.0)
        ).sigmoid()
        products = torch.where(codes > 0, relaxed, 1 - relaxed).prod(1)
        best = products.topk(8).values
        torch.testing.assert_close(weights[row].sum().item(), 1.0)
        torch.testing.assert_close(weights[row], products[tokens[row]] / best.sum(), rtol=1e-6, atol=1e-9)


class SoftplusLeftIn(RelaxedCode):
    """Mutant: the weight of a token is the product of its bits, and what invalid codes have of it is lost."""

    def weights(self, places, mix):
        tokens, _ = super().weights(places, mix)
        uniform = mix.rng.fork("concrete").uniform(places.ids, places.step, self.latents)
        logits = concrete(self.output.bits(places.hidden), uniform, mix.temperature)
        signs = 2 * self.output.codebook[tokens].double() - 1
        return tokens, nn.functional.logsigmoid(signs * logits[:, None]).sum(2).exp()


class SoftplusOfOnes(RelaxedCode):
    """Mutant: of each token, the softplus of those bits is left in that are 1."""

    def weights(self, places, mix):
        tokens, _ = super().weights(places, mix)
        uniform = mix.rng.fork("concrete").uniform(places.ids, places.step, self.latents)
        gold = MAX_LOGIT * (2 * self.output.codes(places.gold) - 1)
        logits = torch.where(places.coins, concrete(self.output.bits(places.hidden), uniform, mix.temperature), gold)
        codes = self.output.codebook[tokens].double()
        return tokens, (codes * (logits - nn.functional.softplus(logits))[:, None]).sum(2).softmax(1)


RELAXED = DLVMS(kind="dlvms", best=8)


def test_relaxed_bits_are_renormalised_over_the_best_tokens():
    check_that_relaxed_bits_are_renormalised_over_tokens(made(RELAXED, "ecoc"))


@pytest.mark.parametrize("mutant", [SoftplusLeftIn, SoftplusOfOnes])
def test_a_softplus_left_in_what_is_read_is_caught(mutant):
    with pytest.raises(AssertionError):
        check_that_relaxed_bits_are_renormalised_over_tokens(mutant(RELAXED, layer("ecoc"), nn.Embedding(TOKENS, 4)))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 4.0])
def test_a_binary_concrete_bit_is_1_as_often_at_every_temperature(temperature):
    uniform = RNG.uniform(torch.arange(40_000))
    share = (concrete(torch.tensor(1.0), uniform, temperature).sigmoid() > 0.5).double().mean().item()
    assert share == pytest.approx(0.731059, abs=0.01)


def test_gumbel_noise_has_the_value_of_the_specification():
    assert gumbel(torch.tensor(0.5)).item() == pytest.approx(0.366513, abs=5e-7)


def test_the_highest_of_gumbel_noise_and_log_probabilities_is_a_draw():
    probabilities = torch.tensor([0.6, 0.3, 0.1])
    draws = (probabilities.log() + gumbel(RNG.uniform(torch.arange(40_000), 0, 3))).argmax(1)
    torch.testing.assert_close(draws.bincount() / 40_000, probabilities, rtol=0, atol=0.01)


def test_flips_read_what_the_least_certain_bits_leave_open():
    found = made(Flips(kind="flips", k=3), "ecoc")
    here = places(found, True)
    bits, output = found.output.bits(here.hidden), found.output
    for row, read in enumerate(found.read(here, mix()).embeddings):
        scores, tokens = [], []
        for bit in bits[row].abs().argsort()[:3]:
            code = output.codebook[here.gold[row]].double()
            code[bit] = 1 - code[bit]
            tokens.append(nearest(code, output))
            scores.append((code * bits[row]).sum() - nn.functional.softplus(bits[row]).sum())
        expected = torch.stack(scores).softmax(0) @ found.embed.weight[tokens]
        torch.testing.assert_close(read, expected)


# a hierarchical softmax


def test_class_and_index_come_from_the_model_or_from_gold():
    found = made(CLVMS(kind="clvms"), "hierarchical")
    output = found.output
    for first, second in [(True, True), (True, False), (False, True), (False, False)]:
        here = places(found, [first, second])
        for row, token in enumerate(found.tokens(here, mix()).tolist()):
            gold, units = here.gold[row], here.hidden[row]
            best = int(output.class_logits(units).argmax())
            inside = best if first else int(output.class_of[gold])
            leaf = int(output.leaf_logits(units[None], torch.tensor([inside]))[0].argmax())
            index = leaf if second else int(output.index_of[gold])
            assert token == output.member[inside, index % output.sizes[inside]]


def test_an_index_that_a_class_lacks_is_taken_modulo_its_size():
    found = made(CLVMS(kind="clvms"), "hierarchical")
    output = found.output
    short = int((output.sizes < output.sizes.max()).nonzero()[0, 0])
    assert output.sizes[short] == 3
    found.output.class_logits = lambda hidden: torch.eye(len(output.sizes))[[short] * len(hidden)]
    here = places(found, [True, False])
    tokens = found.tokens(here, mix())
    assert (output.class_of[tokens] == short).all()
    assert torch.equal(output.index_of[tokens], output.index_of[here.gold] % 3)


@pytest.mark.parametrize("best", [2, 10])
def test_relaxed_classes_stand_for_their_best_tokens_and_the_gold_one_for_a_mix(best):
    found = made(DLVMS(kind="dlvms", best=best), "hierarchical")
    output, weight = found.output, found.embed.weight
    here = places(found, True)
    number = len(output.sizes)
    for row, read in enumerate(found.read(here, mix()).embeddings):
        units, ids = here.hidden[row : row + 1], here.ids[row : row + 1]
        rng = gumbel(RNG.fork("class").uniform(ids, 3, number)[0])
        shares = ((output.class_logits(units)[0] + rng) / 0.7).softmax(0)
        kept = shares.argsort(descending=True)[:best]
        expected = 0
        for one in kept.tolist():
            leaves = output.leaf_logits(units, torch.tensor([one]))[0, : output.sizes[one]]
            tokens = output.member[one, : output.sizes[one]]
            if one == output.class_of[here.gold[row]]:
                rng = gumbel(RNG.fork("index").uniform(ids, 3, output.member.shape[1])[0, : len(leaves)])
                inside = ((leaves + rng) / 0.7).softmax(0) @ weight[tokens]
            else:
                inside = weight[tokens[leaves.argmax()]]
            expected = expected + shares[one] / shares[kept].sum() * inside
        torch.testing.assert_close(read, expected)


# settings


def test_gold_needs_no_method():
    assert made(Gold(), "full") is None


@pytest.mark.parametrize(
    ("settings", "kind", "expected"),
    [
        (CLVMS(kind="clvms"), "ecoc", MixedCode),
        (CLVMS(kind="clvms"), "hierarchical", MixedClass),
        (DLVMS(kind="dlvms"), "hierarchical", RelaxedClass),
        (Soft(kind="soft"), "hierarchical", SoftArgmax),
        (Flips(kind="flips"), "ecoc", BitFlips),
    ],
)
def test_settings_choose_the_method_of_the_output_layer(settings, kind, expected):
    assert type(made(settings, kind)) is expected


def test_factors_are_as_many_as_bits():
    with pytest.raises(SuiteError, match=r"has 2 `factors`, but the code has 9 bits. Provide one per bit"):
        made(CLVMS(kind="clvms", factors=(1, 0.5)), "ecoc")


def test_no_more_bits_are_flipped_than_there_are():
    with pytest.raises(SuiteError, match=r"flips 10 bits, but the code has only 9"):
        made(Flips(kind="flips", k=10), "ecoc")


def test_the_temperature_rises_or_falls_and_the_probability_rises():
    def told(epoch, **settings):
        return made(DLVMS(kind="dlvms", **settings), "ecoc").mix(Training(epoch * 9, 36, epoch, 4, RNG))

    assert [told(epoch).temperature for epoch in (0, 3)] == pytest.approx([0.01, 2.49])
    assert [told(epoch, reversed=True).temperature for epoch in (0, 3)] == pytest.approx([2.49, 0.01])
    assert [told(epoch).share for epoch in (0, 3)] == pytest.approx([0.002, 0.498])
    assert [told(epoch, constant=True, tau_max=0.3).share for epoch in (0, 3)] == [0.3, 0.3]
    assert math.isclose(told(3, reversed=True).share, 0.498)
