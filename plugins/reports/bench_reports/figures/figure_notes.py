"""Notes below figures, as plain text."""

from collections.abc import Iterable

from bench_core.runs.results import Run
from bench_reports.content.conditions import MAX_REASON_CHARACTERS, corpus_note, description, run_limits, span
from bench_reports.content.environments import abridged, unlike, unverified
from bench_reports.content.outputs import shortened
from bench_reports.content.significance import is_untrained
from bench_reports.content.sorting import by_key, name_on
from bench_reports.figures.error_bars import INTERVAL_NAMES, variation
from bench_reports.figures.figure_data import Picture, kind_of


def figure_notes(run: Run, picture: Picture) -> list[str]:
    """Return the footnotes of a figure, as plain text."""
    about = [] if picture.empty else [_behind(run, picture), *picture.notes, *_metric_notes(picture)]
    limits = run_limits(run) if not picture.figure.history else ""
    environments = unlike(run, picture.cells)
    corpus = corpus_note(run, [name_on(result, "task") for result in picture.cells])
    notes = [unverified(run, picture.cells), *about, limits, environments, corpus, *_left_out(picture)]
    return [*filter(None, notes)]


def _behind(run: Run, picture: Picture) -> str:
    """Return the note on the seeds and examples of a figure."""
    kind, groups = picture.figure.kind, [group for group in picture.series if not group.shared] or picture.series
    seeds = {group.seeds for group in groups}
    if plugin_kind := kind_of(kind):
        return plugin_kind.seeds
    if kind == "heat":
        seeds = {tile.seeds for group in groups for tile in group.rows if tile.seeds}
        return "One seed." if seeds == {1} else f"Mean ± standard deviation over {span(seeds)} seeds."
    if kind in INTERVAL_NAMES:
        return variation(picture, not is_untrained(run, picture.cells))
    pooled = "of one seed" if seeds == {1} else f"pooled over {span(seeds)} seeds"
    return f"{span({group.values for group in groups})} values, {pooled}."


def _metric_notes(picture: Picture) -> Iterable[str]:
    for metric, number in picture.numbers.items():
        numbers = [result.numbers[metric] for result in picture.cells if metric in result.numbers]
        if examples := {entry.examples for entry in numbers if entry.value is not None}:
            yield f"{metric}: {description(number, examples, picture.cells, metric)}."


def _left_out(picture: Picture) -> Iterable[str]:
    """Yield the cells that a figure leaves out, by reason."""
    for reason, left in by_key((reason, name) for name, reason in picture.missing).items():
        yield f"Left out: {abridged(left, '; ')}: {shortened(reason.rstrip('.'), MAX_REASON_CHARACTERS)}."
