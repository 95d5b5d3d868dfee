"""Notes below figures, as plain text."""

from collections.abc import Iterable

from bench_core.runs.results import Run
from bench_reports.content.conditions import LONGEST, corpus_note, description, run_limits, span
from bench_reports.content.environments import abridged, unlike, unverified
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import name_on
from bench_reports.figures.error_bars import CALLED, variation
from bench_reports.figures.figure_data import Picture, kind_of


def figure_notes(run: Run, picture: Picture) -> list[str]:
    """Return the footnotes of a figure, as plain text."""
    about = [] if picture.empty else [_behind(picture), *picture.notes, *_measured(picture)]
    limits = run_limits(run) if not picture.figure.history else ""
    environments = unlike(run, picture.cells)
    corpus = corpus_note(run, [name_on(one, "task") for one in picture.cells])
    notes = [unverified(run, picture.cells), *about, limits, environments, corpus, *_left_out(picture)]
    return [*filter(None, notes)]


def _behind(picture: Picture) -> str:
    """Say how many seeds and examples are behind a figure."""
    kind, own = picture.figure.kind, [one for one in picture.series if not one.shared] or picture.series
    seeds = {one.seeds for one in own}
    if brought := kind_of(kind):
        return brought.seeds
    if kind == "heat":
        seeds = {tile.seeds for one in own for tile in one.rows if tile.seeds}
        return "One seed." if seeds == {1} else f"Mean ± standard deviation over {span(seeds)} seeds."
    if kind in CALLED:
        return variation(picture)
    pooled = "of one seed" if seeds == {1} else f"pooled over {span(seeds)} seeds"
    return f"{span({one.values for one in own})} values, {pooled}."


def _measured(picture: Picture) -> Iterable[str]:
    for metric, number in picture.numbers.items():
        found = [one.numbers[metric] for one in picture.cells if metric in one.numbers]
        if examples := {one.examples for one in found if one.value is not None}:
            yield f"{metric}: {description(number, examples, picture.cells, metric)}."


def _left_out(picture: Picture) -> Iterable[str]:
    """Name the cells that a figure leaves out, by their reasons."""
    names: dict[str, list[str]] = {}
    for name, reason in picture.missing:
        names.setdefault(reason, []).append(name)
    for reason, left in names.items():
        yield f"Left out: {abridged(left, '; ')}: {shortened(reason.rstrip('.'), LONGEST)}."
