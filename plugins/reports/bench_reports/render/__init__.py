"""Files of a report: Markdown, LaTeX, HTML, CSV and JSON."""
