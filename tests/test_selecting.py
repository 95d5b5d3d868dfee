"""Cells are selected by the same words in every command."""

from __future__ import annotations

import random
from itertools import product

import pytest

from bench_core import SuiteError
from bench_core.planning.plan import Plan
from bench_core.runs.plan_filter import restrict
from bench_core.runs.selecting import cell_name, chosen
from bench_core.suites.axes import AXES
from bench_core.suites.cells import Cell

NAMES = {
    "task": ["words", "news"],
    "model": ["lstm/tied=true", "lstm/tied=false", "rnn"],
    "decoder": ["greedy", "beam-2", None],
    "split": ["test", "valid"],
    "hardware": ["default"],
    "seed": [0, 1, 10],
}
CELLS = [Cell(*names) for names in product(*NAMES.values())]


def axes(cell):
    return cell.axes


def asked(rng):
    """Return random filters and words, and how cells pass each."""
    found = []
    for axis in rng.sample([*NAMES], rng.randint(1, 3)):
        name = rng.choice(NAMES[axis])
        if axis in ("split", "decoder", "task") and name is not None and rng.random() < 0.5:
            found.append((str(name), lambda cell, axis=axis, name=name: cell.axes[axis] == name))
        elif axis == "seed" and rng.random() < 0.5:
            found.append((f"seed {name}", lambda cell, name=name: cell.seed == name))
        else:
            shown = "none" if name is None else name
            found.append((f"{axis}={shown}", lambda cell, axis=axis, name=name: cell.axes[axis] == name))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_filters_and_words_together_select_the_cells_that_pass_all_of_them(seed):
    several = asked(random.Random(seed))
    wanted = [cell for cell in CELLS if all(passes(cell) for _, passes in several)]
    assert chosen(CELLS, axes, ",".join(text for text, _ in several)) == wanted
    assert len(wanted) < len(CELLS) or "default" in str(several)


@pytest.mark.parametrize("seed", range(20))
def test_only_twice_is_only_once_with_a_comma(seed):
    several = [text for text, _ in asked(random.Random(seed))]
    whole = Plan(CELLS, {cell: {} for cell in CELLS}, {}, {}, {})
    assert restrict(whole, several).of_cell == restrict(whole, [",".join(several)]).of_cell


@pytest.mark.parametrize("cell", CELLS[:: len(CELLS) // 9])
def test_the_name_of_a_cell_selects_it_and_those_alone_whose_names_have_all_its_words(cell):
    found = chosen(CELLS, axes, cell_name(cell.axes))
    assert cell in found
    assert {one.seed for one in found} == {cell.seed}
    assert {one.model for one in found} == {cell.model}


def test_names_and_axes_may_be_abbreviated():
    assert chosen(CELLS, axes, "mod=rn,dec=beam") == chosen(CELLS, axes, "model=rnn,decoder=beam-2")


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("lstm/gredy", "no cell is called 'lstm/gredy'. Did you mean 'greedy'"),
        ("modle=rnn", "no axis of these cells is called 'modle'. Did you mean 'model'"),
        ("model=rnm", "no model of these cells is called 'rnm'. Did you mean 'rnn'"),
        ("seed=2", "no seed of these cells is called '2'"),
        ("model=rnn,model=lstm/tied=true", "no model of these cells is called"),
        ("rnn,tied=true", "no cell is called"),
    ],
)
def test_what_selects_nothing_is_an_error_with_what_there_is(which, message):
    with pytest.raises(SuiteError) as error:
        chosen(CELLS, axes, which)
    assert message in str(error.value)
    assert tuple(NAMES) == AXES
