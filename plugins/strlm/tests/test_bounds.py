"""What is proven: the numbers against exact arithmetic, and decoding with weights that stop as late as they can."""

from __future__ import annotations

import re
from copy import deepcopy
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import ceil, exp, inf, log, log1p, nextafter, prod
from pathlib import Path

import pytest
import torch

from bench_authors.testing import catches, patched
from bench_core import Batch, Rng, TaskInfo
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_rnn.plugin import RNNLMConfig
from bench_strlm import bounds
from bench_strlm.consistency import last_step
from bench_strlm.magnitudes import logits_of
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_strlm.survival import Survival, log1mexp, survive

TABLE = [  # of the notes: epsilon, B, ceil(B), or one more where rounding decides
    (1e-2, 68.968, 69),
    (2.5e-3, 276.912, 277),
    (1e-3, 692.801, 693),
    (1e-4, 6931.125, 6932),
    (1e-5, 69314.4, 69315),
    (0.1, 6.579, 7),
    (0.5, 1, 2),
]
LATE = 30.0  # a logit of stop that makes it as improbable as the model can


def by_trying(epsilon):
    """Return the first n with (1 - epsilon)^n <= 1/2, in fractions."""
    alpha, n = Fraction(1), 0
    while alpha > Fraction(1, 2):
        alpha, n = alpha * (1 - Fraction(epsilon)), n + 1
    return n


def beside(value, places):
    """Return the float so many places above, or below."""
    for _ in range(abs(places)):
        value = nextafter(value, inf if places > 0 else 0)
    return value


@pytest.mark.parametrize(("epsilon", "half", "last"), TABLE)
def test_half_life_and_last_step_are_those_of_the_table(epsilon, half, last):
    assert -log(2) / log1p(-epsilon) == pytest.approx(half, rel=1e-4)
    assert bounds.greedy_steps(epsilon) == last


def test_the_readme_has_the_same_table():
    text = (Path(__file__).parent.parent / "README.md").read_text()
    rows = re.findall(r"^\| ([\de.-]+) \| ([\d.,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    found = {float(epsilon): (half.replace(",", ""), last.replace(",", "")) for epsilon, half, last in rows}
    assert found == {epsilon: (str(half), str(last)) for epsilon, half, last in TABLE}


def in_the_program(epsilon, steps):
    """Return whether stop is the most probable after so many steps that lose as little as they can."""
    stop = torch.full((1, steps), 1e3, dtype=torch.float64)
    past = torch.zeros(1, dtype=torch.float64)
    for step in range(steps):
        past = survive(stop[:, step : step + 1], past, epsilon)[:, 0]
    return bool(log1mexp(past) >= past)


def test_the_last_step_is_the_first_at_which_one_half_must_have_stopped():
    epsilons = [n / 1000 for n in range(10, 1000, 7) if n != 500] + [nextafter(1, 0), 0.25]
    assert [bounds.greedy_steps(epsilon) for epsilon in epsilons] == [by_trying(epsilon) for epsilon in epsilons]


def test_where_rounding_decides_the_last_step_is_that_of_the_program_or_one_more():
    """Where (1 - epsilon)^n crosses 1/2, the float beside an epsilon may have one step more, and so may a sum."""
    near = [beside(1 - 2 ** (-1 / n), places) for n in (1, 2, 3, 10, 17, 41, 60) for places in range(-9, 10)]
    steps = [bounds.greedy_steps(epsilon) for epsilon in near]
    assert all(by_trying(epsilon) <= n <= by_trying(epsilon) + 1 for epsilon, n in zip(near, steps, strict=True))
    assert all(in_the_program(epsilon, n) for epsilon, n in zip(near, steps, strict=True))
    late = [e for e, n in zip(near, steps, strict=True) if n > 1 and not in_the_program(e, by_trying(e))]
    assert late, "the exact number is not that of the program"


@pytest.mark.parametrize("epsilon", [1e-3, 2e-5, 3e-9])
def test_the_last_step_of_small_epsilons_is_that_of_long_division(epsilon):
    with localcontext(prec=80):
        exact = ceil(Decimal(2).ln() / -(1 - Decimal(epsilon)).ln())
    assert exact <= bounds.greedy_steps(epsilon) <= exact * (1 + 1e-15 / epsilon)


@pytest.mark.parametrize("epsilon", [5e-17, 1e-17, 5e-324])
def test_an_epsilon_that_a_float_loses_has_no_last_step(epsilon):
    assert bounds.greedy_steps(epsilon) == bounds.NEVER
    half = torch.tensor([-0.5], dtype=torch.float64)
    assert survive(torch.tensor([[1e3]]), half, epsilon)[0, 0] == half, "another step changes nothing"


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 1e-3, 1e-7])
def test_the_least_probability_of_stop_is_exact(epsilon):
    for step in (1, 2, 11, 500):
        exact = float(1 - (1 - Fraction(epsilon)) ** step)
        assert bounds.min_stop(epsilon, step) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize(("first", "steps"), [(1, 1), (1, 30), (7, 30), (30, 30), (31, 30), (40, 30)])
def test_endless_outputs_are_as_improbable_as_the_product_of_their_steps(epsilon, first, steps):
    endless = prod((1 - epsilon) ** n + 2**-52 for n in range(first, steps + 1))
    assert bounds.log_no_stop(epsilon, steps, first) == pytest.approx(log(endless), rel=1e-12)


def test_a_word_that_is_more_improbable_than_a_draw_can_tell_counts_as_one_in_2_to_the_52():
    assert bounds.log_no_stop(0.5, 200, first=101) == pytest.approx(-100 * 52 * log(2), rel=1e-6)


def test_what_rounding_adds_makes_an_end_less_sure():
    assert bounds.log_no_stop(1e-3, 5, rounding=1e-2) == 0.0, "each word could be certain"
    assert bounds.log_no_stop(0.1, 5) < bounds.log_no_stop(0.1, 5, rounding=1e-2) < 0


@pytest.mark.parametrize(("stop", "endless"), [(0.5, 2.0**-10), (2.0**-51, 1.0), (2.0**-53, 1.0), (0.0, 1.0)])
def test_a_stop_that_no_draw_can_hit_proves_nothing(stop, endless):
    found = bounds.log_no_stop_from(log(stop) if stop else -inf, 10)
    assert exp(found) == pytest.approx(endless, rel=1e-10)
    assert (found < 0) == (stop > 2**-52)


def test_endless_outputs_occur_no_more_often_than_the_bound_says():
    epsilon, steps = 0.1, 5
    model, going = late(epsilon, words=3).double(), 1.0
    with torch.no_grad():
        log_probs, state = model.start(contexts(1))
        for _ in range(steps):
            going *= 1 - float(log_probs[0, 0].exp())
            log_probs, state = model.step(state, torch.tensor([1]))
    bound = exp(bounds.log_no_stop(epsilon, steps))
    assert bound * (1 - 1e-9) < going < bound


@pytest.mark.parametrize(
    ("log_number", "down", "up"),
    [
        (0.0, "1", "1"),
        (log(0.505), "0.5", "0.51"),
        (log(0.123), "0.12", "0.13"),
        (log(0.999), "0.99", "1"),
        (log(0.00123), "1.2e-03", "1.3e-03"),
        (log(9.99e-5), "9.9e-05", "1.0e-04"),
        (-1126.2, "7.8e-490", "7.9e-490"),
        (-inf, "0", "0"),
    ],
)
def test_powers_of_ten_are_rounded_to_the_safe_side(log_number, down, up):
    assert bounds.format_exp(log_number, up=False) == down
    assert bounds.format_exp(log_number, up=True) == up


def test_no_power_of_ten_is_on_the_wrong_side():
    with localcontext(prec=30):
        for n in range(2000):
            log_number = -0.37 * n
            number = Decimal(log_number).exp()
            down, up = (Decimal(bounds.format_exp(log_number, up=side)) for side in (False, True))
            assert down <= number * (1 + Decimal("1e-12"))
            assert number * (1 - Decimal("1e-12")) <= up
            assert up - down <= number / 9


# decoding, as late as can be


def contexts(rows):
    ids = torch.arange(rows)
    return Batch(ids, ids[:, None] * 0, ids[:, None] * 0, torch.ones_like(ids))


def late(epsilon, words, config=SelfTerminatingRNNLMConfig, favourite=0.0, stop=LATE, hidden=2):
    """Return a model in which stop has the logit `stop`, the first word `favourite` and others 0, whatever it reads."""
    own = {"epsilon": epsilon} if config is SelfTerminatingRNNLMConfig else {}
    settings = config(cell="tanh", hidden=hidden, layers=1, **own)
    model = settings.load()(settings, TaskInfo(["</s>", *(f"w{n}" for n in range(words))]))
    with torch.no_grad():
        logits_of(model).weight.zero_()
        logits_of(model).bias.zero_()
        logits_of(model).bias[:2] = torch.tensor([stop, favourite])
    return model.eval()


def branching(epsilon, words, dtype, config=SelfTerminatingRNNLMConfig, stop=LATE):
    """Return a model that begins with any word and goes on with the same one: of as many chains none is ahead."""
    model = late(epsilon, words, config, stop=stop, hidden=1 + words).to(dtype)
    same = torch.eye(1 + words, dtype=dtype)
    with torch.no_grad():
        for weights in (*model.rnn.parameters(), model.embed.weight):
            weights.zero_()
        model.embed.weight.copy_(20 * same)
        model.rnn.layers.weight_ih_l0.copy_(same)  # units are the last token, one-hot
        logits_of(model).weight[1:, 1:] = 60 * same[1:, 1:]
    return model


def decoded(config, model):
    """Return the best hypothesis, and after how many steps it was found."""
    steps = [0]

    def start(intact, batch):
        steps[0] += 1
        return intact.start(batch)

    def step(intact, state, actions):
        steps[0] += 1
        return intact.step(state, actions)

    with torch.no_grad():
        ((found, *_),) = config.load()(config).decode(patched(model, start=start, step=step), contexts(1), Rng(0))
    return found, steps[0]


# mistakes: each is given a model, and changes it


def with_past(model, change):
    """Let `change` of log alpha pass from one step to the next."""
    other, output = deepcopy(model), model.head

    def log_probs(hidden, past):
        found, after = output.log_probs(hidden, past)
        return found, Survival(change(after.log_alpha))

    other.head.log_probs = log_probs
    return other


def starts_again_at_every_step(model):
    return with_past(model, torch.zeros_like)


def adds_up_in_float32(model):
    """log alpha is rounded to float32 at every step: with the third epsilon greedy choice goes on to 242."""
    return with_past(model, lambda log_alpha: log_alpha.float().double())


def forgets_epsilon(model):
    """The sigmoid itself, which may come as near to 1 as it likes."""
    other = deepcopy(model)
    other.head.epsilon = 1e-12
    return other


def epsilon_acts_at_half_its_strength(model):
    other = deepcopy(model)
    other.head.epsilon = model.head.epsilon / 2
    return other


def intact(part):
    return part


# laws


@catches(starts_again_at_every_step, forgets_epsilon, epsilon_acts_at_half_its_strength, adds_up_in_float32)
def greedy_choice_stops_at_the_very_last_step(change):
    for epsilon, last in ((0.1, 7), (0.01, 69), (0.002872, 241), (0.001, 693)):
        for dtype in (torch.float64, torch.float32):
            model = change(late(epsilon, words=3, favourite=60.0).to(dtype))
            found, steps = decoded(GreedyConfig(max_tokens=1500), model)
            assert found.finished
            assert (found.tokens, steps) == ([1] * (last - 1), last)


@catches(starts_again_at_every_step, forgets_epsilon, epsilon_acts_at_half_its_strength)
def beams_end_by_the_last_step_and_none_could_be_promised_sooner(change):
    """All chains of the beam are equally good and have one word to go on with, so that all of them last."""
    for (epsilon, last), width, finish, dtype in product(
        ((0.1, 7), (0.01, 69)), (2, 4), ("first", "k"), (torch.float64, torch.float32)
    ):
        config = BeamConfig(width=width, finish=finish, max_tokens=last + width)
        found, steps = decoded(config, change(branching(epsilon, width, dtype)))
        assert found.finished
        assert steps == len(found.tokens) + 1 == last
        assert steps <= last_step(epsilon, config)


def is_self_terminating(kind):
    """The same logits, but under the distribution that must stop."""
    return SelfTerminatingRNNLMConfig


@catches(is_self_terminating)
def the_same_logits_under_a_softmax_never_stop(change):
    kind = change(RNNLMConfig)
    peaked, far_below = late(0.01, 3, kind, favourite=60.0), branching(0.01, 2, torch.float64, kind, stop=-30.0)
    for config, model in (
        (GreedyConfig(max_tokens=700), peaked),
        (BeamConfig(width=2, finish="first", max_tokens=100), far_below),
        (BeamConfig(width=2, finish="k", max_tokens=100), far_below),
    ):
        found, steps = decoded(config, model)
        assert not found.finished
        assert len(found.tokens) == steps == config.max_tokens


LAWS = (
    greedy_choice_stops_at_the_very_last_step,
    beams_end_by_the_last_step_and_none_could_be_promised_sooner,
    the_same_logits_under_a_softmax_never_stop,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_decoding_keeps_its_laws(law):
    law(intact)


@pytest.mark.quick(3, 3)
@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant)


@pytest.mark.parametrize(("width", "words"), [(2, 2), (3, 3), (4, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_beams_over_equally_likely_words_end_when_stop_is_as_likely_as_one(width, words, epsilon):
    """(1 - epsilon)^n <= k / (k + 1), before the bound; with `k` all of them stop in that step."""
    first = ceil(log(words / (words + 1)) / log(1 - epsilon))
    assert 1 < first <= bounds.greedy_steps(epsilon)
    for finish in ("first", "k"):
        found, steps = decoded(BeamConfig(width=width, finish=finish, max_tokens=1500), late(epsilon, words).double())
        assert found.finished
        assert steps == first


def test_a_beam_that_needs_two_finished_chains_takes_the_one_step_more_that_is_allowed():
    """Two chains so near that stop is no better than the second before the last step, nor that than the first after."""
    model = branching(0.01, 2, torch.float64)
    with torch.no_grad():
        logits_of(model).weight[1, 0] = log(1.01)  # after the opening stop
    steps = {
        finish: decoded(BeamConfig(width=2, finish=finish, outputs=2, max_tokens=99), model)[1]
        for finish in ("first", "k")
    }
    proven = {finish: last_step(0.01, BeamConfig(width=2, finish=finish)) for finish in steps}
    assert steps == {"first": 69, "k": 70} == proven


def test_a_limit_one_step_short_of_the_bound_leaves_the_output_without_an_end():
    for most, finished in ((68, False), (69, True)):
        found, _ = decoded(GreedyConfig(max_tokens=most), late(0.01, words=3, favourite=60.0))
        assert found.finished is finished
