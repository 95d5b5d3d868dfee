"""What stands in a report: tables, claims, choices, verdicts, outputs and notes, before any format."""
