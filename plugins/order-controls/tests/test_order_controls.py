"""The controls: their sources determine their targets, and exactly the right orders do so one look-up at a time."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise, permutations
from math import factorial
from pathlib import Path
from random import Random

import pytest
import torch
from click.testing import CliRunner
from pydantic import ValidationError

from bench_authors.testing import MetricCase, TaskCase, check_metric, check_task
from bench_core import Hypothesis, Prediction, Purpose, Rng, Size, SuiteError, TaskInfo
from bench_core.commands.main import bench
from bench_indigo.right_orders import right
from bench_order_controls import needs as module
from bench_order_controls.control import shuffled
from bench_order_controls.folds import latin_square
from bench_order_controls.needs import RULES, chain, fold_needs, is_right, peers, sudoku_needs
from bench_order_controls.plugin import (
    LatinFoldsConfig,
    RightOrderConfig,
    StarGraphsConfig,
    SudokuConfig,
    bench_tasks,
)
from bench_order_controls.right_order import RightOrder
from bench_order_controls.sudoku import grids
from bench_word_order.plugin import WordOrderConfig

FEW = {"examples": 40, "held_out": 6}
CONTROLS = [
    LatinFoldsConfig(**FEW, digits=4, most=5),
    LatinFoldsConfig(**FEW, digits=4, most=4, direction="prefix"),
    LatinFoldsConfig(**FEW, digits=4, most=4, direction="either"),
    StarGraphsConfig(**FEW, arms=3, most=4),
    SudokuConfig(**FEW, most=9),
]
every = pytest.mark.parametrize("config", CONTROLS, ids=lambda config: f"{config.name}-{config.most}")


def prepared(config, folder):
    task = config.load()(config, folder)
    return task, task.prepare(folder)


def puzzles(config, length, number=20, folder=None):
    task, rng = config.load()(config, folder), Random(5)
    return [task.puzzle(rng, length) for _ in range(number)]


@every
def test_a_control_keeps_all_contracts_of_tasks(config, tmp_path):
    assert check_task(TaskCase.of(config, tmp_path, tmp_path))


@every
def test_training_has_all_lengths_and_other_splits_the_longest(config, tmp_path):
    task, info = prepared(config, tmp_path)
    lengths = {
        split: {
            length - 1 for batch in task.batches(split, Purpose.SCORE, Size(9)) for length in batch.length.tolist()
        }
        for split in ("train", "valid", "test")
    }
    longest = {config.most}
    assert lengths == {"train": {*range(config.least, config.most + 1)}, "valid": longest, "test": longest}
    assert all(
        statistics["unknown" if "unknown" in statistics else "target_unknown"] == 0
        for statistics in info.extras["statistics"].values()
    )


def test_a_batch_has_targets_of_all_lengths(tmp_path):
    task, _ = prepared(LatinFoldsConfig(examples=300, held_out=5), tmp_path)
    for batch in task.batches("train", Purpose.TRAIN, Size(100), Rng(1)):
        assert {*batch.length.tolist()} == {3, 4, 5, 6, 7}


def test_no_source_of_another_split_is_in_training(tmp_path):
    task, _ = prepared(LatinFoldsConfig(examples=2000, held_out=50, digits=4, most=4), tmp_path)
    train, valid, test = ({*task.sources(split).values()} for split in ("train", "valid", "test"))
    assert len(train) > 150
    assert not train & (valid | test)


@every
def test_the_order_of_a_task_is_right_and_its_reverse_is_wrong(config):
    for puzzle in puzzles(config, config.most):
        found = RULES[config.name](puzzle.source, puzzle.target)
        assert is_right(found, puzzle.order)
        assert config.name == "small-sudoku" or not is_right(found, [*puzzle.order][::-1])


def test_the_order_matters_in_most_long_sudokus():
    config, rng, number = SudokuConfig(), Random(2), 200
    found = [(RULES[config.name](puzzle.source, puzzle.target), puzzle) for puzzle in puzzles(config, 11, number)]
    assert sum(is_right(needs, [*puzzle.order][::-1]) for needs, puzzle in found) < 0.2 * number
    assert sum(is_right(needs, range(11)) for needs, _ in found) < 0.2 * number
    assert sum(is_right(needs, shuffled(rng, 11)) for needs, _ in found) < 0.1 * number


@every
def test_tensors_and_lists_agree_on_every_order(config, tmp_path):
    task, _ = prepared(config.model_copy(update={"most": 4}), tmp_path)
    (batch,) = task.batches("train", Purpose.SCORE, Size(40))
    texts, seen = task.sources("train"), set()
    for row in range(len(batch)):
        number = int(batch.length[row]) - 1
        target = task.text(batch.gold[row, :number].tolist()).split()
        orders = [*permutations(range(number))]
        width = batch.gold.shape[1]
        table = torch.tensor([[*order, *range(number, width)] for order in orders])[None]
        found = RULES[config.name](texts[int(batch.ids[row])], target)
        wanted = [is_right(found, order) for order in orders]
        assert right(batch.extras["needs"][[row]], table)[0].tolist() == wanted
        assert wanted[orders.index(tuple(batch.extras["order"][row, :number].tolist()))]
        seen |= {*wanted}
    assert seen == {True, False}


@pytest.mark.parametrize("number", range(2, 7))
def test_as_many_orders_of_a_chain_are_right_as_it_has_tokens(number):
    for places in ([*range(number)], [*range(number)][::-1]):
        rights = [order for order in permutations(range(number)) if is_right(chain(places), order)]
        assert len(rights) == number
        assert all([place for place in order if place != places[0]] == places[1:] for order in rights)


def test_a_fold_follows_its_table():
    config = LatinFoldsConfig(digits=5)
    task = config.load()(config, None)
    for is_suffix in (True, False):
        config = LatinFoldsConfig(digits=5, direction="suffix" if is_suffix else "prefix")
        for puzzle in puzzles(config, 6):
            *digits, mark = puzzle.source.split()
            assert mark == ("<suffix>" if is_suffix else "<prefix>")
            assert [word.split(":")[0] for word in digits] == [word.split(":")[0] for word in puzzle.target]
            pairs = [(int(c.split(":")[1]), int(s.split(":")[1])) for c, s in zip(digits, puzzle.target, strict=True)]
            pairs = pairs[::-1] if is_suffix else pairs
            assert pairs[0][0] == pairs[0][1]
            for (_, before), (digit, state) in pairwise(pairs):
                assert state == task.table[digit][before]


def test_shorter_suffix_folds_have_the_last_places_and_prefix_folds_the_first():
    for direction, wanted in (("suffix", ["4", "5"]), ("prefix", ["0", "1"])):
        (puzzle,) = puzzles(LatinFoldsConfig(direction=direction), 2, 1)
        assert [word.split(":")[0] for word in puzzle.target] == wanted


def test_either_direction_occurs():
    marks = [puzzle.source.split()[-1] for puzzle in puzzles(LatinFoldsConfig(direction="either"), 3, 40)]
    assert 8 < marks.count("<suffix>") < 32


@pytest.mark.parametrize("side", [2, 3, 8, 10])
def test_a_latin_square_has_every_value_once_in_each_row_and_column(side):
    square = latin_square(Random(3), side)
    values = {*range(side)}
    assert all({*row} == values for row in square)
    assert all({*column} == values for column in zip(*square, strict=True))


def test_a_path_leads_from_the_centre_to_the_goal_and_features_have_its_edges(tmp_path):
    config = StarGraphsConfig(**FEW, arms=3, most=4)
    task, info = prepared(config, tmp_path)
    assert info.source_shape == (12, 27)
    for batch in task.batches("train", Purpose.SCORE, Size(7)):
        for row, (features, length) in enumerate(zip(batch.source, batch.length.tolist(), strict=True)):
            path = [int(word) for word in task.text(batch.gold[row, : length - 1].tolist()).split()]
            edges = [each for each in features if each.any()]
            tails, heads = ([int(each[part].argmax()) for each in edges] for part in (slice(0, 13), slice(13, 26)))
            goals = [each[26].item() for each in edges]
            assert len(edges) == 3 * (length - 1)
            assert [head for head, goal in zip(heads, goals, strict=True) if goal] == [path[-1]]
            above = dict(zip(heads, tails, strict=True))
            assert [above[node] for node in path[1:]] == path[:-1]
            assert tails.count(above[path[0]]) == 3
            assert all(
                {*each[part].tolist()} == {0.0, 5.0} for each in edges for part in (slice(0, 13), slice(13, 26))
            )


def test_there_are_288_grids_of_16_cells():
    assert len(grids()) == len({*grids()}) == 288
    assert all(grid[cell] != grid[peer] for grid in grids() for cell in range(16) for peer in peers(cell))
    assert {len(peers(cell)) for cell in range(16)} == {7}


def test_a_sudoku_has_one_solution_and_needs_are_those_of_its_rules():
    for puzzle in puzzles(SudokuConfig(), 5, 30):
        clues = dict(map(int, word.split(":")) for word in puzzle.source.split())
        cells = [tuple(map(int, word.split(":"))) for word in puzzle.target]
        solutions = [grid for grid in grids() if all(grid[cell] == value for cell, value in clues.items())]
        assert [all(grid[cell] == value for cell, value in cells) for grid in solutions] == [True]
        found = sudoku_needs(puzzle.source, puzzle.target)
        for order in permutations(range(5)):
            known = dict(clues)
            wanted = True
            for place in order:
                cell, value = cells[place]
                wanted &= {known[peer] for peer in peers(cell) if peer in known} == {*range(4)} - {value}
                known[cell] = value
            assert is_right(found, order) == wanted


def test_the_given_order_of_a_sudoku_goes_to_the_first_determined_cell():
    for puzzle in puzzles(SudokuConfig(), 8, 20):
        needs = sudoku_needs(puzzle.source, puzzle.target)
        for turn, place in enumerate(puzzle.order):
            done = puzzle.order[:turn]
            ready = [other for other in range(place) if other not in done]
            assert not any(
                is_right([need for need in needs if need.place == other], [*done, other]) for other in ready
            )


def predicted(puzzle, order, number=0, tokens=None):
    """Return the prediction of a model that inserts the target in an order."""
    length = len(order) if tokens is None else tokens
    actions = []
    for turn, place in enumerate(order):
        actions += [place + 1, 1 + sum(before < place for before in order[:turn])]
    hypothesis = Hypothesis([*range(1, length + 1)], True, actions=actions)
    return Prediction(number, puzzle.source, [" ".join(puzzle.target)], [hypothesis], ["?"])


def metric_of(config):
    return RightOrder(RightOrderConfig()).prepare(TaskInfo(["<stop>"], extras={"control": config.name}), {})


def scores_of(config, order_of):
    metric = metric_of(config)
    return metric.combine(
        [*metric.measure([predicted(each, order_of(each)) for each in puzzles(config, config.most)])]
    )


def right_orders_count_fully_and_wrong_orders_not_at_all(config):
    assert scores_of(config, lambda puzzle: [*puzzle.order]) == 100
    assert scores_of(config, lambda puzzle: [*puzzle.order][::-1]) <= (50 if config.name == "small-sudoku" else 0)


@every
def test_right_orders_count_fully_and_wrong_orders_not_at_all(config):
    right_orders_count_fully_and_wrong_orders_not_at_all(config)


MUTANTS = {
    "the predicate accepts the reverse": lambda needs, order: is_right(needs, order) or is_right(needs, order[::-1]),
    "the predicate takes only the reverse": lambda needs, order: is_right(needs, order[::-1]),
    "places are turns": lambda needs, order: is_right(
        needs, [order.index(place) for place in range(len(order))][::-1]
    ),
    "every order is right": lambda needs, order: True,
    "the last need is ignored": lambda needs, order: is_right(needs[:0], order),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_that_law_catches_its_mutants(monkeypatch, mutant):
    monkeypatch.setattr("bench_order_controls.right_order.is_right", MUTANTS[mutant])
    with pytest.raises(AssertionError):
        right_orders_count_fully_and_wrong_orders_not_at_all(CONTROLS[0])


def test_outputs_of_another_length_are_not_right():
    (puzzle,) = puzzles(CONTROLS[1], 4, 1)
    metric = metric_of(CONTROLS[1])
    assert [*metric.measure([predicted(puzzle, [0, 1, 2]), predicted(puzzle, [0, 1, 2, 3])])] == [0, 1]


def test_as_many_orders_are_right_by_chance_as_the_rule_says():
    config = LatinFoldsConfig(most=4)
    (puzzle,) = puzzles(config, 4, 1)
    metric = metric_of(config)
    parts = [*metric.measure([predicted(puzzle, order) for order in permutations(range(4))])]
    assert metric.combine(parts) == pytest.approx(100 * 4 / factorial(4))


def test_a_model_that_writes_from_the_left_has_the_right_order_of_prefix_folds_alone():
    for direction, wanted in (("prefix", 1), ("suffix", 0)):
        config = LatinFoldsConfig(direction=direction)
        (puzzle,) = puzzles(config, 6, 1)
        tokens = [3, 1, 4, 1, 5, 2]
        row = Prediction(
            0, puzzle.source, [" ".join(puzzle.target)], [Hypothesis(tokens, True, actions=tokens)], [""]
        )
        assert [*metric_of(config).measure([row])] == [wanted]


def test_outputs_without_an_order_are_refused():
    (puzzle,) = puzzles(CONTROLS[0], 3, 1)
    row = Prediction(0, puzzle.source, [" ".join(puzzle.target)], [Hypothesis([1, 2, 3], True)], [""])
    with pytest.raises(SuiteError, match="the generation order of example 0 is unknown"):
        [*metric_of(CONTROLS[0]).measure([row])]


@every
def test_the_metric_keeps_all_contracts(config):
    rows = [
        predicted(puzzle, [*puzzle.order][:: 1 if number % 3 else -1], number)
        for number, puzzle in enumerate(puzzles(config, config.most, 9))
    ]
    info = TaskInfo(["<stop>"], extras={"control": config.name})
    assert check_metric(MetricCase.of(RightOrderConfig(), rows, info=info))


def test_other_tasks_have_no_right_orders():
    assert "latin-folds" in (RightOrderConfig().refusal(WordOrderConfig()) or "")
    assert all(RightOrderConfig().refusal(config()) is None for config in bench_tasks())
    with pytest.raises(SuiteError, match="right orders are known"):
        RightOrder(RightOrderConfig()).prepare(TaskInfo(["<stop>"]), {})
    assert {config.name for config in bench_tasks()} == {*module.RULES}


@pytest.mark.parametrize(
    ("config", "settings", "told"),
    [
        (LatinFoldsConfig, {"least": 5, "most": 4}, r"`least` \(5\) must be at most `most` \(4\)"),
        (LatinFoldsConfig, {"most": 30}, "less than or equal to 24"),
        (LatinFoldsConfig, {"digits": 1}, "greater than or equal to 2"),
        (SudokuConfig, {"most": 13}, "less than or equal to 12"),
        (StarGraphsConfig, {"arms": 1}, "greater than or equal to 2"),
        (LatinFoldsConfig, {"direction": "left"}, "Input should be"),
    ],
)
def test_settings_without_a_meaning_are_refused(config, settings, told):
    with pytest.raises(ValidationError, match=told):
        config(**settings)


def test_the_face_of_the_plugin_imports_no_torch():
    code = (
        "import sys, bench_order_controls.plugin, bench_order_controls.right_order; "
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_folds_need_their_own_direction():
    assert fold_needs("0:1 1:1 2:1 <suffix>", "abc") != fold_needs("0:1 1:1 2:1 <prefix>", "abc")


SUITE = """\
suite: few
tasks:
  folds: {{name: latin-folds, most: {most}}}
  other: {{name: small-sudoku}}
models:
  many: {{name: indigo, order: given}}
  few: {{name: indigo, order: l2r, training: {{updates: 100}}}}
  phased: {{name: indigo, order: searched, training: {{phases: [{{updates: 40, order: l2r}}, {{updates: 50}}]}}}}
decoders:
  greedy: {{name: greedy}}
metrics:
  exact: {{name: exact-match}}
training: {{updates: 1000, batch_size: 100, select: {{metric: loss}}}}
"""


@pytest.mark.parametrize(("most", "warns"), [(3, False), (6, True)])
def test_a_length_that_planned_updates_cannot_cover_is_warned_of_at_its_task(tmp_path, monkeypatch, most, warns):
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(SUITE.format(most=most))
    found = CliRunner().invoke(bench, ["check", "suite.yaml"], standalone_mode=False)
    assert found.return_value == 0, found.stderr
    wanted = (
        "suite.yaml:3:3: warning: the planned updates of 'few', 'phased' read 9,000 rows or more, but targets of 6 tokens "
        "look up 320 table entries, which take about 16,000 rows to learn. Increase `updates`, or reduce `most`.\n"
    )
    assert (wanted in found.stderr) == warns, found.stderr
    assert ("warning" in found.stderr) == warns


BAD = {
    "a rise that does not ascend": ("weights: annealed, anneal: [0.6, 0.3]", 7, "`anneal` must ascend"),
    "weights of a fixed order": ("order: l2r, weights: posterior", 7, "Set `weights` only with `order: searched`"),
    "weights of a phase with a fixed order": (
        "training: {phases: [{order: l2r, weights: posterior, updates: 3}]}", 7, "Set `weights` only with `order: searched`"
    ),
    "a rise of a phase": (
        "training: {phases: [{weights: annealed, anneal: [0.9, 0.3], updates: 3}]}", 7, "`anneal` must ascend"
    ),
    "a share above 1": ("training: {phases: [{weights: annealed, anneal: [0.9, 3], updates: 3}]}", 7, "at most 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_weights_that_cannot_be_are_refused_at_their_place(tmp_path, monkeypatch, name):
    written, line, words = BAD[name]
    monkeypatch.chdir(tmp_path)
    text = SUITE.format(most=3).replace("order: l2r, training: {updates: 100}", written)
    Path("suite.yaml").write_text(text)
    found = CliRunner().invoke(bench, ["check", "suite.yaml"], standalone_mode=False)
    (said,) = (line for line in found.stderr.splitlines() if "warning" not in line)
    assert found.return_value == 2
    assert said.startswith(f"suite.yaml:{line}:"), said
    assert words in said
