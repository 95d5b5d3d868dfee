"""The document of a report: every format writes every type of block, and no text can harm any of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import unescape
from typing import get_args

import pytest
from bench_small.runs import HOSTILE, cell, number, run_of
from markdown_it import MarkdownIt

from bench_core.terminal import visible
from bench_reports import document as doc
from bench_reports.content.claims import judge
from bench_reports.content.tables import grids
from bench_reports.document import Block, Document, DocumentSection
from bench_reports.render.html import html_page, html_text
from bench_reports.render.latex import latex, latex_report, table_files
from bench_reports.render.markdown import markdown, markdown_report
from bench_reports.render.report_document import notes_once, report_document, summary
from bench_reports.render.terminal import terminal_text

FORMATS = {"html": html_page, "latex": latex_report, "markdown": markdown_report, "terminal": terminal_text}
ESCAPES = {"html": html_text, "latex": latex, "markdown": markdown, "terminal": visible}

#: Types of blocks that a format does not show, on purpose.
HIDDEN = {
    "html": {doc.ExampleBlock},
    "latex": {doc.FileList, doc.SideBySide},
    "markdown": {doc.FileList, doc.SideBySide},
    "terminal": {doc.SideBySide},
}

STYLES = get_args(doc.Style)


def blocks(text):
    """Return a block of each type, by its type, that has a text wherever it can have one."""
    spans = [doc.Span(text, style) for style in STYLES] + [doc.Span(text, joined=True), doc.Span(text, link="a.csv")]
    notes, pairs = doc.Notes([text, text]), [(text, text)]
    table = doc.TableBlock(
        "t", text, [text] * 3, [[doc.text_cell(text), doc.TableCell(spans, 1.0, "done"), doc.text_cell(text)]], "left"
    )
    about = {
        "notes": notes,
        "description": text,
        "above": [["", text, text]],
        "within": [(text, text)],
        "folded": text,
    }
    claim = doc.JudgedClaim(text, text, text, text, text)
    found = [
        doc.Heading(text),
        doc.Paragraph([spans, spans]),
        notes,
        doc.Facts({text: text}, [text]),
        replace(table, **about),
        doc.FigureBlock(
            "f", text, text, "bars", "figures", notes, details=[doc.Heading(text), replace(table, id="u")]
        ),
        doc.Claims([claim, claim], text),
        doc.ExampleBlock(text, {text: text}, pairs, [(text, [text])]),
        doc.SideBySide({"cells": [visible(text)]}),
        doc.FileList(["a.csv"], text),
    ]
    return {type(one): one for one in found}


def whole(text):
    """Return a document of all types of blocks, and of those that there are in two ways."""
    found = blocks(text)
    filed = replace(found[doc.TableBlock], id="v", file=doc.TableFile("t", "tab:t", text, details=[text]))
    undrawn = replace(found[doc.FigureBlock], id="g", missing=text)
    compact = doc.Notes([text], compact=True)
    sections = [DocumentSection(text, [one]) for one in (*found.values(), filed, undrawn, compact)]
    return Document(text, [doc.Facts({"Source": text}, ["Source"])], sections)


def test_there_is_an_example_here_of_every_type_and_a_writer_of_every_format():
    assert blocks("x").keys() == {*get_args(Block)}
    assert FORMATS.keys() == {*get_args(doc.Format)} == {*doc.FORMATS}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", get_args(Block), ids=lambda kind: kind.__name__)
def test_every_format_writes_every_type_of_block_or_leaves_it_out_on_purpose(name, kind):
    text = FORMATS[name](Document("title", [], [DocumentSection("section", [blocks("Zebra")[kind]])]))
    assert ("Zebra" in text) == (kind not in HIDDEN[name])


@pytest.mark.parametrize("name", FORMATS)
def test_a_type_that_a_format_forgets_is_an_error(name):
    @dataclass(frozen=True)
    class Forgotten:
        text: str

    with pytest.raises(AssertionError):
        FORMATS[name](Document("title", [], [DocumentSection("section", [Forgotten("x")])]))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("style", STYLES)
def test_every_format_writes_words_of_every_style(name, style):
    row = [doc.text_cell("label"), doc.text_cell("Zebra", style)]
    table = doc.TableBlock("t", "caption", ["a", "b"], [row])
    assert "Zebra" in FORMATS[name](Document("title", [], [DocumentSection("section", [table])]))


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_is_escaped_in_every_format(name):
    text = re.sub(r"(?s)<(style|script)>.*?</\1>", "", FORMATS[name](whole(HOSTILE)))  # our own
    assert ESCAPES[name](HOSTILE) in text
    assert HOSTILE not in text
    assert "- n\t[o]" not in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)


def structure(name, text):
    """Return what a format reads of a text but for the words: elements, or commands."""
    if name == "latex":
        text = re.sub("(?m)^% .*", "", text)
        return re.findall(
            r"\\(?:begin|end|item|section|subsection|subsubsection)\b|(?<!\\)[&%]|\\\\$", text, re.MULTILINE
        )
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text) if name == "markdown" else text
    return re.findall(r"</?\w+", re.sub(r"</?bdi>|<wbr>", "", page))


@pytest.mark.parametrize("name", ["html", "latex", "markdown"])
@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "<script>alert(1)</script>",
        "a|b",
        "\\",
        "$x$",
        "100 %",
        "a\nb",
        "a\n\n# b",
        "</script>",
        "&amp;",
        '"',
    ],
)
def test_no_text_changes_the_structure_of_a_document(name, text):
    assert structure(name, FORMATS[name](whole(text))) == structure(name, FORMATS[name](whole("word")))


@pytest.mark.parametrize("text", [HOSTILE, "<b>", "a|b", "a  b", "100 %"])
def test_a_format_that_can_be_read_back_gives_the_text(text):
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown_report(whole(text)))
    assert unescape(page).count(visible(text)) >= 40
    assert unescape(re.sub(r"</?bdi>|<wbr>", "", html_page(whole(text)))).count(visible(text)) >= 40


def test_files_of_tables_are_escaped_and_in_ascii():
    (text,) = table_files(whole(HOSTILE)).values()
    assert text.isascii()
    assert latex_report(whole(HOSTILE)).isascii()
    assert structure("latex", text) == structure("latex", *table_files(whole("word")).values())


def test_a_format_shows_the_sections_that_are_for_it():
    sections = [DocumentSection(f"for {name}", [doc.Notes(["x"])], formats=(name,)) for name in FORMATS]
    for name, write in FORMATS.items():
        text = write(Document("title", [], sections))
        assert [other for other in FORMATS if f"for {other}" in text] == [name]


def test_a_report_is_one_document_and_a_terminal_shows_its_tables_and_claims(tmp_path):
    cells = [
        cell("rnn", "greedy", 0, {"rate": number(1.0)}),
        cell("lstm", "greedy", 0, status="failed", reason="memory"),
    ]
    run = run_of(tmp_path, cells, {"caption": "Rates"}, title="Report")
    document = report_document(run, grids(run), [], [], costs=True)
    assert [one.heading for one in document.sections] == ["t: Rates", "Data and models", "Measurement", "Incomplete cells", "Provenance"]  # fmt: skip
    assert [one.heading for one in document.sections_for("markdown")] == [
        "t: Rates",
        "Data and models",
        "Measurement",
        "Incomplete cells",
    ]
    assert [one.heading for one in summary(run, grids(run), judge(run)).sections_for("terminal")] == ["Rates", ""]
    assert document.sections[0].blocks[0] == summary(run, grids(run), judge(run)).sections[0].blocks[0]


def test_results_come_before_data_and_models(tmp_path):
    cells = [cell("rnn", "greedy", seed, {"rate": number(1.0)}) for seed in range(12)]
    run = run_of(tmp_path, cells, {}, tasks={"words": {"corpus": "Words", "statistics": {"test": {"rows": 9}}}})
    document = report_document(run, grids(run), judge(run), [], costs=False)
    headings = [section.heading for section in document.sections_for("html")]
    assert headings[0] == "t"
    assert headings.index("Data and models") < headings.index("Measurement")
    (facts,) = document.prompt
    assert facts.items == {
        "Suite": "tests/report",
        "Status": "12 cells, all complete",
        "Seeds": "0, 1, 2, 3, 4, 5, 6, 7 and 4 more",
    }
    text = markdown_report(document)
    assert text.count("Corpus: Words") == text.count("9 |") == 1


def noted(name, *notes):
    table = replace(
        blocks("x")[doc.TableBlock], id=name, notes=doc.Notes(notes), file=doc.TableFile(name, name, name)
    )
    return DocumentSection(name, [table])


def test_notes_that_tables_share_are_written_once_but_files_have_all_of_them():
    sections = [noted("a", "[1] lost", "All.", "Two."), noted("b", "Two.", "All."), noted("c", "[1] lost", "All.")]
    document = Document("title", [], [*notes_once(sections)])
    assert [section.heading for section in document.sections_for("markdown")] == [
        "a", "b", "c", "Notes on all tables", "Notes on a, b",
    ]  # fmt: skip
    for name in ("html", "markdown", "terminal"):
        text = FORMATS[name](document)
        assert [text.count(note) for note in ("All.", "Two.", "lost")] == [1, 1, 2]
    assert [section.heading for section in document.sections_for("latex")] == ["a", "b", "c"]
    files = table_files(document)
    assert files == table_files(Document("title", [], sections))
    assert files["a"].index("All.") < files["a"].index("Two.")
    assert "Two." not in files["c"]


def test_a_terminal_shows_tables_without_names_so_only_notes_on_all_of_them_are_moved():
    sections = [noted("a", "All.", "Two."), noted("b", "Two.", "All."), noted("c", "All.")]
    moved = [*notes_once(sections, by_name=False)]
    assert [section.heading for section in moved] == ["a", "b", "c", "Notes on all tables"]
    assert moved[0].blocks[0].notes.items == ["Two."]


def test_a_lone_table_keeps_its_notes():
    (section,) = notes_once([noted("a", "All.")])
    assert section.blocks[0].notes.items == ["All."]
