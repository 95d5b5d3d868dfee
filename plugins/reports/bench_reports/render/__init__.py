"""Output formats of a report: HTML, Markdown, LaTeX, plain text, CSV and JSON."""
