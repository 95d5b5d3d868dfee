"""Output formats of a report: HTML, Markdown, LaTeX, plain text, CSV and JSON.

Not here: what a report says, which is one document for all formats (`document`, `content.report_document`).
"""
