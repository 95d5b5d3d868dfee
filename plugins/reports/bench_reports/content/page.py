"""Title, facts and statistics of a report as plain text."""

from collections.abc import Iterable, Mapping
from math import exp
from typing import Any

from bench_core.runs.reporting import unchecked_models
from bench_core.runs.results import Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.grids import gathered
from bench_core.terminal import count_of
from bench_reports.content.conditions import (
    MAX_REASON_CHARACTERS,
    by_task,
    corpora,
    exemptions,
    observed_inputs,
    span,
    with_quotation_marks,
)
from bench_reports.content.environments import abridged, computed_with
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import names_on, ordered, seed_of
from bench_reports.content.verdicts import obstacles
from bench_reports.language.of_suite import language


def title(run: Run) -> str:
    """Return the title of a run's report."""
    return str(run.info.get("title") or run.suite.title or run.suite.suite)


def incomplete(run: Run) -> list[str]:
    """Return the cells that failed or did not run, with the reasons."""
    return [
        f"{cell_name(cell.cell)} ({cell.status}){f': {cell.reason}' if cell.reason else ''}"
        for cell in ordered(run)
        if cell.status != "done"
    ]


def digests(texts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the abbreviated digests of prompts, separators and references by split."""
    by_split = {split: about["asked"] for split, about in texts.items() if split != "train" and "asked" in about}
    return ", ".join(f"{split} {digest}" for split, digest in by_split.items())


def unwritable(texts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the numbers of references by split that the vocabulary cannot represent."""
    by_split = {split: about for split, about in texts.items() if about.get("unwritable")}
    return ", ".join(
        f"{about['unwritable']:,} of {about['references']:,} in {split}" for split, about in by_split.items()
    )


def head(run: Run) -> dict[str, str]:
    """Return the remarks to print before the first table, by name."""
    notices = [about.get("notice") or "" for about in (run.info.get("tasks") or {}).values()]
    missing, cells = sum(cell.status != "done" for cell in run.cells), count_of(len(run.cells), "cell")
    seeds = sorted({seed_of(cell) for cell in run.cells if "seed" in cell.cell})
    tables = [table for table in language(run).tables if table.reference]
    reasons = "; ".join(dict.fromkeys(reason.rstrip(".") for table in tables for reason in obstacles(run, table)))
    properties = {
        "Source": run.info.get("source") or run.suite.source,
        "Suite": run.info.get("label") or run.suite.suite,
        "Status": f"{missing:,} of {cells} incomplete" if missing else f"{cells}, all complete",
        "Seeds": abridged([*map(str, seeds)]),
        "Published numbers": reasons and f"not comparable: {shortened(reasons, MAX_REASON_CHARACTERS)}",
        "Notice": " ".join(dict.fromkeys(notices)).strip(),
    }
    return {name: text for name, text in properties.items() if text}


def facts(run: Run) -> dict[str, str]:
    """Return properties of data and models; the best possible perplexity is exp(entropy in nats)."""
    tasks = run.info.get("tasks") or {}
    sizes = {task: f"{about['vocabulary']:,}" for task, about in tasks.items() if about.get("vocabulary", 0) > 1}
    examples = {task: overlaps(about["overlap"]) for task, about in tasks.items() if "overlap" in about}
    asked = {task: text for task, about in tasks.items() if (text := digests(about.get("texts") or {}))}
    optima = {task: f"{exp(about['entropy']):.2f}" for task, about in tasks.items() if "entropy" in about}
    bounded = {
        cell.cell["task"] for cell in run.cells if any(number.ceiling is not None for number in cell.numbers.values())
    }
    lost = {task: unwritable(tasks[task].get("texts") or {}) for task in tasks if task in bounded}
    properties = {
        "Computed with": computed_with(run),
        "Corpus": corpora(run, names_on(run, "task")),
        "Examples": by_task(run, examples),
        "Texts (sha256)": by_task(run, asked),
        "References outside the vocabulary": by_task(run, {task: text for task, text in lost.items() if text}),
        "Vocabulary": by_task(run, sizes),
        "Best possible perplexity": by_task(run, optima),
        "Exempt from checks": exemptions(run),
        "Contracts not checked": unchecked_models(run),
        "Inputs outside cache keys": observed_inputs(run),
        "Note": with_quotation_marks(run.suite.note),
        "Models": ", ".join(_models(run)),
    }
    return {name: text for name, text in properties.items() if text}


def overlaps(splits: Mapping[str, Mapping[str, int]]) -> str:
    """Return the numbers of examples of each split, and how many are repeated or shared with other splits."""
    texts = []
    for split, counts in splits.items():
        examples, repeated, shared = counts["examples"], counts["repeated"], counts["shared"]
        words = [f"{split} {examples:,}"]
        words += [f"{repeated:,} repeated"] if repeated else []
        words += [f"{shared:,} shared with train"] if shared else []
        words += [f"{counts['chosen_by']:,} shared with valid"] if "chosen_by" in counts else []
        texts.append(words[0] + (f" ({', '.join(words[1:])})" if words[1:] else ""))
    return "; ".join(texts)


def _models(run: Run) -> Iterable[str]:
    """Yield models with their numbers of parameters; the combinations of a grid are one entry."""
    about = run.info.get("models") or {}
    for name in gathered(names_on(run, "model"), run.grids):
        grid = run.grids.get(name)
        sizes = [about.get(model, {}).get("parameters") for model in (grid.combinations if grid else [name])]
        available = [size for size in sizes if size]
        words = [f"{len(sizes):,} combinations"] if grid else []
        words += [f"{span(available)} parameter{'s' if {*available} != {1} else ''}"] if available else []
        words += [] if grid else [f"{what}: {text}" for what, text in about.get(name, {}).get("about", {}).items()]
        label = run.suite.labels.get(name, name)
        yield f"{label} ({', '.join(words)})" if words else label


def statistics(run: Run) -> list[list[str]]:
    """Return the statistics of the data as a table, headings first; empty if there are none."""
    about = run.info.get("tasks") or {}
    rows = {
        f"{run.suite.labels.get(task, task)}, {split}": numbers
        for task in names_on(run, "task")
        for split, numbers in (about.get(task, {}).get("statistics") or {}).items()
    }
    names = list(dict.fromkeys(name for numbers in rows.values() for name in numbers))
    table = [[label, *(_statistic(numbers.get(name)) for name in names)] for label, numbers in rows.items()]
    return [["split", *(name.replace("_", " ") for name in names)], *table] if names else []


def _statistic(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{round(value, 2) + 0.0:,.2f}"
