"""Runs with figures of a metric against settings, and what is drawn of them."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import combinations

import matplotlib
from matplotlib.figure import Figure as Canvas

from bench_reports.figures import style
from bench_reports.figures.drawing import canvas_drawer
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.figures.figures import pictures
from bench_small.runs import cell, number, run_of, with_suite, written


def measured(values, units=("%",), **settings):
    """Return a cell for each value, or for each tuple of values of `rate` and `nats`, by model, decoder and seed.

    None is a cell that failed.
    """
    found = []
    for (model, decoder, seed), value in values.items():
        several = value if isinstance(value, tuple) else (value,)
        numbers = {
            name: replace(number(one, **settings), unit=unit)
            for name, one, unit in zip(("rate", "nats"), several, [*units, ""], strict=False)
        }
        if value is None:
            found.append(cell(model, decoder, seed, status="failed", reason="out of memory"))
        else:
            found.append(cell(model, decoder, seed, numbers))
    return found


def plotted(tmp_path, cells, models=("rnn", "lstm"), decoders=("greedy", "beam"), suite=None, **figure):
    """Return a run with one figure; models and decoders are names, or settings by name."""
    run = run_of(tmp_path, cells, {})
    about = {"id": "f", **figure}
    sections = {
        "models": models if isinstance(models, dict) else {name: {} for name in models},
        "decoders": decoders if isinstance(decoders, dict) else {name: {} for name in decoders},
    }
    data = run.suite.model_dump() | sections | {"tables": [], "figures": [about], **(suite or {})}
    run.folder.mkdir(exist_ok=True)
    return with_suite(run, data)


def the_picture(run):
    (picture,) = pictures(run)
    return picture


def rows(run, folder):
    """Return the lines of the figure's CSV, as a report holds it."""
    text = written(run, folder)["figures/f.csv"].decode()
    return list(csv.DictReader(text.splitlines()))


def notes(run):
    return figure_notes(run, the_picture(run))


def canvas_of(run):
    """Return the figure as it is laid out."""
    picture = the_picture(run)
    assert not picture.empty, picture.empty
    with matplotlib.rc_context():
        style.apply()
        canvas = Canvas(layout="constrained")
        canvas_drawer(picture)(canvas, picture)
        canvas.draw_without_rendering()
    return canvas


def texts(canvas):
    """Return all that is written in a figure, but what is not shown."""
    found = canvas.findobj(matplotlib.text.Text)
    frame = canvas.bbox
    shown = [one for one in found if one.get_visible() and one.get_text()]
    ticks = {id(tick.label2) for axes in canvas.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.majorTicks}
    boxes = [(one, one.get_window_extent()) for one in shown if id(one) not in ticks]
    return [(one.get_text(), box) for one, box in boxes if box.overlaps(frame)]


def overlapping(canvas, names):
    """Return the pairs of names that share some place on the canvas."""
    own = [(text, box) for text, box in texts(canvas) if text in names]
    return [(a, b) for (a, one), (b, other) in combinations(own, 2) if one.shrunk(0.98, 0.98).overlaps(other)]


def beyond(canvas):
    """Return the texts that go over the edge of the canvas by more than a point."""
    frame = canvas.bbox.padded(canvas.dpi / 72)
    return [
        text
        for text, box in texts(canvas)
        if box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
    ]
