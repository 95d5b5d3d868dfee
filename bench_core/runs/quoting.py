"""Which prompts and references may be shown: of embedded and generated data, and of tasks that a suite names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.runs.results import Run


def may_quote(task: str, about: Mapping[str, Any], quote: bool | Sequence[str]) -> bool:
    """Return whether texts of a task may be shown, by what a run tells `about` it and by `quote` of the suite."""
    return bool(about.get("embedded")) or (quote if isinstance(quote, bool) else task in quote)


def withheld(run: Run, tasks: Iterable[str]) -> list[str]:
    """Return those of the tasks of a run whose prompts and references may not be shown, each once."""
    known, quote = run.info.get("tasks") or {}, run.suite.quote
    return [task for task in dict.fromkeys(tasks) if not may_quote(task, known.get(task) or {}, quote)]


def why_withheld(tasks: Sequence[str]) -> str:
    """Return the sentence that says why prompts and references of tasks are not shown, and what changes that."""
    names = ", ".join(tasks)
    return (
        f"Prompts and references of {names} are not shown, as their data may forbid it. If you may show them, as "
        f"your own data, write ‘quote: [{names}]’ into the suite and run it again: nothing is computed again."
    )
