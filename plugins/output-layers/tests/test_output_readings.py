"""Readings of codes: known distributions, brute force, and what each reading promises."""

from dataclasses import replace
from math import exp, log

import pytest
import torch

from bench_core import Rng
from bench_output_layers.gray_walk import codewords
from bench_output_layers.plugin import MaximumEntropy, Naive, PriorTempered
from bench_output_layers.readings import (
    Code,
    MaximumEntropyReading,
    NaiveReading,
    TemperedReading,
    reading_method,
)

READINGS = [NaiveReading(), TemperedReading(3.0), MaximumEntropyReading(1, 0.1), MaximumEntropyReading(10, 0.1)]


def dense(tokens, bits, seed=0):
    return (torch.rand(tokens, bits, generator=torch.Generator().manual_seed(seed)) < 0.5).float()


def walk(tokens, bits, seed=0):
    return codewords(tokens, bits, Rng(seed)).float()


def peaked():
    """Return distributions [40, 200] with four likely tokens each; perplexity 4.28."""
    torch.manual_seed(3)
    likely = torch.stack([torch.randperm(200)[:4] for _ in range(40)])
    shares = torch.tensor([0.4, 0.3, 0.2, 0.1]).expand(40, 4)
    return (0.98 * torch.zeros(40, 200).scatter(1, likely, shares) + 0.02 / 200).double()


def flat():
    """Return distributions [40, 200] with a perplexity of 65.5."""
    torch.manual_seed(3)
    return (1.5 * torch.randn(40, 200)).softmax(1).double()


def counts_of(shares):
    """Return the counts of tokens if all contexts are equally frequent."""
    return (shares.mean(0) * 1e6).round().long()


def sampled(shares, z, number):
    """Return bit logits [40 * number, d], and tokens sampled from the distributions."""
    tokens = torch.multinomial(shares, number, replacement=True, generator=torch.Generator().manual_seed(5))
    return z.repeat_interleave(number, 0), tokens.flatten()


def optimal_bits(shares, book):
    """Return the logits of the true probabilities of the bits [N, d]."""
    return (shares @ book.double()).clamp(1e-9, 1 - 1e-9).logit()


def perplexity(shares, log_probs):
    return exp(-(shares * log_probs.double()).sum(1).mean().item())


def entropy(log_probs):
    return -(log_probs.exp() * log_probs).sum(1)


def newton(target, book, prior, penalty):
    """Return the natural parameters of one position, float64, by damped Newton steps with the exact Hessian."""
    x = torch.zeros(book.shape[1], dtype=torch.float64)

    def state(x):
        p = (prior + book @ x).softmax(0)
        value = (prior + book @ x).logsumexp(0) - x @ target + penalty / 2 * x @ x
        return value, p

    for _ in range(200):
        value, p = state(x)
        mean = p @ book
        gradient = mean - target + penalty * x
        hessian = (book * p[:, None]).T @ book - torch.outer(mean, mean) + penalty * torch.eye(len(x)).double()
        move, size = torch.linalg.solve(hessian, gradient), 1.0
        while size > 1e-9 and state(x - size * move)[0] > value:
            size /= 2
        x = x - size * move
        if gradient.abs().max() < 1e-12:
            break
    return x


@pytest.mark.parametrize("book", [dense(40, 24), walk(40, 24), torch.eye(40)])
@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: type(reading).__name__)
def test_every_reading_sums_to_one_and_reads_a_position_alike_alone_and_among_others(book, reading):
    torch.manual_seed(1)
    code = Code(book, torch.arange(40))
    z = optimal_bits((2 * torch.randn(30, 40)).softmax(1).double(), book).float() + 0.3 * torch.randn(
        30, book.shape[1]
    )
    together = reading.distribution(z, code)[0]
    assert together.exp().sum(1) == pytest.approx(torch.ones(30), abs=1e-5)
    alone = torch.cat([reading.distribution(row[None], code)[0] for row in z])
    assert (together - alone).abs().max() < 1e-3
    gold = torch.arange(30)
    assert torch.equal(reading.log_probs_of(z, gold, code), together.gather(1, gold[:, None])[:, 0])
    assert reading.distribution(z[:0], code)[0].shape == (0, 40)


@pytest.mark.parametrize(("shares", "truth", "margin"), [(peaked(), 4.28, 1.05), (flat(), 65.5, 1.2)])
@pytest.mark.parametrize("make", [dense, walk])
def test_with_optimal_bits_maximum_entropy_is_near_the_truth_and_independent_bits_are_not(
    make, shares, truth, margin
):
    assert perplexity(shares, shares.log()) == pytest.approx(truth, rel=0.002)
    book = make(200, 150)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    reading = MaximumEntropyReading(60, 3e-4)
    assert perplexity(shares, reading.distribution(z, code)[0]) < margin * truth
    assert perplexity(shares, NaiveReading().distribution(z, code)[0]) > 1e4
    tempered = TemperedReading().fitted(*sampled(shares, z, 10), code)
    unigrams = perplexity(shares, code.log_prior.expand(40, -1))
    assert margin * truth < perplexity(shares, tempered.distribution(z, code)[0]) < unigrams


def test_maximum_entropy_has_the_marginals_of_the_bits_and_the_largest_entropy_of_all_that_have_them():
    book = dense(32, 10).double()
    code = Code(book, torch.ones(32))
    truth = (1.5 * torch.randn(1, 32, generator=torch.Generator().manual_seed(2))).softmax(1).double()
    z = optimal_bits(truth, book)
    log_probs = MaximumEntropyReading(2000, 0.0, tolerance=1e-9).distribution(z, code)[0]
    probs = log_probs.exp()
    assert (probs @ book - z.sigmoid()).abs().max() < 1e-4
    _, _, vectors = torch.linalg.svd(torch.cat([book, torch.ones(32, 1)], 1).T)
    nullspace = vectors[torch.linalg.matrix_rank(torch.cat([book, torch.ones(32, 1)], 1)) :]
    for seed in range(1000):
        direction = torch.randn(len(nullspace), generator=torch.Generator().manual_seed(seed)).double() @ nullspace
        step = torch.where(direction < 0, -probs[0] / direction, torch.inf).min() * (0.001 + 0.99 * seed / 1000)
        other = probs + step * direction
        assert (other @ book - z.sigmoid()).abs().max() < 1e-4
        assert entropy(other.clamp(min=1e-300).log()) < entropy(log_probs)


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
@pytest.mark.parametrize("make", [dense, walk])
def test_the_solver_equals_newtons_method(make, penalty):
    book = make(32, 12).double()
    code = Code(book, torch.arange(32))
    truth = (2 * torch.randn(20, 32, generator=torch.Generator().manual_seed(4))).softmax(1).double()
    z = optimal_bits(truth, book)
    solution = MaximumEntropyReading(5000, penalty, tolerance=1e-10).solution(z, code)
    ours = solution.natural @ code.eigen[1].T
    exact = torch.stack([newton(row, book, code.log_prior, penalty) for row in z.sigmoid()])
    assert (ours - exact).abs().max() < 1e-6
    assert solution.residual.max() < 1e-9
    assert (solution.steps < 5000).all()


def test_one_step_is_the_ridge_regression_on_the_bits():
    book, counts, penalty = walk(50, 20), torch.arange(50), 0.05
    code, z = Code(book, counts), torch.randn(7, 20)
    prior = code.log_prior.double().exp()
    mean = prior @ book.double()
    covariance = (book.double() * prior[:, None]).T @ book.double() - torch.outer(mean, mean)
    natural = torch.linalg.solve(covariance + penalty * torch.eye(20), (z.double().sigmoid() - mean).T).T
    expected = (code.log_prior + natural @ book.double().T).log_softmax(1)
    ours = MaximumEntropyReading(1, penalty).distribution(z, code)[0]
    assert (ours - expected).abs().max() < 1e-4


def test_the_solver_reports_where_it_has_not_converged():
    shares = peaked()
    book = dense(200, 100)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    few, many = (MaximumEntropyReading(steps, 1e-3).solution(z, code) for steps in (3, 300))
    assert (few.steps == 3).all()
    assert few.residual.min() > 0.02 > 0.005 > many.residual.median()
    probs = (code.log_prior + many.natural @ code.rotated.T).softmax(1)
    gap = z.sigmoid() - probs @ book - 1e-3 * many.natural @ code.eigen[1].T
    assert many.residual == pytest.approx(gap.abs().amax(1), abs=1e-5)


def test_without_evidence_beyond_the_base_rates_fair_readings_are_the_unigram_distribution():
    counts = torch.arange(1, 61) ** 2
    code = Code(dense(60, 30), counts)
    z = code.base_rates.logit().float()[None]
    for reading in (TemperedReading(2.0), MaximumEntropyReading(1, 0.1), MaximumEntropyReading(10, 0.1)):
        assert (reading.distribution(z, code)[0] - code.log_prior).abs().max() < 1e-3
    assert (NaiveReading().distribution(z, code)[0] - code.log_prior).abs().max() > 1


def test_a_high_temperature_or_penalty_leaves_the_unigram_distribution_and_a_low_one_trusts_the_bits():
    shares = flat()
    book = dense(200, 60)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    for weak in (TemperedReading(1e6), MaximumEntropyReading(10, 1e6)):
        assert (weak.distribution(z, code)[0] - code.log_prior).abs().max() < 1e-3
    entropies = [entropy(TemperedReading(tau).distribution(z, code)[0]).mean() for tau in (100.0, 10.0, 1.0)]
    assert entropies == sorted(entropies, reverse=True)


@pytest.mark.parametrize("splits", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reading", [TemperedReading(), MaximumEntropyReading(10), MaximumEntropyReading(1)], ids=str)
def test_settings_fitted_on_one_half_are_within_2_percent_of_those_fitted_on_the_other(reading, splits):
    shares = flat()
    book = walk(200, 60)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    z, gold = sampled(shares, z + 0.3 * torch.randn(z.shape, generator=torch.Generator().manual_seed(1)), 100)
    for seed in range(splits):
        order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
        valid, test = order[:2000], order[2000:]
        here, there = (reading.fitted(z[part], gold[part], code) for part in (valid, test))
        assert here.nats(z[test], gold[test], code) - there.nats(z[test], gold[test], code) < log(1.02)
        assert here.nats(z[valid], gold[valid], code) <= there.nats(z[valid], gold[valid], code) + 0.01


def test_a_fit_changes_nothing_but_the_penalty():
    shares, book = flat(), walk(200, 30)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    reading = MaximumEntropyReading(30, tolerance=0.01)
    fitted = reading.fitted(*sampled(shares, z, 2), code)
    assert fitted.penalty is not None
    assert replace(fitted, penalty=None) == reading


def test_given_settings_are_not_fitted():
    shares = flat()
    book = walk(200, 30)
    code, z = Code(book, counts_of(shares)), optimal_bits(shares, book).float()
    for reading in (NaiveReading(), TemperedReading(3.0), MaximumEntropyReading(5, 0.2)):
        assert reading.fitted(*sampled(shares, z, 2), code) == reading


def test_certain_bits_give_finite_scores():
    code = Code(dense(40, 20), torch.arange(40))
    z = torch.tensor([-200.0, 200.0]).repeat(10)[None]
    for reading in READINGS:
        assert reading.distribution(z, code)[0].isfinite().all()


def test_a_position_that_needs_no_step_takes_none_beside_others_that_do():
    code = Code(dense(60, 30), torch.arange(1, 61) ** 2)
    easy = code.base_rates.logit().float()
    solution = MaximumEntropyReading(10, 0.01).solution(torch.stack([easy, easy + 1, easy]), code)
    assert solution.steps.tolist()[::2] == [0, 0]
    assert solution.steps[1] > 1
    assert (solution.natural[0] == 0).all()


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        (Naive(), NaiveReading),
        (PriorTempered(temperature=2.0), TemperedReading),
        (MaximumEntropy(steps=3), MaximumEntropyReading),
    ],
)
def test_settings_select_the_reading(settings, method):
    reading = reading_method(settings)
    assert isinstance(reading, method)
    for name, value in settings:
        assert name == "kind" or getattr(reading, name) == value
