r"""Write a document as LaTeX (`report.tex`), and its tables as files that a paper can `\input`."""

from collections.abc import Iterable
from typing import assert_never

from bench_reports import document as doc
from bench_reports.document import Block, Document, DocumentSection
from bench_reports.render.latex_tables import breakable, plain_table, table_file, too_wide
from bench_reports.render.latex_text import LATEX, latex

LOWERED = r"\ifdim\ht\fitted>.8\textheight\sbox{\fitted}{\resizebox{!}{.8\textheight}{\usebox{\fitted}}}\fi"
FITTED = r"\ifdim\wd\fitted>\linewidth\resizebox{\linewidth}{!}{\usebox{\fitted}}\else\usebox{\fitted}\fi"
PREAMBLE = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage[margin=2cm]{geometry}
\setlength{\emergencystretch}{3em}
\setlength{\belowcaptionskip}{4pt}
\newsavebox{\fitted}
\begin{document}
"""


def latex_report(document: Document) -> str:
    """Return a document as LaTeX, which needs the files of its tables and figures in the same folder."""
    sections = "".join(map(_section, document.sections_for("latex")))
    title = f"\\section*{{{latex(document.title)}}}\n"
    return PREAMBLE + title + _blocks(document.prompt) + sections + "\\end{document}\n"


def table_files(document: Document) -> dict[str, str]:
    """Return the texts of the table files by name."""
    return {table.file.name: table_file(table) for table in _tables(document) if table.file}


def too_wide_tables(document: Document) -> list[str]:
    """Return a message for each table that is wider than its place in print."""
    return [*filter(None, map(too_wide, _tables(document)))]


def _tables(document: Document) -> list[doc.TableBlock]:
    return [block for section in document.sections for block in section.blocks if isinstance(block, doc.TableBlock)]


def _section(section: DocumentSection) -> str:
    """Return a section; if it floats, captions replace headings, and the next section begins on a new page."""
    if section.floats:
        return _blocks(block for block in section.blocks if not isinstance(block, doc.Heading)) + "\\clearpage\n"
    return f"\\subsection*{{{latex(section.heading)}}}\n{_blocks(section.blocks)}"


def _blocks(blocks: Iterable[Block]) -> str:
    return "".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case doc.Heading(text):
            return f"\\subsubsection*{{{latex(text)}}}\n"
        case doc.Paragraph(sentences):
            return "".join(f"{LATEX.line(sentence)}\n" for sentence in sentences)
        case doc.Facts(items):
            return _list([f"{name}: {text}" for name, text in items.items()])
        case doc.Notes(items):
            return _list(items) if items else ""
        case doc.TableBlock():
            return f"\\input{{tables/{block.file.name}.tex}}\n" if block.file else _table(block)
        case doc.FigureBlock():
            return _figure(block) + _block(block.notes)
        case doc.Claims(items):
            claims = [(f"{latex(claim.id)}, {latex(claim.verdict)}", latex(claim.statement)) for claim in items]
            return _descriptions(claims) + _block(block.notes)
        case doc.ExampleBlock():
            return _example(block)
        case doc.FileList() | doc.SideBySide():
            return ""
    assert_never(block)


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"\\item {breakable(latex(item))}\n" for item in items)
    return f"\\begin{{itemize}}\n{lines}\\end{{itemize}}\n\n"


def _descriptions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names in LaTeX, each with its description."""
    lines = "".join(f"\\item[{name}] {text}\n" for name, text in pairs)
    return f"\\begin{{description}}\n{lines}\\end{{description}}\n"


def _table(table: doc.TableBlock) -> str:
    """Return a table in place, below its description; a table of text needs some space."""
    above = f"{latex(table.description)}\n" if table.description else ""
    space = "\n\\medskip" if table.side == "left" else ""
    return f"{above}{space}\\noindent\n{plain_table(table)}{_block(table.notes) if table.notes else ''}"


def _figure(figure: doc.FigureBlock) -> str:
    if figure.missing:
        return f"\\subsection*{{{latex(figure.heading)}}}\nNot drawn: {latex(figure.missing)}\n"
    drawing = f"\\sbox{{\\fitted}}{{\\includegraphics{{{figure.folder}/{figure.id}.pdf}}}}%\n{LOWERED}%\n{FITTED}\n"
    caption = f"\\caption{{{latex(figure.heading)}}}\n\\label{{fig:{figure.id}}}\n"
    return f"\\begin{{figure}}[htbp]\n\\centering\n{drawing}{caption}\\end{{figure}}\n"


def _example(example: doc.ExampleBlock) -> str:
    given = [(latex(name), latex(text)) for name, text in example.given.items()]
    outputs = [(latex(cell), latex(output)) for cell, output in example.outputs]
    return f"\\subsubsection*{{{latex(example.name)}}}\n{_descriptions([*given, *outputs])}"
