"""Content of a report: tables, claims, choices, verdicts, outputs and notes, before any output format."""
