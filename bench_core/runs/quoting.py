"""Which prompts and references reports may show: all but those of data that forbid it, or as the suite says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.config import TaskConfig
from bench_core.registry import hook
from bench_core.runs.results import Run

REMEDY = (
    "If you may show them, add `quote: true` to the suite, or list the tasks there, and run it again: nothing is "
    "computed again."
)


def restriction(task: TaskConfig) -> str:
    """Return why the data of a task forbid showing their texts, by the plugins that know; empty if none does."""
    return next(filter(None, hook().bench_restricted(task=task)), "")


def may_quote(task: str, about: Mapping[str, Any], quote: bool | Sequence[str]) -> bool:
    """Return whether reports may show texts of a task, by its entry in the run and by `quote` of the suite."""
    return not _reason(task, about, quote)


def _reason(task: str, about: Mapping[str, Any], quote: bool | Sequence[str]) -> str:
    if quote is False:
        return "the suite sets `quote: false`"
    if quote is True or task in quote:
        return ""
    of_older_runs = "" if about.get("embedded") else "their data may forbid it"
    return str(about.get("restricted", of_older_runs))


def withheld(run: Run, tasks: Iterable[str]) -> dict[str, str]:
    """Return those tasks of a run whose texts may not be shown, each with the reason."""
    known, quote = run.info.get("tasks") or {}, run.suite.quote
    reasons = {task: _reason(task, known.get(task) or {}, quote) for task in dict.fromkeys(tasks)}
    return {task: reason for task, reason in reasons.items() if reason}


def why_withheld(run: Run, tasks: Iterable[str]) -> str:
    """Return why prompts and references of some tasks are not shown, and what changes that; empty if all are."""
    groups: dict[str, list[str]] = {}
    for task, reason in withheld(run, tasks).items():
        groups.setdefault(reason, []).append(task)
    sentences = [
        f"Prompts and references of {', '.join(names)} are not shown: {why}." for why, names in groups.items()
    ]
    return " ".join([*sentences, *([REMEDY] if groups and run.suite.quote is not False else [])])
