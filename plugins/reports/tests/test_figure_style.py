"""How figures look in print: letters, colours, numbers on axes, and names that do not collide."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from bench_small.figures import beyond, canvas_of, measured, overlapping, plotted, texts, the_picture

from bench_reports.figures import style
from bench_reports.figures.drawing import draw
from bench_reports.figures.naming import columns_of, distinct
from bench_reports.figures.tick_text import EXACT, tick_text
from bench_reports.figures.ticks import digits_of

#: How deuteranopes and protanopes see linear RGB (Machado, Oliveira and Fernandes, 2009, severity 1).
SIGHT = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}


def lab(colour, sight="full"):
    """Return a colour as CIE L*a*b*, as somebody sees it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    seen = [min(1, max(0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in SIGHT[sight]]
    matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    xyz = [sum(a * b for a, b in zip(row, seen, strict=True)) / one for row, one in zip(matrix, white, strict=True)]
    f = [value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_by_everybody(sight):
    for one, other in combinations(style.COLOURS, 2):
        assert math.dist(lab(one, sight), lab(other, sight)) > 12
    for one, other in combinations(style.COLOURS[:4], 2):
        assert math.dist(lab(one, sight), lab(other, sight)) > 40


def test_the_first_four_colours_and_all_neighbours_differ_in_grey_too():
    light = [lab(colour)[0] for colour in style.COLOURS]
    assert all(abs(one - other) > 15 for one, other in combinations(light[:4], 2))
    assert all(abs(one - other) > 3 for one, other in pairwise(light))


def test_no_two_of_forty_series_look_alike_in_grey():
    for looks in (style.marker_style, style.dash_style, style.hatch_style):
        found = [{**looks(number)} for number in range(40)]
        for one in found:
            one["light"] = round(lab(one.pop("color", None) or one.pop("facecolor"))[0])
        assert len({str(one) for one in found}) >= 35
    both = [str({**style.marker_style(number), **style.dash_style(number), "color": ""}) for number in range(40)]
    assert len(set(both)) == 40


def test_letters_in_the_colour_of_a_series_are_dark_enough_to_read():
    for number in range(len(style.COLOURS)):
        assert style.lightness(style.ink(number)) <= 0.42
        if style.lightness(style.colour(number)) <= 0.4:
            assert style.ink(number) == style.colour(number)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (10_000, "10,000"), (1_000_000, "1,000,000"), (1e7, "10⁷"), (2e8, "2×10⁸"), (-2.5e9, "−2.5×10⁹"),
        (0.5, "0.5"), (0.0001, "0.0001"), (5e-5, "5×10⁻⁵"), (1e56, "10⁵⁶"), (0.1 + 0.2, "0.3"), (-3, "−3"), (1e308, "10³⁰⁸"),
        (math.inf, ""), (math.nan, ""),
    ],
)  # fmt: skip
def test_numbers_on_axes(value, text):
    assert tick_text(value) == text


def test_a_number_of_a_suite_is_written_so_that_it_can_be_read_back():
    draw = random.Random(0)
    back = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
    for _ in range(500):
        value = float(f"{draw.uniform(-10, 10) * 10 ** draw.randint(-200, 200):.8g}")
        text = tick_text(value, EXACT).replace(",", "")
        parts = re.fullmatch(r"(−?)(?:([\d.]+)×)?10([⁻⁰¹²³⁴-⁹]+)", text)
        if parts:
            sign, factor, power = parts.groups()
            found = (-1 if sign else 1) * float(factor or 1) * 10.0 ** int(power.translate(back))
        else:
            found = float(text.translate(back))
        assert found == pytest.approx(value, rel=1e-9)


def test_neighbouring_ticks_never_have_one_text():
    for start, step in ((1000, 0.001), (0, 1e-7), (123_456, 0.5), (1e9, 1), (-5, 2.5)):
        ticks = [start + step * place for place in range(6)]
        digits = digits_of(ticks)
        assert len({tick_text(tick, digits) for tick in ticks}) == 6


DECODERS = {f"beam-{width}": {"width": width} for width in (1, 2, 4, 8, 16)}
CURVES = {"kind": "line", "x": "decoder.width", "y": "rate", "by": "model", "scale": {"x": "log"}, "width": "column"}


def lines(tmp_path, ends, names=None, **figure):
    """Return a run with a line for each of the `ends`, of their heights at the right."""
    names = names or [f"model-{place}" for place in range(len(ends))]
    values = {
        (name, decoder, 0): end - 10 + 2.5 * place
        for name, end in zip(names, ends, strict=True)
        for place, decoder in enumerate(DECODERS)
    }
    return plotted(
        tmp_path, measured(values, units=[""]), {name: {} for name in names}, DECODERS, **{**CURVES, **figure}
    )


def test_names_stand_at_the_ends_of_lines_where_they_fit(tmp_path):
    run = lines(tmp_path, [10, 20, 21, 30, 40])
    canvas = canvas_of(run)
    names = [one.label for one in the_picture(run).series]
    assert not canvas.legends
    assert {text for text, _ in texts(canvas)} >= {*names}
    assert overlapping(canvas, names) == []
    frame = canvas.axes[0].get_window_extent()
    found = {text: box for text, box in texts(canvas) if text in names}
    assert all(box.x0 >= frame.x1 for box in found.values())
    assert sorted(names, key=lambda name: found[name].y0) == names, "in the order of the lines"
    assert beyond(canvas) == []


@pytest.mark.slow
def test_names_that_do_not_fit_at_their_lines_are_in_a_legend(tmp_path):
    for ends, names in (([10.0] * 12, None), ([10, 20], ["a" * 40, "b"]), ([float(end) for end in range(40)], None)):
        run = lines(tmp_path, ends, names)
        canvas = canvas_of(run)
        (legend,) = canvas.legends
        assert [text.get_text()[:20] for text in legend.get_texts()] == [
            one.label[:20] for one in the_picture(run).series
        ]
        assert beyond(canvas) == []


def test_a_line_that_ends_early_has_its_name_beside_its_end(tmp_path):
    run = lines(tmp_path, [10, 40])
    cells = [one for one in run.cells if one.cell["model"] != "model-0" or one.cell["decoder"] == "beam-1"]
    canvas = canvas_of(replace(run, cells=cells))
    assert not canvas.legends
    (box,) = (box for text, box in texts(canvas) if text == "model-0")
    x, y = canvas.axes[0].transData.transform((1, 0))
    assert abs(box.x0 - x) < 12
    assert box.y0 - 12 < y < box.y1 + 12


def test_a_single_series_needs_no_name(tmp_path):
    canvas = canvas_of(lines(tmp_path, [10]))
    assert not canvas.legends
    assert "model-0" not in {text for text, _ in texts(canvas)}


def test_points_are_named_where_there_is_room_and_share_a_legend_where_there_is_none(tmp_path):
    about = {"kind": "scatter", "x": "rate", "y": "nats", "by": "model", "width": "column"}
    names = [f"model-{place}" for place in range(6)]
    apart = {(name, "greedy", 0): (10.0 * place, (place * 7) % 5 + 1.0) for place, name in enumerate(names)}
    canvas = canvas_of(plotted(tmp_path, measured(apart), names, **about))
    assert not canvas.legends
    assert overlapping(canvas, names) == []
    assert {text for text, _ in texts(canvas)} >= {*names}
    alike = {(name, "greedy", 0): (10.0, 1.0) for name in names * 1}
    canvas = canvas_of(plotted(tmp_path, measured(alike), names, **about))
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == names


@pytest.mark.parametrize("count", [2, 6, 12, 40])
def test_names_below_an_axis_do_not_collide_however_many_and_long(tmp_path, count):
    names = [f"a-model-with-a-long-name-{place}" for place in range(count)]
    cells = measured({(name, "greedy", 0): 1.0 + place for place, name in enumerate(names)})
    canvas = canvas_of(plotted(tmp_path, cells, names, kind="bar", x="model", y="rate", width="column"))
    labels = canvas.axes[0].get_xticklabels()
    assert len(labels) == count
    assert beyond(canvas) == []
    slots = [axes_x for axes_x, _ in (canvas.axes[0].transData.transform((place, 0)) for place in range(count))]
    step = slots[1] - slots[0]
    angle = math.radians(labels[0].get_rotation())
    height = labels[0].get_fontsize() * canvas.dpi / 72
    widest = max(label.get_window_extent().width for label in labels)
    assert (step * math.sin(angle) >= 0.9 * height) if angle else widest <= step


def test_ticks_stand_at_the_numbers_of_the_suite_if_these_do_not_touch(tmp_path):
    run = lines(tmp_path, [10])
    assert [label.get_text() for label in canvas_of(run).axes[0].get_xticklabels()] == ["1", "2", "4", "8", "16"]
    near = {"a": {"hidden": 1000}, "b": {"hidden": 1100}, "c": {"hidden": 90_000}}
    cells = measured({(name, "greedy", 0): 1.0 for name in near})
    run = plotted(tmp_path, cells, near, kind="line", x="model.hidden", y="rate", width="column")
    assert "1,100" not in [label.get_text() for label in canvas_of(run).axes[0].get_xticklabels()]


@pytest.mark.slow(1)
@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("page", 6.75), (4, 4.0)])
def test_figures_are_as_wide_as_they_are_printed_with_letters_of_seven_to_nine_points(tmp_path, width, inches):
    for about in (
        {},
        {"kind": "bar", "x": "model", "by": "decoder", "scale": "linear"},
        {"panels": "model", "by": "decoder", "x": "model.a"},
    ):
        run = lines(tmp_path, [10, 30], width=width, **about)
        if about.get("x") == "model.a":
            models = {name: {"a": place + 1} for place, name in enumerate(run.suite.models)}
            run = replace(run, suite=run.suite.model_copy(update={"models": models}))
        svg = draw(the_picture(run))["svg"].decode()
        assert float(re.search(r'width="([\d.]+)pt"', svg)[1]) == pytest.approx(72 * inches)
        sizes = {float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)}
        assert sizes
        assert all(7 <= size <= 9 for size in sizes), sizes


def test_signs_of_tex_and_xml_are_drawn_as_they_are(tmp_path):
    names = ["$x_1$ & <b>", "100 % \\alpha", "a^b_c{d}", "“ε = 10⁻³”"]
    run = lines(tmp_path, [10, 20, 30, 40], names, labels={"x": "<width> $w$", "y": "BLEU & more"})
    tree = ElementTree.fromstring(draw(the_picture(run))["svg"])
    drawn = {"".join(text.itertext()) for text in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert drawn >= {*names, "<width> $w$", "BLEU & more"}


def test_a_legend_is_as_low_as_its_width_allows():
    assert columns_of(["a", "b", "c"], 6.75) == 3
    assert columns_of(["a" * 400, "b"], 6.75) == 1
    assert columns_of(["aaaaaaaaaa"] * 4, 3.25) == 2, "two rows of two, not three and one"
    assert columns_of(["a"], 1.0) == 1


def test_names_that_do_not_fit_are_cut_where_they_stay_different():
    draw = random.Random(5)
    word = lambda most: "".join(draw.choices("abcxyz-", k=draw.randint(0, most)))  # noqa: E731
    for _ in range(200):
        first, last, count = word(60), word(60), draw.randint(1, 30)
        names = [f"{first}{place}{last}" for place in range(count)]
        found = distinct(names, 1.3)
        assert len({*found}) == count
        assert all(
            len(name) <= max(8, 1.3 / LETTER_WIDTH) or name == own for name, own in zip(found, names, strict=True)
        )
    assert distinct(["short", "names"], 1.3) == ["short", "names"]
    (one,) = distinct(["a" * 40], 1.3)
    assert one.startswith("aaaa"), "one name alone is cut at its end"
    assert one.endswith(" …")


LETTER_WIDTH = 0.57 * 8 / 72  # inches, as the module has it


def test_titles_of_panels_stay_in_the_figure_however_wide_their_letters(tmp_path):
    names = [f"WWWWMMMM{place}WWWWMMMMWWWW" for place in range(3)]
    cells = measured({(name, decoder, 0): 1.0 for name in names for decoder in ("greedy", "beam")})
    about = {"kind": "bar", "x": "decoder", "y": "rate", "panels": "model", "width": "column"}
    canvas = canvas_of(plotted(tmp_path, cells, names, **about))
    titles = [(text, box) for text, box in texts(canvas) if "WW" in text]
    assert len({text for text, _ in titles}) == 3
    assert beyond(canvas) == []
    boxes = [box for _, box in titles]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_an_error_bar_is_seen_on_a_dark_bar(tmp_path):
    cells = measured({("rnn", "greedy", seed): 10.0 + seed for seed in (0, 1, 2)})
    axes = canvas_of(plotted(tmp_path, cells, kind="bar", x="model", y="rate", where={"decoder": "greedy"})).axes[0]
    (bar,), caps = axes.collections, [line for line in axes.lines if line.get_marker() == "_"]
    assert style.lightness(style.colour(0)) < 0.3
    assert len(caps) == 2
    for part in (bar, *caps):
        (halo,) = part.get_path_effects()
        assert halo._gc["foreground"] == "white"
        assert halo._gc["linewidth"] > 2 * 0.7


def test_points_that_all_have_one_name_are_called_as_their_series(tmp_path):
    names = ["rnn", "lstm", "gru"]
    cells = measured({(name, "greedy", 0): (10.0 * place, 9.0 - place) for place, name in enumerate(names)})
    about = {"kind": "scatter", "x": "rate", "y": "nats", "by": "model", "points": ["decoder"]}
    canvas = canvas_of(plotted(tmp_path, cells, names, **about))
    shown = [text for text, _ in texts(canvas)]
    assert "greedy" not in shown
    assert {*names} <= {*shown}
    assert not canvas.legends


def test_points_of_a_series_are_named_as_far_as_there_is_room_beside_a_legend(tmp_path):
    decoders = [f"decoder-{place}" for place in range(8)]
    cells = measured(
        {
            (model, name, 0): (50.0 + 49 * (name == "decoder-7"), 5.0 + 4 * (name == "decoder-7") + place)
            for place, model in enumerate(("rnn", "lstm"))
            for name in decoders
        }
    )
    about = {"kind": "scatter", "x": "rate", "y": "nats", "by": "model", "points": ["decoder"], "width": "column"}
    canvas = canvas_of(plotted(tmp_path, cells, ["rnn", "lstm"], decoders, **about))
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == ["rnn", "lstm"]
    shown = [text for text, _ in texts(canvas) if text in decoders]
    assert shown.count("decoder-7") == 2, "points apart have their names"
    assert 2 < len(shown) < 16
    assert overlapping(canvas, decoders) == []


@pytest.mark.slow(1)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_numbers_at_ticks_never_touch(tmp_path, scale):
    draw = random.Random(11)
    for _ in range(16):
        low = 10 ** draw.uniform(-6, 9)
        high = low * 10 ** draw.choice([0.01, 0.2, 0.5, 1, 3, 40])
        cells = measured({("rnn", "greedy", 0): (low, low), ("lstm", "greedy", 0): (high, high)}, units=("",))
        about = {"kind": "scatter", "x": "rate", "y": "nats", "by": "model", "width": "column", "scale": scale}
        axes = canvas_of(plotted(tmp_path, cells, **about)).axes[0]
        for axis in (axes.xaxis, axes.yaxis):
            ends = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            shown = [tick.label1 for tick in ticks if ends[0] <= tick.get_loc() <= ends[1] and tick.label1.get_text()]
            boxes = [label.get_window_extent() for label in shown]
            assert len(boxes) > 1, (low, high)
            assert not any(a.overlaps(b) for a, b in combinations(boxes, 2)), (
                low,
                high,
                [x.get_text() for x in shown],
            )


def test_every_point_of_a_line_is_named_even_if_a_name_has_to_cross_an_error_bar(tmp_path):
    sizes = {"bits-shortest": 33, "bits-20": 66, "bits-40": 130, "bits-100": 330, "bits-longest": 500}
    means = {"bits-shortest": 1e2, "bits-20": 1.5e2, "bits-40": 1e3, "bits-100": 4e6, "bits-longest": 2e9}
    values = {
        ("rnn", name, s): (float(sizes[name]), mean * 1.7 ** (s - 1))
        for name, mean in means.items()
        for s in (0, 1, 2)
    }
    values["lstm", "bits-20", 0] = (1000.0, 90.0)
    about = {"kind": "line", "x": "rate", "y": "nats", "by": "model", "points": ["decoder"], "width": "column"}
    cells = [
        replace(one, numbers={k: replace(n, scale="log") for k, n in one.numbers.items()}) for one in measured(values)
    ]
    canvas = canvas_of(plotted(tmp_path, cells, ("rnn", "lstm"), [*sizes], scale={"x": "log", "y": "log"}, **about))
    assert {text for text, _ in texts(canvas)} >= {*sizes}
    assert overlapping(canvas, [*sizes]) == []
