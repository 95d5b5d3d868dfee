"""Assemble the document of a report: its sections, their order and their headings."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from bench_core.runs.results import Run
from bench_reports import document as doc
from bench_reports.content.choices import choice_note, choices
from bench_reports.content.claim_families import chance
from bench_reports.content.conditions import limits, run_limits
from bench_reports.content.cost_tables import Stages, by_kind, dearest
from bench_reports.content.environments import environment_rows
from bench_reports.content.grid import Grid
from bench_reports.content.judgements import MEANING, MEANINGS, Judgement
from bench_reports.content.numbers import number
from bench_reports.content.outputs import few, samples, side_by_side, withheld_note
from bench_reports.content.page import facts, head, incomplete, statistics, title
from bench_reports.content.pairs import pairs_table
from bench_reports.content.probes import broken_promises, failing_premises, number_rows, statement_rows
from bench_reports.content.result_tables import differences_table, files_of_differences, results_table
from bench_reports.content.sorting import by_key
from bench_reports.content.table_notes import measurement
from bench_reports.document import Block, Document, DocumentSection, Side, Span, TableBlock, TableCell, text_cell
from bench_reports.figures.figure_data import Picture, kind_of
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.language.of_suite import language

#: A figure and its drawings by format; no drawings if there is nothing to draw
DrawnFigure: TypeAlias = tuple[Picture, Mapping[str, bytes]]

PAGE: tuple[doc.Format, ...] = ("html",)
NOT_PRINTED: tuple[doc.Format, ...] = ("html", "markdown", "terminal")  # tables are not files of their own
OTHERS: tuple[doc.Format, ...] = ("latex", "markdown", "terminal")
KNOWN = "What is known about each trained model before any measurement; premises are checked on the trained weights."
COSTS = (
    "Costs of each stage as measured where it was computed; stages taken from the store show their original costs."
)
ELSEWHERE = "Figures of costs, which differ between machines, are only in costs.html"
RATES = "Memory is the highest peak; tokens/s are of the stages that record both."


def report_document(
    run: Run, filled: Sequence[Grid], judged: Sequence[Judgement], drawn: Iterable[DrawnFigure], costs: bool
) -> Document:
    """Return the report of a run from its tables, judgements and figures.

    Costs depend on clocks: `costs` is whether there is a page of them to refer to.
    """
    names = files_of_differences(filled)
    results = [_results(run, grid, names.get(grid.table.id, "")) for grid in filled]
    measured = _measurement(run, filled)
    sections = [
        *notes_once(results),
        *(_figure(run, figure, "figures", [*measured, *limits(run)] if measured else []) for figure in drawn),
        *_findings(run, judged),
        *_data(run),
    ]
    how = DocumentSection("Measurement", [doc.Notes(measured)], "measurement-section", "Measurement")
    sections += [*[how] * bool(measured), *_cells(run), _provenance(run, costs)]
    return Document(title(run), [doc.Facts(head(run), cites=["Source"])], sections)


def summary(run: Run, filled: Iterable[Grid], judged: Iterable[Judgement]) -> Document:
    """Return the tables and claims of a run, for a terminal."""
    tables = notes_once(table_sections(run, filled), by_name=False)
    end = DocumentSection("", [doc.Notes(limits(run))])
    return Document("", [], [*tables, *_claims(judged), end])


def table_sections(run: Run, filled: Iterable[Grid]) -> list[DocumentSection]:
    """Return the tables of a run, for a terminal."""
    sections = []
    for grid in filled:
        sections.append(DocumentSection(grid.table.caption or grid.table.id, [results_table(run, grid)]))
        if differences := differences_table(run, grid):
            sections.append(DocumentSection("Comparison with published numbers", [differences]))
        if pairs := pairs_table(run, grid):
            sections.append(DocumentSection("All pairs", [pairs]))
    return sections


def costs_document(run: Run, stages: Stages, drawn: Iterable[DrawnFigure] = ()) -> Document:
    """Return the costs of stages, from the rows of `costs.csv` and the figures of costs."""
    longest = text_table("dearest", "The slowest stages", dearest(stages))
    shown, number = len(longest.rows), len(stages)
    left_out = doc.Notes([f"The {shown} slowest of {number:,} stages; all stages are in costs.csv."], compact=True)
    kinds = text_table("kinds", "Costs by kind of stage", by_kind(stages))
    links = [doc.Span("Report", link="report.html"), doc.Span("·"), doc.Span("costs.csv", link="costs.csv")]
    sections = [
        *(_figure(run, figure, "costs") for figure in drawn),
        DocumentSection("By kind of stage", [kinds, doc.Notes([RATES], compact=True)]),
        DocumentSection("By stage", [longest, left_out] if number > shown else [longest]),
    ]
    return Document(f"Costs: {title(run)}", [doc.Paragraph([[doc.Span(COSTS)], links])], sections, contents=False)


def text_table(name: str, caption: str, lines: Sequence[Sequence[str]], side: Side = "right") -> TableBlock:
    """Return a table of text whose first line is its headings; columns of numbers can be sorted numerically."""
    labels = [text_cell(line[0]) for line in lines[1:]]
    columns = [_column(column) for column in zip(*lines[1:], strict=True)][1:]
    rows = [[label, *(column[place] for column in columns)] for place, label in enumerate(labels)]
    return TableBlock(name, caption, lines[0], rows, side)


def _column(column: Sequence[str]) -> list[TableCell]:
    """Return a column of text, with numeric values only if all of its entries are numbers."""
    numbers = [number(word) for word in column]
    mixed = any(value is None and word not in ("", "–") for value, word in zip(numbers, column, strict=True))
    return [TableCell([Span(word)], None if mixed else value) for value, word in zip(numbers, column, strict=True)]


def notes_once(sections: Iterable[DocumentSection], by_name: bool = True) -> Iterator[DocumentSection]:
    """Yield tables, moving notes that all have in common (or, with `by_name`, several) below the last table."""
    sections = [*sections]
    blocks = [block for section in sections for block in section.blocks]
    tables = {block.file.name: block for block in blocks if isinstance(block, TableBlock) and block.file}
    users = by_key((note, name) for name, table in tables.items() for note in table.all_notes if note[0] != "[")
    least = max(2, 0 if by_name else len(tables))
    shared = {note: tuple(names) for note, names in users.items() if len(names) >= least}
    for section in sections:
        rest = [block.without(shared) if isinstance(block, TableBlock) else block for block in section.blocks]
        yield replace(section, blocks=rest)
    groups = by_key((names, note) for note, names in shared.items())
    for names in sorted(groups, key=len, reverse=True):
        heading = "all tables" if len(names) == len(tables) else ", ".join(names)
        yield DocumentSection(f"Notes on {heading}", [doc.Notes(groups[names])], formats=NOT_PRINTED)


def _data(run: Run) -> Iterator[DocumentSection]:
    """Yield the properties of data and models."""
    blocks: list[Block] = [doc.Facts(about)] if (about := facts(run)) else []
    blocks += [text_table("statistics", "Data statistics", rows)] if (rows := statistics(run)) else []
    if blocks:
        yield DocumentSection("Data and models", blocks, "statistics-section", "Data and models")


def _results(run: Run, grid: Grid, file: str) -> DocumentSection:
    """Return a table of results, its differences from published numbers, if any, and links to their files."""
    ours, differences = results_table(run, grid), differences_table(run, grid, file)
    pairs = pairs_table(run, grid)
    more = [table for table in (differences, pairs) if table]
    beside: list[Block] = [block for table in more for block in (doc.Heading(table.caption), table)]
    numbers = [f"tables/{grid.table.id}.csv", *[f"tables/{grid.table.id}-pairs.csv"] * bool(pairs)]
    links = doc.FileList([*numbers, *(f"tables/{table.file.name}.tex" for table in (ours, *more) if table.file)])
    heading = ": ".join(filter(None, [grid.table.id, grid.table.caption]))
    return DocumentSection(heading, [ours, *beside, links], f"{ours.id}-section", grid.table.id)


def _figure(run: Run, drawn: DrawnFigure, folder: str, elsewhere: Collection[str] = ()) -> DocumentSection:
    """Return a figure with its notes, except those that the report has elsewhere."""
    picture, files = drawn
    figure, kind = picture.figure, kind_of(picture.figure.kind)
    heading = ": ".join(filter(None, [figure.id, figure.caption]))
    notes = doc.Notes([note for note in figure_notes(run, picture) if note not in elsewhere])
    svg, details = files.get("svg", b""), kind.details(picture) if kind and not picture.empty else ()
    caption = figure.caption or figure.id
    block = doc.FigureBlock(figure.id, heading, caption, figure.kind, folder, notes, picture.empty, svg, details)
    return DocumentSection(heading, [block], f"figure-{figure.id}", figure.id)


def _findings(run: Run, judged: Sequence[Judgement]) -> Iterator[DocumentSection]:
    """Yield the verdicts on claims, the results of probes, and the results of choices."""
    yield from _claims(judged)
    if probes := _probes(run):
        yield DocumentSection("Probes", probes, "probes-section", "Probes")
    if made := [choice_note(run, choice) for choice in choices(run)]:
        yield DocumentSection("Choices", [doc.Notes(made)], "choices-section", "Choices", PAGE)


def _claims(judged: Iterable[Judgement]) -> Iterator[DocumentSection]:
    judged = [*judged]
    claims = []
    for judgement in judged:
        statement, grounds = " ".join(judgement.claim.text.split()), f"{judgement.why.rstrip('.')}."
        claims.append(
            doc.JudgedClaim(judgement.claim.id, judgement.verdict, statement, judgement.claim.expression, grounds)
        )
    if claims:
        verdicts = " ".join(claim.verdict for claim in claims)
        meaning = [MEANING, *(text for word, text in MEANINGS.items() if word in verdicts), chance(judged)]
        yield DocumentSection("Claims", [doc.Claims(claims, " ".join(meaning))], "claims-section", "Claims")


def _probes(run: Run) -> list[Block]:
    """Return the results of probes; the notes explain statements, and follow them if there are any."""
    notes, blocks = doc.Notes([*broken_promises(run), *failing_premises(run)]), list[Block]()
    if rows := number_rows(run):
        blocks.append(text_table("probed", "Probe results", rows, "left"))
    if rows := statement_rows(run):
        table = text_table("statements", "Statements and measurements", rows, "left")
        blocks.append(replace(table, notes=notes, description=KNOWN))
    elif blocks:
        blocks.append(notes)
    return blocks


def _measurement(run: Run, filled: Sequence[Grid]) -> list[str]:
    """Return how numbers were measured, for readers who reproduce them."""
    elsewhere = ", ".join(figure.id for figure in language(run).figures if figure.costs)
    costs = [f"{ELSEWHERE}: {elsewhere}."] if elsewhere else []
    notes = [*measurement(run, filled), *costs]
    return [*notes, run_limits(run)] if notes else []


def _cells(run: Run) -> Iterator[DocumentSection]:
    """Yield the outputs of cells, which a page shows side by side, and the cells without outputs."""
    shown = samples(run)
    hidden = [doc.Notes([text]) for text in withheld_note(run, shown)]
    if shown:
        block = doc.SideBySide(side_by_side(shown))
        yield DocumentSection("Outputs side by side", [block, *hidden], "outputs-section", "Outputs", PAGE)
    if missing := incomplete(run):
        yield DocumentSection("Incomplete cells", [doc.Notes(missing)], "incomplete-section", "Incomplete cells")
    if shown:
        yield DocumentSection("Sample outputs", [*few(run, shown), *hidden], formats=OTHERS)


def _provenance(run: Run, costs: bool) -> DocumentSection:
    """Return the environments of cells, and the other files of a report, for a page."""
    table = text_table("environments", "Environments of the cells", environment_rows(run), "left")
    table = replace(table, folded="Environments: versions, hardware, digests of code")
    spent = [
        doc.Span("Costs", link="costs.html"),
        doc.Span(": seconds, memory and tokens/s of every stage (", joined=True),
        doc.Span("costs.csv", joined=True, link="costs.csv"),
        doc.Span(").", joined=True),
    ]
    files = doc.FileList(["report.md", "report.tex", "results.json"], "Other formats of this report:")
    blocks: list[Block] = [table, *([doc.Paragraph([spent])] if costs else []), files]
    return DocumentSection("Provenance", blocks, "provenance-section", "Provenance", PAGE)
