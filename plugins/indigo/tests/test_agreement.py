from __future__ import annotations

import subprocess
import sys
from itertools import combinations, permutations
from math import isnan

import pytest
from pydantic import ValidationError

from bench_authors.testing import MetricCase, catches, check_metric
from bench_core import Hypothesis, Prediction, SuiteError, TaskInfo
from bench_indigo.plugin import bench_metrics
from bench_indigo.trajectory import positions

CONFIGS = {config.name: config for config in bench_metrics()}
TAGS = {"name": "bank", "kind": "word", "words": {"a": "DET", "b": "NOUN", "c": "VERB", "d": "NOUN"}}
INFO = TaskInfo(["<stop>", *"abcdefghi"], [90, 5, 4, 9, 4, 1], extras={"tags": TAGS})


def chain(tokens, order):
    """Return the words and slots that place tokens in an order of reading positions."""
    actions, done = [], []
    for place in order:
        actions += [tokens[place], sum(earlier < place for earlier in done) + 1]
        done.append(place)
    return actions


def output(order, tokens=None, number=0):
    tokens = list(range(1, len(order) + 1)) if tokens is None else tokens
    return Prediction(number, hypotheses=[Hypothesis(tokens, True, -1.0, chain(tokens, order))], texts=["x"])


def plain(tokens, number=0):
    return Prediction(number, hypotheses=[Hypothesis(tokens, True, -1.0, tokens)], texts=["x"])


def score(name, predictions, **settings):
    case = MetricCase.of(CONFIGS[name](**settings), predictions, info=INFO)
    return case.metric.combine([*case.metric.measure(predictions)])


MIXED = [
    output([2, 0, 1, 3], number=1), output([1, 0], number=2), output([], number=3), output([0], number=4),
    plain([3, 3, 1], number=5), output([3, 1, 4, 0, 2], [5, 5, 5, 5, 5], number=6),
]  # fmt: skip
SETTINGS = [(name, {}) for name in CONFIGS] + [
    ("order-chunks", {"per": "word"}),
    ("first-words", {"types": 2}),
    ("first-words", {"skip_unknown": True}),
    ("first-parts", {"part": "X", "first": 1}),
    ("first-parts", {"part": "NOUN", "first": None}),
]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_every_metric_keeps_the_contracts(name, settings):
    for predictions in (None, MIXED):
        assert len(check_metric(MetricCase.of(CONFIGS[name](**settings), predictions, info=INFO))) == 7


@pytest.mark.parametrize("number", range(6))
def test_every_order_is_read_from_its_slots(number):
    for order in permutations(range(number)):
        assert positions(number, chain([7] * number, order)) == [*order]


def counts_slots_from_one(read):
    return lambda length, actions: read(length, [action - place % 2 for place, action in enumerate(actions)])


def puts_words_after_the_slot(read):
    def mutant(length, actions):
        order = []
        for turn, action in enumerate(actions[1::2]):
            order.insert(action, turn)
        return [order.index(turn) for turn in range(length)]

    return mutant


def takes_slots_for_places(read):
    return lambda length, actions: [action - 1 for action in actions[1::2]]


def inverts_the_order(read):
    def mutant(length, actions):
        order = read(length, actions)
        return [order.index(place) for place in range(length)]

    return mutant


@catches(counts_slots_from_one, puts_words_after_the_slot, takes_slots_for_places, inverts_the_order)
def slots_are_gaps_of_what_is_there_so_far(read):
    assert read(3, [8, 1, 9, 1, 7, 2]) == [2, 0, 1]
    assert read(4, [8, 1, 9, 2, 7, 2, 6, 4]) == [0, 2, 1, 3]


def test_slots_are_gaps_of_what_is_there_so_far():
    slots_are_gaps_of_what_is_there_so_far(positions)


@pytest.mark.parametrize("mutant", slots_are_gaps_of_what_is_there_so_far.mutants, ids=lambda m: m.__name__)
def test_another_reading_of_slots_is_told_from_it(mutant):
    with pytest.raises(AssertionError):
        slots_are_gaps_of_what_is_there_so_far(mutant(positions))


@pytest.mark.parametrize(
    ("order", "tau", "jump", "chunks"),
    [
        ([0, 1, 2, 3], 1, 1, 1),
        ([3, 2, 1, 0], -1, 1, 4),
        ([2, 0, 1, 3], 1 / 3, 5 / 3, 3),  # 2 of 6 pairs are turned round; 2 + 1 + 2; 2 | 0 1 | 3
        ([1, 0, 2], 1 / 3, 3 / 2, 3),
        ([2, 3, 0, 1], -1 / 3, 5 / 3, 2),
    ],
)
def test_orders_have_the_values_worked_out_by_hand(order, tau, jump, chunks):
    assert score("order-agreement", [output(order)]) == pytest.approx(tau)
    assert score("order-jump", [output(order)]) == pytest.approx(jump)
    assert score("order-chunks", [output(order)]) == chunks
    assert score("order-chunks", [output(order)], per="word") == pytest.approx(chunks / len(order))


@pytest.mark.parametrize("number", [2, 3, 5, 6])
def test_every_order_has_the_values_of_brute_force(number):
    for order in permutations(range(number)):
        signs = [1 if before < after else -1 for before, after in combinations(order, 2)]
        assert score("order-agreement", [output(order)]) == pytest.approx(sum(signs) / len(signs))
        runs = [[order[0]]]
        for place in order[1:]:
            if place == runs[-1][-1] + 1:
                runs[-1].append(place)
            else:
                runs.append([place])
        assert score("order-chunks", [output(order)]) == len(runs)
        jumps = [abs(order[turn] - order[turn + 1]) for turn in range(number - 1)]
        assert score("order-jump", [output(order)]) == pytest.approx(sum(jumps) / len(jumps))


def test_what_is_made_from_left_to_right_agrees_with_itself():
    cell = [plain([4, 2, 2]), plain([1, 5])]
    assert score("order-agreement", cell) == score("order-jump", cell) == score("order-chunks", cell) == 1
    assert score("order-chunks", cell, per="word") == 2 / 5


def test_agreement_is_a_mean_over_outputs_and_jumps_are_pooled():
    cell = [output([1, 0]), output([0, 1, 2, 3, 4]), output([0]), output([])]
    assert score("order-agreement", cell) == 0
    assert score("order-jump", [output([0, 2, 1]), output([0, 1])]) == pytest.approx((2 + 1 + 1) / 3)
    assert score("order-chunks", [output([1, 0]), output([0]), output([])]) == 1.5


def test_a_cell_without_orders_is_undefined():
    for name in CONFIGS:
        assert isnan(score(name, [output([])]))
        case = MetricCase.of(CONFIGS[name](), info=INFO)
        assert isnan(case.metric.combine([]))
    assert isnan(score("order-agreement", [output([0])]))
    assert isnan(score("order-jump", [output([0])]))


def test_first_words_are_those_generated_first_wherever_they_stand():
    cell = [output([3, 2, 1, 0], [4, 5, 3, 1])]  # generated 1, 3, 5, 4; the ranking is 3 (9), 1 (5), 2 and 4 (4), 5
    for types, first, wanted in [(1, 1, 0), (1, 2, 50), (2, 2, 100), (2, 3, 200 / 3), (4, 9, 75), (3, 4, 50)]:
        assert score("first-words", cell, types=types, first=first) == pytest.approx(wanted)
    assert score("first-words", [plain([4, 5, 3, 1])], types=2, first=2) == 0


def test_first_words_pool_short_outputs_and_stop_is_no_type():
    assert score("first-words", [output([0], [3]), output([0, 1], [5, 5])], types=1) == pytest.approx(100 / 3)
    case = MetricCase.of(CONFIGS["first-words"](types=1), info=INFO)
    assert case.metric.common == {3}


def test_first_words_need_counts():
    with pytest.raises(SuiteError, match=r"counts.*Leave this metric out"):
        MetricCase.of(CONFIGS["first-words"](), info=TaskInfo(["<stop>", "a"]))


@pytest.mark.parametrize(
    "actions",
    [
        None,  # all at once
        [5],
        [1, 2, 3, 4, 5],
        [1, 1, 2, 2, 3, 7],  # there are but 3 slots
        [1, 0, 2, 2, 3, 3],
        [1, 1, 3, 2, 2, 3],  # which reads as 1 3 2
        [1, 3, 2],
    ],
)
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_whose_order_is_unknown_are_refused_by_example(name, actions):
    cell = [output([0, 1]), Prediction(8, hypotheses=[Hypothesis([1, 2, 3], True, None, actions)])]
    with pytest.raises(SuiteError, match=r"example 8 is unknown: .* 3 words.*Leave this metric out"):
        score(name, cell)


def by_right_keys(actions):
    """Return a chain that means every slot by the key of the item on its right."""
    return [action + place // 2 + 1 if place % 2 else action for place, action in enumerate(actions)]


@pytest.mark.parametrize("tokens", [[1, 2, 3, 4], [1, 1, 1, 1]])
def test_two_keys_of_a_slot_mean_it_both(tokens):
    for order in permutations(range(4)):
        slots = chain(tokens, order)
        assert positions(4, by_right_keys(slots)) == [*order]
        for keys in (by_right_keys(slots), by_right_keys(slots)[:4] + slots[4:]):
            cell = [Prediction(0, hypotheses=[Hypothesis(tokens, True, None, keys)])]
            for name in ("order-agreement", "order-jump", "order-chunks"):
                assert score(name, cell) == score(name, [output(order, tokens)])


def turned(actions):
    """Return a chain with every slot before its word."""
    return [action for word, slot in zip(actions[::2], actions[1::2], strict=True) for action in (slot, word)]


def test_slots_may_come_before_words_in_all_outputs_of_a_cell():
    cells = [[7, 8, 9], [2, 0, 1]], [[1, 2, 2], [0, 2, 1]], [[9], [0]], [[], []]
    for name in CONFIGS:
        words_first = [output(order, tokens, number) for number, (tokens, order) in enumerate(cells)]
        slots_first = [
            Prediction(number, hypotheses=[Hypothesis(tokens, True, None, turned(chain(tokens, order)))])
            for number, (tokens, order) in enumerate(cells)
        ]
        assert score(name, slots_first) == score(name, words_first)
        with pytest.raises(SuiteError, match="is unknown"):
            score(name, [words_first[0], slots_first[1], slots_first[0]])


def test_every_order_is_read_where_slots_come_first():
    for order in permutations(range(5)):
        assert positions(5, turned(chain([7] * 5, order)), position_first=True) == [*order]


def test_unknown_words_can_be_skipped():
    info = TaskInfo(["<stop>", "<unk>", "a", "b"], [9, 9, 5, 1])
    cell = [output([2, 0, 1], [2, 3, 1]), output([0, 1], [1, 1])]  # generated <unk> a b; <unk> <unk>
    for skip, types, first, wanted in [
        (False, 1, 1, 100), (True, 1, 1, 100), (True, 1, 2, 50), (False, 2, 2, 100), (True, 2, 3, 100), (False, 1, 3, 60),
    ]:  # fmt: skip
        config = CONFIGS["first-words"](types=types, first=first, skip_unknown=skip)
        metric = MetricCase.of(config, cell, info=info).metric
        assert metric.combine([*metric.measure(cell)]) == wanted, (skip, types, first)
    without = MetricCase.of(CONFIGS["first-words"](skip_unknown=True), MIXED, info=INFO).metric
    assert without.combine([*without.measure(MIXED)]) == score("first-words", MIXED)


def test_only_the_first_hypothesis_counts():
    first, second = output([1, 0]).hypotheses + output([0, 1]).hypotheses
    assert score("order-agreement", [Prediction(0, hypotheses=[first, second])]) == -1


def test_signatures_tell_settings_apart():
    for name, one, other in (
        ("order-chunks", {"per": "word"}, {}),
        ("first-words", {"types": 5}, {"first": 5}),
        ("first-words", {"skip_unknown": True}, {}),
    ):
        assert (
            len({CONFIGS[name](**settings).load()(CONFIGS[name](**settings)).signature for settings in (one, other)})
            == 2
        )


@pytest.mark.parametrize("settings", [{"types": 0}, {"first": 0}, {"words": 3}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValidationError):
        CONFIGS["first-words"](**settings)


def test_the_metrics_import_no_torch():
    code = "import sys, bench_indigo.agreement; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
