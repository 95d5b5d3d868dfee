"""Decides which prompts and references reports may show, from the terms of the data and the suite's `quote`."""

from collections.abc import Mapping, Sequence
from typing import Any


def may_quote(task: str, info: Mapping[str, Any], quote: bool | Sequence[str]) -> bool:
    """Return whether reports may show texts of a task, given the task's entry in the run and the suite's `quote`."""
    return not why_not_quoted(task, info, quote)


def why_not_quoted(task: str, info: Mapping[str, Any], quote: bool | Sequence[str]) -> str:
    """Return the reason why reports may not show texts of a task; empty if they may."""
    if quote is False:
        return "the suite sets `quote: false`"
    if quote is True or task in quote:
        return ""
    default = "" if info.get("embedded") else "their data may forbid it"
    return str(info.get("restricted", default))
