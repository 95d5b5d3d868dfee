"""Markdown, LaTeX, HTML, CSV and JSON."""
