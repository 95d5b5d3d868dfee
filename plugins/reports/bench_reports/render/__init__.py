"""Output formats of a report: HTML, Markdown, LaTeX, plain text, CSV and JSON.

All of them write the same document (`document`, `render.report_document`), whose contents come from `content`.
"""
