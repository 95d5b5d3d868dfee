"""Content of a report: tables, claims, choices, verdicts, outputs and notes, before any output format.

Not here: figures (`figures`), statistical tests (`statistics`), and formats (`render`).
"""
