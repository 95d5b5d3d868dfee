"""Codebooks: Gray codes and the check bits of each rank, with the mistakes that their laws must catch."""

from __future__ import annotations

import pytest
import torch

from bench_authors.testing import catches
from bench_core import Rng
from bench_output_layers.gray_walk import allotment, codewords, flips, gray, own_checks
from bench_output_layers.packed_codes import base_bits, pack, unpack

RNG = Rng(11)


def lengths(tokens):
    """Return code lengths to try: without checks, with one, with many."""
    base = base_bits(tokens)
    return base, base + 1, 100


SIZES = [(tokens, bits) for tokens in (2, 3, 4, 5, 1000) for bits in lengths(tokens)]


# mistakes


def shifts_checks_by_a_rank(words):
    """The check part of rank r is that of rank r - 1."""

    def wrong(tokens, bits, rng):
        codes = words(tokens, bits, rng)
        base = base_bits(tokens)
        return torch.cat([codes[:, :base], codes[:, base:].roll(1, 0)], 1)

    return wrong


def counts_in_plain_binary(words):
    """The base part is the number itself."""

    def wrong(tokens, bits, rng):
        base = base_bits(tokens)
        plain = torch.arange(tokens)[:, None] >> torch.arange(base - 1, -1, -1) & 1
        return torch.cat([plain.to(torch.uint8), words(tokens, bits, rng)[:, base:]], 1)

    return wrong


def puts_the_last_bit_first(words):
    """The least significant bit of the base part comes first."""

    def wrong(tokens, bits, rng):
        codes, base = words(tokens, bits, rng), base_bits(tokens)
        return torch.cat([codes[:, :base].flip(1), codes[:, base:]], 1)

    return wrong


def flips_no_check_bit_of_late_ranks(words):
    """n_r is e / (2 r), rounded, without the floor of 1."""

    def wrong(tokens, bits, rng):
        codes, base = words(tokens, bits, rng), base_bits(tokens)
        checks = codes[:, base:].clone()
        checks[bits - base + 1 :] = checks[bits - base : bits - base + 1]
        return torch.cat([codes[:, :base], checks], 1)

    return wrong


def draws_checks_from_scratch(words):
    """The check part of each rank is its flips alone, whatever the rank before has."""

    def wrong(tokens, bits, rng):
        base = base_bits(tokens)
        return torch.cat([gray(tokens, base), flips(tokens, bits - base, rng)], 1)

    return wrong


def draws_anew_each_time(words):
    """The seed is not what is asked for."""
    turns = iter(range(1000))
    return lambda tokens, bits, rng: words(tokens, bits, rng.fork(next(turns)))


# laws


@catches(counts_in_plain_binary, shifts_checks_by_a_rank, draws_checks_from_scratch, flips_no_check_bit_of_late_ranks)
def neighbours_differ_in_a_base_bit_and_their_checks(words):
    for tokens, bits in SIZES:
        codes, base = words(tokens, bits, RNG).int(), base_bits(tokens)
        differ = codes.diff(dim=0).abs()
        assert (differ[:, :base].sum(1) == 1).all(), "one base bit"
        assert (differ[:, base:].sum(1) == allotment(tokens, bits - base)[1:]).all(), "n_r check bits"
        assert not codes[0].any(), "the first codeword is all zero"


@catches(puts_the_last_bit_first)
def the_base_part_names_the_rank(words):
    """Most significant bit first: the prefix sums of the bits, modulo 2, are the rank in binary."""
    for tokens, bits in SIZES:
        base = base_bits(tokens)
        binary = words(tokens, bits, RNG)[:, :base].long().cumsum(1) % 2
        weights = 2 ** torch.arange(base - 1, -1, -1)
        assert (binary @ weights).tolist() == list(range(tokens))


@catches(shifts_checks_by_a_rank, counts_in_plain_binary)
def a_single_check_bit_is_the_parity(words):
    for tokens in (2, 3, 4, 5, 64, 1000):
        codes = words(tokens, base_bits(tokens) + 1, RNG).int()
        assert not (codes.sum(1) % 2).any()
        assert codes[:, -1].any()
    assert words(4, 3, RNG.fork("other")).tolist() == [[0, 0, 0], [0, 1, 1], [1, 1, 0], [1, 0, 1]]


@catches(draws_anew_each_time)
def the_seed_decides(words):
    assert words(50, 40, RNG).equal(words(50, 40, RNG))
    assert not words(50, 40, RNG).equal(words(50, 40, RNG.fork("other")))


@catches(draws_checks_from_scratch, flips_no_check_bit_of_late_ranks)
def check_distance_grows_with_the_distance_of_ranks(words):
    """(e / 2)(1 - (1 - 2 / e)^g), where each rank flips one bit."""
    tokens, bits = 10_000, 1000
    checks = words(tokens, bits, RNG)[2000:, base_bits(tokens) :].float()
    for gap, expected in ((1, 1.0), (10, 9.9), (50, 47.6), (200, 164.5), (900, 413.7)):
        distance = (checks[gap:] != checks[:-gap]).sum(1).double().mean()
        assert abs(distance / expected - 1) < 0.03, f"{gap} ranks apart"


LAWS = (
    neighbours_differ_in_a_base_bit_and_their_checks,
    the_base_part_names_the_rank,
    a_single_check_bit_is_the_parity,
    the_seed_decides,
    check_distance_grows_with_the_distance_of_ranks,
)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_codebooks_keep_their_laws(law):
    law(codewords)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(codewords))


@pytest.mark.parametrize(("tokens", "bits"), SIZES)
def test_all_codewords_differ(tokens, bits):
    assert len(codewords(tokens, bits, RNG).unique(dim=0)) == tokens


@pytest.mark.parametrize(
    ("tokens", "bits"), [(2, 1), (3, 2), (4, 2), (5, 3), (10_000, 14), (33_278, 16), (267_735, 19)]
)
def test_base_bits_are_the_fewest_that_suffice(tokens, bits):
    assert base_bits(tokens) == bits


def test_frequent_ranks_are_allotted_most_checks():
    allotted = allotment(10_000, 986)
    assert allotted[:6].tolist() == [0, 493, 247, 164, 123, 99]
    assert (allotted[1:].diff() <= 0).all()
    assert (allotted[657:] == 1).all()
    assert allotment(5, 0).tolist() == [0] * 5
    assert allotment(5, 1).tolist() == [0, 1, 1, 1, 1]


def test_all_check_bits_are_flipped_alike():
    """Each of 20 check bits by a twentieth of the ranks that have one."""
    shares = flips(20_000, 20, RNG)[30:].double().mean(0)
    assert (shares - 0.05).abs().max() < 5 * (0.05 * 0.95 / 20_000) ** 0.5


def test_packed_codes_come_back():
    for bits in (1, 7, 8, 9, 40):
        codes = codewords(2, bits, RNG)
        assert pack(codes).shape == (2, -(-bits // 8))
        assert unpack(pack(codes), bits).equal(codes)
    codes, some = codewords(9, 20, RNG), torch.tensor([[3, 1], [0, 8]])
    assert unpack(pack(codes)[some], 20).equal(codes[some])


def test_own_checks_are_those_that_a_rank_has_flipped():
    codes = codewords(40, 20, RNG)
    found, base = own_checks(codes, 3), base_bits(40)
    assert found[0].tolist() == [-1, -1, -1]
    for rank in range(1, 40):
        flipped = [column for column in range(base, 20) if codes[rank, column] != codes[rank - 1, column]]
        assert found[rank].tolist() == (flipped + [-1] * 3)[:3]
    assert (own_checks(codewords(4, 2, RNG), 2) == -1).all()
