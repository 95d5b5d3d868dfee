"""The loop behind greedy choice and sampling, against hand values and brute force."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from bench_authors.testing import Case, tiny_batch, toys
from bench_core import STOP, Rng, State, Stepper, as_hypothesis, draw, generate, invert, limits, topk_stable


@dataclass(frozen=True)
class Read(State):
    words: Tensor  # [N, t]


class Table(Stepper[Read]):
    """Hand-made probabilities of stop, A, B and C after each prefix of words 1, 2 and 3."""

    table = {
        "": (0.1, 0.5, 0.2, 0.2),
        "A": (0.2, 0.1, 0.4, 0.3),
        "AB": (0.2, 0.2, 0.2, 0.4),
        "ABC": (0.6, 0.0, 0.2, 0.2),
        "B": (0.7, 0.1, 0.1, 0.1),
    }

    def __init__(self):
        self.sizes = []  # the number of rows of each step

    def loss(self, batch, training): ...

    def start(self, batch):
        return self._look(Read(batch.gold[:, :0]))

    def step(self, state, actions):
        assert (actions != STOP).all()
        self.sizes.append(len(actions))
        return self._look(Read(torch.cat([state.words, actions[:, None]], 1)))

    def _look(self, state):
        prefixes = ["".join("?ABC"[word] for word in row) for row in state.words.tolist()]
        rows = [self.table.get(prefix, (0.25,) * 4) for prefix in prefixes]
        return torch.tensor(rows, dtype=torch.float64).log(), state


class Pairs(Stepper[Read]):
    """Two actions a token; the second is always 3, the first stops with probability one half."""

    actions_per_token = 2

    def loss(self, batch, training): ...

    def start(self, batch):
        return self._look(Read(batch.gold[:, :0]))

    def step(self, state, actions):
        return self._look(Read(torch.cat([state.words, actions[:, None]], 1)))

    def read(self, actions):
        return actions[::2]

    def _look(self, state):
        probabilities = [0.0, 0.0, 0.0, 1.0] if state.words.shape[1] % 2 else [0.5, 0.25, 0.25, 0.0]
        return torch.tensor([probabilities], dtype=torch.float64).log().expand(len(state.words), -1), state


def likeliest(log_probs, ids, step):
    return log_probs.argmax(1)


def scripted(*steps):
    """Return a pick that follows the script of each id, a column a step."""
    return lambda log_probs, ids, step: torch.tensor([steps[number - 40][step] for number in ids.tolist()])


def test_greedy_choice_by_hand():
    (one,) = generate(Table(), tiny_batch([[1]]), likeliest, 9)
    assert (one.tokens, one.actions, one.finished) == ([1, 2, 3], [1, 2, 3], True)
    assert math.isclose(math.exp(one.log_prob), 0.5 * 0.4 * 0.4 * 0.6)


def test_rows_that_stop_leave_and_the_others_go_on():
    model = Table()
    pick = scripted([1, 2, 0], [0], [2, 1, 1, 0], [3, 0])
    found = generate(model, tiny_batch([[1]] * 4), pick, 9)
    assert [one.tokens for one in found] == [[1, 2], [], [2, 1, 1], [3]]
    assert all(one.finished for one in found)
    assert model.sizes == [3, 2, 1]
    wanted = [0.5 * 0.4 * 0.2, 0.1, 0.2 * 0.1 * 0.25 * 0.25, 0.2 * 0.25]
    assert [one.log_prob for one in found] == pytest.approx([math.log(value) for value in wanted])


def test_the_limit_counts_tokens_with_their_stop():
    batch, pick = tiny_batch([[1]]), scripted([1, 2, 0])
    cut, whole = generate(Table(), batch, pick, 2)[0], generate(Table(), batch, pick, 3)[0]
    assert (cut.tokens, cut.finished) == ([1, 2], False)
    assert math.isclose(math.exp(cut.log_prob), 0.5 * 0.4)
    assert (whole.tokens, whole.finished) == ([1, 2], True)


def test_every_row_has_a_limit_of_its_own():
    model, batch = Table(), tiny_batch([[1]] * 3)
    model.limit = lambda batch: batch.ids - 39
    assert limits(model, batch, 2).tolist() == [1, 2, 2]
    found = generate(model, batch, scripted(*[[1, 2, 3, 1, 1]] * 3), 9)
    assert [one.tokens for one in found] == [[1], [1, 2], [1, 2, 3]]
    assert not any(one.finished for one in found)


def test_without_a_limit_of_the_model_the_decoder_s_holds():
    assert limits(Table(), tiny_batch([[1], [2]]), 7).tolist() == [7, 7]


def test_several_actions_make_one_token():
    found = generate(Pairs(), tiny_batch([[1]] * 300), draw(Rng(1)), 4)
    for one in found:
        assert one.tokens == one.actions[::2]
        assert one.actions[1::2] == [3] * len(one.tokens)
        assert len(one.tokens) + one.finished <= 4
        assert math.isclose(one.log_prob, math.log(0.5) * one.finished + math.log(0.25) * len(one.tokens))
    assert {len(one.tokens) for one in found if one.finished} == {0, 1, 2, 3}
    assert {len(one.tokens) for one in found if not one.finished} == {4}


def test_ended_takes_the_stop_off_a_chain():
    assert as_hypothesis(Table(), [2, 1, 0], -1.5).actions == [2, 1]
    assert as_hypothesis(Table(), [2, 1, 0], -1.5).finished
    assert not as_hypothesis(Table(), [2, 1], -1.5).finished
    assert as_hypothesis(Pairs(), [2, 3, 1, 3, 0], -1.5).tokens == [2, 1]


def test_log_probabilities_add_up_in_float64():
    """A thousand steps of a float32 model lose nothing."""

    class Long(Table):
        def _look(self, state):
            return torch.tensor([[0.1, 0.9, 0.0, 0.0]]).log().expand(len(state.words), -1), state

    (one,) = generate(Long(), tiny_batch([[1]]), lambda log_probs, ids, step: torch.ones_like(ids), 1000)
    gain = torch.tensor([0.9]).log().double().item()
    assert math.isclose(one.log_prob, 1000 * gain, rel_tol=1e-12)


@pytest.mark.slow
def test_draws_are_as_frequent_as_they_are_probable():
    found = generate(Table(), tiny_batch([[1]] * 20_000), draw(Rng(2)), 5)
    for tokens, wanted in (([], 0.1), ([2], 0.14), ([1], 0.1), ([1, 2, 3], 0.048)):
        share = sum(one.finished and one.tokens == tokens for one in found) / len(found)
        assert abs(share - wanted) < 5 * math.sqrt(wanted / len(found))


def test_a_row_draws_by_its_id_and_not_by_its_neighbours():
    case = Case.of(toys.InsertionConfig())
    batch = tiny_batch([[1]] * 40)
    together = case.model.double().sample(batch, 6, Rng(3))
    for rows in ([7], [39, 7, 0], [*range(39, -1, -1)]):
        some = case.model.sample(batch.select(torch.tensor(rows)), 6, Rng(3))
        assert [one.actions for one in some] == [together[row].actions for row in rows]
    renamed = case.model.sample(replace(batch, ids=batch.ids + 100), 6, Rng(3))
    assert [one.actions for one in renamed] != [one.actions for one in together]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_impossible_is_never_drawn(dtype):
    log_probs = torch.tensor([[-torch.inf, 0.2, -torch.inf, 0.5, -torch.inf]], dtype=dtype).log_softmax(1)
    extremes = torch.tensor([2.0**-53, 0.5, 1 - 2.0**-53, 0.4], dtype=torch.float64)
    assert invert(log_probs.expand(4, -1), extremes).tolist() == [1, 3, 3, 1]


@pytest.mark.parametrize("size", [2, 50, 5000])
def test_only_the_last_possible_action_is_drawn_at_the_very_end(size):
    log_probs = torch.randn(1, size, generator=torch.Generator().manual_seed(size)).log_softmax(1)
    log_probs[:, size // 2 :] = -torch.inf
    assert invert(log_probs, torch.tensor([1 - 2.0**-53], dtype=torch.float64)).item() < size // 2


def test_drawn_shares_are_the_probabilities_whether_or_not_they_sum_to_one():
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    uniform = Rng(1).uniform(torch.arange(100_000))
    for scale in (1.0, 0.5):
        drawn = invert((scale * shares).log().expand(100_000, -1), uniform)
        found = drawn.bincount(minlength=4) / 100_000
        assert (found - shares).abs().max() < 5 * math.sqrt(0.25 / 100_000)


@pytest.mark.parametrize("k", [1, 3, 10, 30, 50])
def test_the_best_of_equal_values_have_the_lowest_places(k):
    """Small integers tie everywhere, across the border of the k best too."""
    values = torch.randint(0, 4, (200, 30), generator=torch.Generator().manual_seed(k)).double()
    values[values == 0] = -torch.inf
    found, places = topk_stable(values, k)
    for row, numbers, chosen in zip(values.tolist(), found.tolist(), places.tolist(), strict=True):
        wanted = sorted(range(30), key=lambda place: (-row[place], place))[:k]
        assert chosen == wanted
        assert numbers == [row[place] for place in wanted]
