"""Assembles the document of a report: its sections, their order and their headings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from bench_core.runs.results import Run
from bench_reports import document as doc
from bench_reports.content.choices import choice_note, choices
from bench_reports.content.claim_families import chance
from bench_reports.content.conditions import limits
from bench_reports.content.cost_tables import Stages, by_kind, dearest
from bench_reports.content.environments import environment_rows
from bench_reports.content.grid import Grid
from bench_reports.content.judgements import MEANING, Judgement
from bench_reports.content.numbers import number
from bench_reports.content.outputs import few, samples, side_by_side, withheld_note
from bench_reports.content.page import comparability, facts, incomplete, statistics, title
from bench_reports.content.pairs import pairs_table
from bench_reports.content.probes import broken_promises, failing_premises, number_rows, statement_rows
from bench_reports.content.result_tables import differences_table, files_of_differences, results_table
from bench_reports.content.table_notes import measurement
from bench_reports.document import Block, Cell, Document, Section, Side, Span, Table, text_cell
from bench_reports.figures.figure_data import Picture, kind_of
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.language.of_suite import language

#: A figure and its drawings, by their formats; without any if there is nothing to draw
Drawn: TypeAlias = tuple[Picture, Mapping[str, bytes]]

PAGE: tuple[doc.Format, ...] = ("html",)
OTHERS: tuple[doc.Format, ...] = ("latex", "markdown", "terminal")
KNOWN = "What is known of each trained model before anything is measured, premises checked on the trained weights."
COSTS = "As each stage was measured where it was computed; one that was stored already shows what it cost then."
ELSEWHERE = "Figures of what stages cost, which differs from machine to machine, are in costs.html alone"
RATES = "Memory is the highest peak; tokens by second are of the stages that tell both."


def report_document(
    run: Run, filled: Sequence[Grid], judged: Sequence[Judgement], drawn: Iterable[Drawn], costs: bool
) -> Document:
    """Return the report of a run from its tables, its judgements and its figures.

    What stages cost depends on clocks: `costs` says whether there is a page of them to refer to.
    """
    names = files_of_differences(filled)
    results = [_results(run, grid, names.get(grid.table.id, "")) for grid in filled]
    sections = [*_data(run), *results, *(_figure(run, one, "figures") for one in drawn), *_findings(run, judged)]
    sections += [*_measurement(run, filled), *_cells(run), _provenance(run, costs)]
    return Document(title(run), [doc.Facts(facts(run), cites=["Source"])], sections)


def summary(run: Run, filled: Iterable[Grid], judged: Iterable[Judgement]) -> Document:
    """Return the tables and claims of a run, for a terminal."""
    sections = [*table_sections(run, filled), *_claims(judged), Section("", [doc.Notes(limits(run))])]
    return Document("", [], sections)


def table_sections(run: Run, filled: Iterable[Grid]) -> list[Section]:
    """Return the tables of a run, for a terminal."""
    sections = []
    for grid in filled:
        sections.append(Section(grid.table.caption or grid.table.id, [results_table(run, grid)]))
        if differences := differences_table(run, grid):
            sections.append(Section("Beside the published", [differences]))
        if pairs := pairs_table(run, grid):
            sections.append(Section("All pairs", [pairs]))
    return sections


def costs_document(run: Run, stages: Stages, drawn: Iterable[Drawn] = ()) -> Document:
    """Return what stages cost, from the lines of `costs.csv` and the figures of that."""
    longest = text_table("dearest", "The stages that took longest", dearest(stages))
    shown, number = len(longest.rows), len(stages)
    left_out = doc.Notes([f"The {shown} of {number:,} stages that took longest; all are in costs.csv."], compact=True)
    kinds = text_table("kinds", "Costs by kind of stage", by_kind(stages))
    links = [doc.Span("Report", link="report.html"), doc.Span("·"), doc.Span("costs.csv", link="costs.csv")]
    sections = [
        *(_figure(run, one, "costs") for one in drawn),
        Section("By kind of stage", [kinds, doc.Notes([RATES], compact=True)]),
        Section("By stage", [longest, left_out] if number > shown else [longest]),
    ]
    return Document(f"Costs: {title(run)}", [doc.Paragraph([[doc.Span(COSTS)], links])], sections, contents=False)


def text_table(name: str, caption: str, lines: Sequence[Sequence[str]], side: Side = "right") -> Table:
    """Return a table of text whose headings come first; columns of nothing but numbers can be sorted as such."""
    labels = [text_cell(line[0]) for line in lines[1:]]
    columns = [_column(column) for column in zip(*lines[1:], strict=True)][1:]
    rows = [[label, *(column[place] for column in columns)] for place, label in enumerate(labels)]
    return Table(name, caption, lines[0], rows, side)


def _column(column: Sequence[str]) -> list[Cell]:
    """Return a column of text with its numbers; with none where it holds other words too."""
    found = [number(word) for word in column]
    mixed = any(one is None and word not in ("", "–") for one, word in zip(found, column, strict=True))
    return [Cell([Span(word)], None if mixed else one) for one, word in zip(found, column, strict=True)]


def _data(run: Run) -> Iterator[Section]:
    """Yield what a reader must know before the results."""
    if notes := comparability(run):
        yield Section("What limits comparability", [doc.Notes(notes)], "limits", formats=PAGE, aside=True)
    if rows := statistics(run):
        yield Section("Data", [text_table("statistics", "Statistics of the data", rows)], "statistics-section")


def _results(run: Run, grid: Grid, file: str) -> Section:
    """Return a table of results, its differences from the published if it has some, and links to their files."""
    ours, differences = results_table(run, grid), differences_table(run, grid, file)
    pairs = pairs_table(run, grid)
    more = [table for table in (differences, pairs) if table]
    beside: list[Block] = [block for table in more for block in (doc.Heading(table.caption), table)]
    numbers = [f"tables/{grid.table.id}.csv", *[f"tables/{grid.table.id}-pairs.csv"] * bool(pairs)]
    links = doc.Files([*numbers, *(f"tables/{one.file.name}.tex" for one in (ours, *more) if one.file)])
    heading = ": ".join(filter(None, [grid.table.id, grid.table.caption]))
    return Section(heading, [ours, *beside, links], f"{ours.id}-section", grid.table.id)


def _figure(run: Run, drawn: Drawn, folder: str) -> Section:
    picture, files = drawn
    figure, kind = picture.figure, kind_of(picture.figure.kind)
    heading, notes = ": ".join(filter(None, [figure.id, figure.caption])), doc.Notes(figure_notes(run, picture))
    svg, details = files.get("svg", b""), kind.details(picture) if kind and not picture.empty else ()
    caption = figure.caption or figure.id
    block = doc.Figure(figure.id, heading, caption, figure.kind, folder, notes, picture.empty, svg, details)
    return Section(heading, [block], f"figure-{figure.id}", figure.id)


def _findings(run: Run, judged: Sequence[Judgement]) -> Iterator[Section]:
    """Yield what follows from the results, and what was found beside them."""
    yield from _claims(judged)
    if probes := _probes(run):
        yield Section("Probes", probes, "probes-section", "Probes")
    if made := [choice_note(run, one) for one in choices(run)]:
        yield Section("Choices", [doc.Notes(made)], "choices-section", "Choices", PAGE)


def _claims(judged: Iterable[Judgement]) -> Iterator[Section]:
    judged = [*judged]
    claims = []
    for one in judged:
        statement, grounds = " ".join(one.claim.text.split()), f"{one.why.rstrip('.')}."
        claims.append(doc.JudgedClaim(one.claim.id, one.verdict, statement, one.claim.expression, grounds))
    if claims:
        yield Section("Claims", [doc.Claims(claims, f"{MEANING} {chance(judged)}")], "claims-section", "Claims")


def _probes(run: Run) -> list[Block]:
    """Return what probes found; the notes are on their statements, and stand below these if there are any."""
    notes, blocks = doc.Notes([*broken_promises(run), *failing_premises(run)]), list[Block]()
    if rows := number_rows(run):
        blocks.append(text_table("probed", "What probes found", rows, "left"))
    if rows := statement_rows(run):
        table = text_table("statements", "What is known, and what was measured", rows, "left")
        blocks.append(replace(table, notes=notes, description=KNOWN))
    elif blocks:
        blocks.append(notes)
    return blocks


def _measurement(run: Run, filled: Sequence[Grid]) -> Iterator[Section]:
    """Yield how numbers were measured, for those who measure them again; on a page the limits stand above."""
    elsewhere = ", ".join(figure.id for figure in language(run).figures if figure.costs)
    costs = [f"{ELSEWHERE}: {elsewhere}."] if elsewhere else []
    if notes := [*measurement(run, filled), *costs]:
        yield Section("Measurement", [doc.Notes([*notes, *limits(run)])], "measurement-section", "Measurement")


def _cells(run: Run) -> Iterator[Section]:
    """Yield the outputs of cells, which a page sets side by side, and the cells that have none."""
    shown = samples(run)
    hidden = [doc.Notes([text]) for text in withheld_note(run, shown)]
    if shown:
        block = doc.SideBySide(side_by_side(shown))
        yield Section("Outputs side by side", [block, *hidden], "outputs-section", "Outputs", PAGE)
    if missing := incomplete(run):
        yield Section("Incomplete cells", [doc.Notes(missing)], "incomplete-section", "Incomplete cells")
    if shown:
        yield Section("Sample outputs", [*few(run, shown), *hidden], formats=OTHERS)


def _provenance(run: Run, costs: bool) -> Section:
    """Return what cells were computed with, and where the other files of a report are, for a page."""
    table = text_table("environments", "What cells were computed with", environment_rows(run), "left")
    table = replace(table, folded="Environments: versions, hardware, digests of code")
    spent = [
        doc.Span("What it cost", link="costs.html"),
        doc.Span(": seconds, memory and tokens by second of every stage (", joined=True),
        doc.Span("costs.csv", joined=True, link="costs.csv"),
        doc.Span(").", joined=True),
    ]
    files = doc.Files(["report.md", "report.tex", "results.json"], "The same report:")
    blocks: list[Block] = [table, *([doc.Paragraph([spent])] if costs else []), files]
    return Section("Provenance", blocks, "provenance-section", "Provenance", PAGE)
