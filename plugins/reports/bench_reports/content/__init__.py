"""Content of a report, independent of output formats: tables, claims, choices, verdicts, outputs and notes.

Figures are in `figures`, statistical tests in `statistics`, output formats in `render`.
"""
