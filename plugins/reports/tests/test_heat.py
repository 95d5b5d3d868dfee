"""Heat maps: what stands in which place of a matrix, in which shade, and what is said of places without a number."""

from __future__ import annotations

import csv
import re
from itertools import pairwise, product
from math import inf, nan, sqrt
from xml.etree import ElementTree

import pytest
from bench_small.runs import cell, number, run_of, with_sections, written
from bench_small.suites import SUITE

import bench_core
from bench_core.errors import SuiteError
from bench_core.suites.load import load
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.figures.figures import pictures
from bench_reports.language.figure_schema import Figure

SPACE = "{http://www.w3.org/2000/svg}"


def heat_run(tmp_path, cells, names=("rnn", "lstm"), skip=(), **figure):
    run = run_of(tmp_path, cells, {}, names=names, skip=skip)
    about = {"id": "f", "kind": "heat", "x": "decoder", "y": "model", "value": "rate", **figure}
    return with_sections(run, figures=[Figure.model_validate(about)])


def cells_of(values):
    """Return a cell for each value, by model, decoder and seed."""
    return [cell(*place, {"rate": number(value)}) for place, value in values.items()]


def the_picture(run):
    (picture,) = pictures(run)
    return picture


def matrix(run):
    return {(one.label, tile.x): tile for one in the_picture(run).series for tile in one.rows}


def texts(run):
    tree = ElementTree.fromstring(draw(the_picture(run))["svg"])
    return [text.text for text in tree.iter(f"{SPACE}text")]


def shades(run):
    """Return the colours of the tiles, row by row, each as the light that it gives back."""
    tree = ElementTree.fromstring(draw(the_picture(run))["svg"])
    found = []
    for group in tree.iter(f"{SPACE}g"):
        if re.fullmatch(r"patch_\d+", group.get("id", "")):
            style = group.find(f"{SPACE}path").get("style")
            if "stroke: #cccccc" in style:
                red, green, blue = (int(part, 16) for part in re.search("fill: #(..)(..)(..)", style).groups())
                found.append(round((0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255, 6))
    return found


SQUARE = {(m, d, s): 10.0 * i + j + s for (i, m), (j, d), s in product(
    enumerate(["rnn", "lstm"]), enumerate(["greedy", "beam"]), (0, 2)
)}  # fmt: skip


def test_a_place_has_the_mean_over_seeds_of_its_row_and_column(tmp_path):
    run = heat_run(tmp_path, cells_of(SQUARE))
    means = {place: (tile.mean, tile.std, tile.seeds) for place, tile in matrix(run).items()}
    deviation = pytest.approx(sqrt(2))
    assert means == {
        ("rnn", "greedy"): (1.0, deviation, 2), ("rnn", "beam"): (2.0, deviation, 2),
        ("lstm", "greedy"): (11.0, deviation, 2), ("lstm", "beam"): (12.0, deviation, 2),
    }  # fmt: skip
    rows = list(csv.DictReader(written(run, tmp_path / "report")["figures/f.csv"].decode().splitlines()))
    assert [(row["series"], row["x"], float(row["mean"]), row["status"]) for row in rows] == [
        (*place, mean, "done") for place, (mean, *_) in means.items()
    ]
    assert figure_notes(run, the_picture(run))[:2] == [
        "Mean ± standard deviation over 2 seeds.",
        "Darker tiles have higher values.",
    ]


def test_rows_and_columns_change_places_with_x_and_y(tmp_path):
    ours, turned = (heat_run(tmp_path, cells_of(SQUARE), **sides) for sides in ({}, {"x": "model", "y": "decoder"}))
    assert {(column, row): replaced(tile) for (row, column), tile in matrix(turned).items()} == {
        place: replaced(tile) for place, tile in matrix(ours).items()
    }
    assert [one.label for one in the_picture(turned).series] == ["greedy", "beam"]


def replaced(tile):
    return tile._replace(x="")


def test_every_number_is_written_into_its_tile(tmp_path):
    found = texts(heat_run(tmp_path, cells_of(SQUARE)))
    assert {"1.00", "2.00", "11.00", "12.00", "rnn", "lstm", "greedy", "beam", "model", "decoder", "rate (%)"} <= {
        *found
    }
    assert found.count("± 1.41") == 4


def test_a_higher_number_is_darker_and_letters_stand_out(tmp_path):
    values = {
        ("rnn", "greedy", 0): 1.0,
        ("rnn", "beam", 0): 3.0,
        ("lstm", "greedy", 0): 9.0,
        ("lstm", "beam", 0): 27.0,
    }
    linear, log = (shades(heat_run(tmp_path, cells_of(values), scale=scale)) for scale in ("linear", "log"))
    for found in (linear, log):
        assert len(found) == 4
        assert all(one > other for one, other in pairwise(found))
        assert found[0] < 0.99, "the least number is not white, which no number is"
    assert linear[1] > log[1], "by the logarithm, 3 is a third of the way from 1 to 27"
    run = heat_run(tmp_path, cells_of(values))
    svg = draw(the_picture(run))["svg"].decode()
    dark, light = svg.index(">27.00<"), svg.index(">1.00<")
    assert "fill: #ffffff" in svg[svg.rindex("<g id", 0, dark) : dark]
    assert "fill: #ffffff" not in svg[svg.rindex("<g id", 0, light) : light]


def test_numbers_that_are_alike_have_one_shade(tmp_path):
    found = shades(heat_run(tmp_path, cells_of(dict.fromkeys(SQUARE, 5.0))))
    assert len(set(found)) == 1


def test_places_without_a_number_are_white_and_say_why(tmp_path):
    cells = [
        *cells_of({("rnn", "greedy", 0): 1.0}),
        cell("rnn", "beam", 0, status="failed", reason="out of luck"),
        cell("lstm", "greedy", 0, status="not run", reason="interrupted"),
    ]
    run = heat_run(tmp_path, cells)
    assert [tile.status for tile in matrix(run).values()] == ["done", "failed", "not run", "none"]
    assert shades(run)[1:] == [1.0, 1.0, 1.0]
    assert {"1.00", "failed", "not run", "–"} <= {*texts(run)}
    notes = figure_notes(run, the_picture(run))
    assert "–: 1 of 4 tiles have no cell with this metric." in notes
    assert "Left out: words/rnn/beam/test, seed 0: out of luck." in notes
    assert "Left out: words/lstm/greedy/test, seed 0: interrupted." in notes


def test_a_metric_left_out_on_purpose_is_not_missed(tmp_path):
    run = heat_run(tmp_path, cells_of(SQUARE), skip=[{"model": "lstm", "decoder": "beam", "metric": "rate"}])
    assert matrix(run)["lstm", "beam"].status == "none"
    assert not any(note.startswith("Left out") for note in figure_notes(run, the_picture(run)))


@pytest.mark.slow
def test_numbers_without_a_place_among_the_colours_are_written_all_the_same(tmp_path):
    values = {
        ("rnn", "greedy", 0): 1.0,
        ("rnn", "beam", 0): inf,
        ("lstm", "greedy", 0): nan,
        ("lstm", "beam", 0): -1.0,
    }
    for scale, white, why in (
        ("linear", 2, "infinite or undefined"),
        ("log", 3, "infinite, undefined, or not above 0"),
    ):
        run = heat_run(tmp_path, cells_of(values), scale=scale)
        assert shades(run).count(1.0) == white
        assert {"1.00", "∞", "−1.00"} <= {*texts(run)}
        assert f"{white} of 4 tiles have a number but no colour ({why})." in figure_notes(run, the_picture(run))
    for huge in (1e300, -1e300):
        assert shades(heat_run(tmp_path, cells_of({("rnn", "greedy", 0): huge, ("rnn", "beam", 0): 1.0})))


def test_numbers_of_two_signatures_share_no_matrix(tmp_path):
    cells = [cell(m, "greedy", 0, {"rate": number(1.0, signature=m)}) for m in ("rnn", "lstm")]
    assert "several kinds or signatures" in the_picture(heat_run(tmp_path, cells)).empty


def test_a_matrix_of_which_nothing_ran_is_not_drawn(tmp_path):
    run = heat_run(tmp_path, [cell("rnn", "greedy", 0, status="not run", reason="interrupted")])
    assert the_picture(run).empty == "none of its cells has anything to draw."
    assert the_picture(heat_run(tmp_path, [])).empty == "the run has no cells for it."
    assert the_picture(heat_run(tmp_path, cells_of(SQUARE), value="rats")).empty == "the run does not measure rats."


def test_letters_grow_smaller_where_there_are_many_columns(tmp_path):
    names = [f"a-model-with-a-name-{place}" for place in range(24)]
    run = heat_run(tmp_path, cells_of({(one, "greedy", 0): 1234.5 for one in names}), names, x="model", y="decoder")
    svg = draw(the_picture(run))["svg"].decode()
    size = float(re.search(r"font-size: ([\d.]+)px[^>]*>1234<", svg)[1])
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1])
    assert 24 * 4 * 0.55 * size < width
    assert f">{names[-1]}<" in svg


@pytest.mark.slow
def test_numbers_that_would_be_too_small_to_read_are_shortened_and_a_note_says_so(tmp_path):
    names = [f"m{place}" for place in range(12)]
    values = {(one, "greedy", seed): -81234.5 + 7 * seed for one in names for seed in (0, 1)}
    run = heat_run(tmp_path, cells_of(values), names, x="model", y="decoder", width="column")
    svg = draw(the_picture(run))["svg"].decode()
    sizes = {float(size) for size in re.findall(r"font-size: ([\d.]+)px[^>]*>−(?:81231|8.1e4)<", svg)}
    assert min(sizes) > 3.5, "of 12 columns at 3.25 inches"
    assert any("shortened" in note for note in figure_notes(run, the_picture(run)))
    few = {place: value for place, value in values.items() if place[0] in names[:3]}
    run = heat_run(tmp_path, cells_of(few), names[:3], x="model", y="decoder", width="column")
    assert "−81231.00" in texts(run)
    assert "± 4.95" in texts(run)
    assert not any("shortened" in note for note in figure_notes(run, the_picture(run)))
    four = heat_run(tmp_path, cells_of({(one, "greedy", 0): 0.5 for one in names}), names, x="model", y="decoder")
    assert texts(four).count("0.50") == 12, "what can be read is written in full"


GRID = SUITE.replace(
    "{name: bigram, scale: 2.0}", "{name: bigram, grid: {scale: [2.0, 3.0], training.lr: [0.1, 0.2]}}"
)
HEAT = "id: f, kind: heat, x: model.scale, y: model.training.lr, value: ended"


def with_figure(text, figure):
    return text.replace("profiles:", f"figures:\n  - {{{figure}}}\nprofiles:")


@pytest.mark.slow
def test_settings_of_a_grid_make_a_matrix(suite_file, tmp_path):
    text = with_figure(GRID, f"{HEAT}, where: {{model: two, decoder: argmax}}")
    run = bench_core.run(suite_file(text), "tiny", store=tmp_path / "store", out=tmp_path / "runs")
    assert [*matrix(run)] == [("0.1", "2.0"), ("0.1", "3.0"), ("0.2", "2.0"), ("0.2", "3.0")]
    for (rate, scale), tile in matrix(run).items():
        name = f"two/scale={scale}/training.lr={rate}"
        (own,) = [one for one in run.cells if (one.cell["model"], one.cell["decoder"]) == (name, "argmax")]
        assert tile.mean == own.numbers["ended"].value


@pytest.mark.parametrize(
    ("text", "figure", "message"),
    [
        (SUITE, "id: f, kind: heat, x: model, y: decoder", "a heat map needs `x` and `y` and `value`"),
        (SUITE, "id: f, kind: heat, x: model, y: decoder, value: endde", "no metric of this suite is called 'endde'. Did you mean 'ended'"),
        (SUITE, "id: f, kind: heat, x: model, y: decoder, value: ended, by: task", "a heat map has no `by`"),
        (SUITE, "id: f, kind: heat, x: model, y: decoder, values: [ended], value: nats", "a heat map has no `values`"),
        (SUITE, "id: f, kind: heat, x: model, y: model, value: ended", "must differ"),
        (SUITE, "id: f, kind: heat, x: modle, y: decoder, value: ended", "x and y of a heat map are axes or settings such as `model.hidden`; 'modle' is neither. Did you mean 'model'?"),
        (SUITE, "id: f, kind: heat, x: seed, y: decoder, value: ended", "they have no seed axis"),
        (SUITE, "id: f, kind: heat, x: split.a, y: decoder, value: ended", "a setting belongs to a task, model, decoder or training"),
        (SUITE, "id: f, kind: heat, x: model., y: decoder, value: ended", "a setting belongs to a task, model, decoder or training"),
        (SUITE, "id: f, kind: heat, x: model, y: decoder, value: ended, scale: {x: log}", "must be `linear` or `log`"),
        (SUITE, "id: f, kind: heat, x: model, y: task, value: ended", "does not say which decoder: argmax, draw. Make it x or y, or select"),
        (SUITE, "id: f, kind: heat, x: model.scale, y: decoder, value: ended", "model 'one' has no value for 'scale'. Set one"),
        (GRID, "id: f, kind: heat, x: model.scale, y: decoder, value: ended, where: {model: two}", "'two/scale=2.0/training.lr=0.1' and 'two/scale=2.0/training.lr=0.2' have the same place in figure 'f': 2.0."),
        (SUITE, "id: f, kind: box, values: [ended], by: [model, decoder], value: nats", "a box has no `value`; it is drawn from values"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_heat_map_is_told_with_place_and_remedy(suite_file, text, figure, message):
    text = with_figure(text, figure)
    with pytest.raises(SuiteError) as error:
        load(suite_file(text))
    assert message in str(error.value)
    assert re.search(rf"suite.yaml:{text[: text.index('figures:')].count(chr(10)) + 2}:\d+: ", str(error.value))
