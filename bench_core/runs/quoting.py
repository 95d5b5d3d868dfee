"""Which prompts and references reports may show: all but those of data that forbid it, or as the suite says."""

from collections.abc import Mapping, Sequence
from typing import Any


def may_quote(task: str, about: Mapping[str, Any], quote: bool | Sequence[str]) -> bool:
    """Return whether reports may show texts of a task, by its entry in the run and by `quote` of the suite."""
    return not why_not_quoted(task, about, quote)


def why_not_quoted(task: str, about: Mapping[str, Any], quote: bool | Sequence[str]) -> str:
    """Return why reports may not show texts of a task; empty if they may."""
    if quote is False:
        return "the suite sets `quote: false`"
    if quote is True or task in quote:
        return ""
    of_older_runs = "" if about.get("embedded") else "their data may forbid it"
    return str(about.get("restricted", of_older_runs))
