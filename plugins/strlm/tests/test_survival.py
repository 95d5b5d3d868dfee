"""The self-terminating distribution in log space (Welleck et al., 2020, Definition 4.3), with the mistakes it invites."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import exp, inf, log

import pytest
import torch
from torch.nn.functional import logsigmoid

from bench_authors.testing import catches
from bench_core import STOP
from bench_strlm.survival import log1mexp, self_terminating, survive

STEPS = 2000
DTYPES = (torch.float64, torch.float32)


def random_logits(dtype=torch.float64, rows=3, steps=STEPS, tokens=5, scale=3.0):
    """Return logits [rows, steps, tokens], those of stop in all ranges: mild, never and at once."""
    draw = torch.Generator().manual_seed(1)
    logits = scale * torch.randn(rows, steps, tokens, generator=draw, dtype=torch.float64)
    logits[1:, :, STOP] = torch.tensor([30.0, -30.0])[: rows - 1, None]
    return logits.to(dtype)


def none_past(logits):
    return logits.new_zeros(len(logits), dtype=torch.float64)


def near(found, wanted, tolerance):
    assert torch.as_tensor(found).isfinite().all()
    torch.testing.assert_close(found, torch.as_tensor(wanted, dtype=found.dtype), rtol=0, atol=tolerance)


# mistakes: each is given the intact distribution, and returns one that takes its place


def multiplies_probabilities(distribution):
    """Products of probabilities, which underflow."""

    def wrong(logits, past, epsilon):
        alpha = past.exp()[:, None].to(logits) * ((1 - epsilon) * logits[..., STOP].sigmoid()).cumprod(1)
        words = logits.index_fill(2, torch.tensor([STOP]), -inf).softmax(2) * alpha[..., None]
        return torch.cat([1 - alpha[..., None], words[..., 1:]], 2).log(), alpha[:, -1].log()

    return wrong


def leaves_stop_among_the_words(distribution):
    """The softmax over words has the logit of stop in it, and so loses what stop would get."""

    def wrong(logits, past, epsilon):
        log_probs, log_alpha = distribution(logits.clone(), past, epsilon)
        words = logits.log_softmax(2) + survive(logits[..., STOP], past, epsilon)[..., None].to(logits)
        return torch.cat([log_probs[..., :1], words[..., 1:]], 2), log_alpha

    return wrong


def starts_again_at_every_step(distribution):
    """Each step is the first."""

    def wrong(logits, past, epsilon):
        steps = [
            distribution(logits[:, n : n + 1].clone(), torch.zeros_like(past), epsilon)
            for n in range(logits.shape[1])
        ]
        return torch.cat([log_probs for log_probs, _ in steps], 1), steps[-1][1]

    return wrong


def forgets_what_came_before(distribution):
    """The product begins anew wherever reading is interrupted, as at every step of decoding."""
    return lambda logits, past, epsilon: distribution(logits, torch.zeros_like(past), epsilon)


def forgets_epsilon(distribution):
    """sigmoid itself, which may come as near to 1 as it likes."""
    return lambda logits, past, epsilon: distribution(logits, past, 1e-12)


def adds_up_in_float32(distribution):
    """log alpha is rounded to float32 at every step: a small epsilon is rounded with it."""

    def wrong(logits, past, epsilon):
        log_probs, log_alpha = distribution(logits, past, epsilon)
        return log_probs, log_alpha.float().double()

    return wrong


# laws


@catches(leaves_stop_among_the_words, multiplies_probabilities)
def probabilities_sum_to_one(distribution):
    for dtype in DTYPES:
        for epsilon in (0.5, 1e-2, 1e-4):
            logits = random_logits(dtype)
            log_probs, log_alpha = distribution(logits.clone(), none_past(logits), epsilon)
            assert log_probs.dtype == dtype
            assert log_probs.isfinite().all()
            near(log_probs.logsumexp(2), torch.zeros(3, STEPS), 1e-6)
            assert log_alpha.isfinite().all()


@catches(multiplies_probabilities)
def gradients_are_finite_however_long_the_sequence(distribution):
    for dtype in DTYPES:
        with torch.enable_grad():
            logits = random_logits(dtype).requires_grad_()
            log_probs, _ = distribution(logits, none_past(logits), 1e-3)
            for chosen in (log_probs[..., STOP], log_probs[..., 1], log_probs):
                (gradient,) = torch.autograd.grad(chosen.sum(), logits, retain_graph=True)
                assert gradient.isfinite().all()
                assert gradient.any()


@catches(starts_again_at_every_step, forgets_epsilon, leaves_stop_among_the_words)
def hand_values_come_out(distribution):
    """epsilon 0.1, a = 0, 2, -1; the two words are equally likely."""
    logits = torch.tensor([[[0.0, 1, 1], [2, 3, 3], [-1, 0, 0]]])
    log_probs, log_alpha = distribution(logits, torch.zeros(1), 0.1)
    alpha = torch.tensor([0.45, 0.35672282, 0.08634379])
    near(log_probs.exp()[0, :, STOP], 1 - alpha, 1e-8)
    near(log_probs.exp()[0, :, 1:], (alpha / 2)[:, None].expand(3, 2), 1e-8)
    near(log_alpha.exp(), alpha[-1:], 1e-8)


@catches(starts_again_at_every_step, forgets_epsilon)
def stop_becomes_ever_more_probable_than_its_bound(distribution):
    """Strictly, as long as rounding leaves room for it."""
    for epsilon in (0.1, 1e-2, 1e-3):
        logits = random_logits(steps=300)
        stop = distribution(logits.clone(), none_past(logits), epsilon)[0][..., STOP].exp()
        least = torch.tensor([1 - (1 - epsilon) ** n for n in range(1, 301)])
        assert ((stop.diff() > 0) | (stop[:, 1:] > 1 - 1e-12)).all()
        assert ((stop > least) | (least > 0.99)).all()
        assert (stop >= least - 1e-15).all()


@catches(forgets_what_came_before)
def step_by_step_is_all_at_once(distribution):
    for dtype in DTYPES:
        logits = random_logits(dtype, steps=400)
        whole, end = distribution(logits.clone(), none_past(logits), 1e-3)
        past, steps = none_past(logits), []
        for n in range(400):
            log_probs, past = distribution(logits[:, n : n + 1].clone(), past, 1e-3)
            steps.append(log_probs)
        near((torch.cat(steps, 1) - whole) / whole.abs().clamp(min=1), torch.zeros_like(whole), 1e-6)
        near(past, end, 1e-6 * end.abs().max())


@catches(adds_up_in_float32)
def the_bound_holds_in_float32_at_the_very_step(distribution):
    """Step by step, the logit of stop as high as can be: p(stop) > 1/2 from step ceil(B) on, and not before."""
    for epsilon, last in ((0.1, 7), (1e-2, 69), (0.002872, 241), (1e-3, 693)):
        past, ahead = torch.zeros(1), []
        for _ in range(last):
            log_probs, past = distribution(torch.tensor([[[40.0, 0.0]]], dtype=torch.float32), past, epsilon)
            ahead.append(bool(log_probs[0, 0, STOP] > log_probs[0, 0, 1]))
        assert ahead == [False] * (last - 1) + [True], epsilon


@catches(forgets_what_came_before, leaves_stop_among_the_words, starts_again_at_every_step, forgets_epsilon)
def few_steps_are_the_products_of_the_definition(distribution):
    """Definition 4.3 as it stands, in probabilities, after some steps before."""
    logits, past = random_logits(rows=2, steps=12, scale=1.0), torch.tensor([0.0, -0.7])
    log_probs, log_alpha = distribution(logits.clone(), past, 0.05)
    for row in range(2):
        alpha = exp(past[row])
        for n in range(12):
            alpha *= 0.95 * float(logits[row, n, STOP].sigmoid())
            near(log_probs[row, n, 0].exp(), 1 - alpha, 1e-14)
            near(log_probs[row, n, 1:].exp(), alpha * logits[row, n, 1:].softmax(0), 1e-14)
        near(log_alpha[row].exp(), alpha, 1e-14)


LAWS = (
    probabilities_sum_to_one,
    gradients_are_finite_however_long_the_sequence,
    hand_values_come_out,
    stop_becomes_ever_more_probable_than_its_bound,
    step_by_step_is_all_at_once,
    the_bound_holds_in_float32_at_the_very_step,
    few_steps_are_the_products_of_the_definition,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_distribution_keeps_its_laws(law):
    law(self_terminating)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(self_terminating))


def test_the_gradient_is_that_of_finite_differences():
    logits = random_logits(rows=1, steps=6).requires_grad_()
    past = torch.tensor([-0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, p: self_terminating(z, p, 0.02), (logits, past))


def test_with_and_without_gradients_it_is_the_same():
    for dtype in DTYPES:
        logits = random_logits(dtype, steps=20)
        with_gradients = self_terminating(logits, none_past(logits), 1e-3)
        with torch.no_grad():
            without = self_terminating(logits.clone(), none_past(logits), 1e-3)
        for one, other in zip(with_gradients, without, strict=True):
            assert one.dtype == other.dtype
            torch.testing.assert_close(one, other)


# log(1 - e^x)


def exactly(x):
    """Return log(1 - e^x) of a float x < 0 to the last bit."""
    with localcontext(prec=700):
        return float((1 - Decimal(x).exp()).ln())


def one_form(x):
    """log1p(-e^x) everywhere: at x = -1e-20 it is log 0."""
    return torch.log1p(-x.exp())


def other_form(x):
    """log(-expm1 x) everywhere: at x = -50 it is log 1."""
    return (-torch.expm1(x)).log()


def chooses_too_late(x):
    """Both forms are computed, and one is chosen: where the other is infinite, no gradient is a number."""
    return torch.where(x > -log(2), other_form(x), one_form(x))


VALUES = [-1e-300, -1e-20, -1e-9, -1e-3, -0.1, -0.5, -0.69, -0.6931471805599453, -0.7, -1.0, -5.0, -50.0, -700.0]


def values_are_exact(function):
    found = function(torch.tensor(VALUES, dtype=torch.float64))
    torch.testing.assert_close(found, found.new_tensor([exactly(x) for x in VALUES]), rtol=1e-15, atol=0)


def slopes_are_exact(function):
    """-e^x / (1 - e^x), from almost -1 / |x| to almost 0."""
    x = torch.tensor(VALUES, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(slope, x.exp() / x.expm1(), rtol=1e-12, atol=0)


def test_log1mexp_is_exact_from_the_smallest_to_the_largest():
    values_are_exact(log1mexp)


def test_log1mexp_has_exact_slopes_and_those_of_finite_differences():
    slopes_are_exact(log1mexp)
    x = torch.tensor([-2.0, -0.8, -0.6, -0.05], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log1mexp, (x,))


def test_log1mexp_is_as_good_in_float32():
    x = torch.tensor([-1e-30, -1e-6, -0.3, -0.69, -0.7, -3.0, -60.0], dtype=torch.float32)
    wanted = torch.tensor([exactly(value) for value in x.tolist()], dtype=torch.float32)
    torch.testing.assert_close(log1mexp(x), wanted, rtol=3e-7, atol=0)


@pytest.mark.parametrize("mutant", [one_form, other_form])
def test_one_form_alone_is_not_exact(mutant):
    with pytest.raises(AssertionError):
        values_are_exact(mutant)


def test_a_choice_after_the_fact_has_no_slope():
    values_are_exact(chooses_too_late)
    with pytest.raises(AssertionError):
        slopes_are_exact(chooses_too_late)


def test_survival_is_the_sum_of_what_each_step_leaves():
    stop = random_logits(rows=2, steps=7)[..., STOP]
    found = survive(stop, torch.tensor([0.0, -2.0], dtype=torch.float64), 0.25)
    wanted = torch.stack([sum(logsigmoid(stop[:, m]) + log(0.75) for m in range(n + 1)) for n in range(7)], 1)
    torch.testing.assert_close(found, wanted - torch.tensor([[0.0], [2.0]]))
    assert survive(stop.float(), torch.zeros(2), 0.25).dtype == torch.float64
