"""Title, facts and statistics of a report as plain text."""

from collections.abc import Iterable, Mapping
from math import exp
from typing import Any

from bench_core.runs.reporting import unchecked_models
from bench_core.runs.results import Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.grids import gathered
from bench_reports.content.conditions import LONGEST, by_task, corpora, exemptions, observed_inputs, quoted, span
from bench_reports.content.environments import computed_with
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import names_on, ordered
from bench_reports.content.verdicts import obstacles
from bench_reports.language.of_suite import language


def title(run: Run) -> str:
    """Return the title of a run's report."""
    return str(run.info.get("title") or run.suite.title or run.suite.suite)


def incomplete(run: Run) -> list[str]:
    """Return the cells that failed or did not run, with the reasons."""
    return [
        f"{cell_name(one.cell)} ({one.status}){f': {one.reason}' if one.reason else ''}"
        for one in ordered(run)
        if one.status != "done"
    ]


def comparability(run: Run) -> list[str]:
    """Return the limits of a run, what sets it apart from what was published, and how much of it is missing."""
    differing = [
        one.rstrip(".") for table in language(run).tables if table.reference for one in obstacles(run, table)
    ]
    unlike = [f"Not comparable with the published: {shortened(one, LONGEST)}." for one in dict.fromkeys(differing)]
    missing = sum(one.status != "done" for one in run.cells)
    lacking = f"{missing:,} of {len(run.cells):,} cells are incomplete." if missing else ""
    return [*filter(None, [*unlike, lacking])]


def digests(texts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return by split the first digits of the digest of what models are asked: prompts, separators, references."""
    found = {split: about["asked"] for split, about in texts.items() if split != "train" and "asked" in about}
    return ", ".join(f"{split} {asked}" for split, asked in found.items())


def unwritable(texts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return by split how many references its own tokens cannot write."""
    found = {split: about for split, about in texts.items() if about.get("unwritable")}
    return ", ".join(
        f"{about['unwritable']:,} of {about['references']:,} in {split}" for split, about in found.items()
    )


def facts(run: Run) -> dict[str, str]:
    """Return what there is to say of a whole run, by name; perplexities of data whose entropy is known, in nats."""
    tasks = run.info.get("tasks") or {}
    notices = dict.fromkeys(about["notice"] for about in tasks.values() if about.get("notice"))
    sizes = {task: f"{about['vocabulary']:,}" for task, about in tasks.items() if about.get("vocabulary", 0) > 1}
    examples = {task: overlaps(about["overlap"]) for task, about in tasks.items() if "overlap" in about}
    asked = {task: text for task, about in tasks.items() if (text := digests(about.get("texts") or {}))}
    optima = {task: f"{exp(about['entropy']):.2f}" for task, about in tasks.items() if "entropy" in about}
    bounded = {
        cell.cell["task"] for cell in run.cells if any(one.ceiling is not None for one in cell.numbers.values())
    }
    lost = {task: unwritable(tasks[task].get("texts") or {}) for task in tasks if task in bounded}
    known = {
        "Source": run.info.get("source") or run.suite.source,
        "Suite": run.info.get("label") or run.suite.suite,
        "Computed with": computed_with(run),
        "Corpus": corpora(run, names_on(run, "task")),
        "Examples": by_task(run, examples),
        "Texts (sha256)": by_task(run, asked),
        "References that tokens cannot write": by_task(run, {task: text for task, text in lost.items() if text}),
        "Vocabulary": by_task(run, sizes),
        "Best possible perplexity": by_task(run, optima),
        "Exempt from checks": exemptions(run),
        "Contracts not checked": unchecked_models(run),
        "Inputs outside cache keys": observed_inputs(run),
        "Notice": " ".join(notices),
        "Note": quoted(run.suite.note),
        "Models": ", ".join(_models(run)),
    }
    return {name: text for name, text in known.items() if text}


def overlaps(splits: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many examples each split has, how many are repeated, and how many are in an earlier split, too."""
    texts = []
    for split, found in splits.items():
        examples, repeated, shared = found["examples"], found["repeated"], found["shared"]
        words = [f"{split} {examples:,}"]
        words += [f"{repeated:,} repeated"] if repeated else []
        words += [f"{shared:,} shared with train"] if shared else []
        words += [f"{found['chosen_by']:,} shared with valid"] if "chosen_by" in found else []
        texts.append(words[0] + (f" ({', '.join(words[1:])})" if words[1:] else ""))
    return "; ".join(texts)


def _models(run: Run) -> Iterable[str]:
    """Yield models with the numbers of their parameters, the combinations of a grid as one."""
    known = run.info.get("models") or {}
    for name in gathered(names_on(run, "model"), run.grids):
        grid = run.grids.get(name)
        sizes = [known.get(one, {}).get("parameters") for one in (grid.combinations if grid else [name])]
        found = [size for size in sizes if size]
        words = [f"{len(sizes):,} combinations"] if grid else []
        words += [f"{span(found)} parameter{'s' if {*found} != {1} else ''}"] if found else []
        words += [] if grid else [f"{what}: {text}" for what, text in known.get(name, {}).get("about", {}).items()]
        label = run.suite.labels.get(name, name)
        yield f"{label} ({', '.join(words)})" if words else label


def statistics(run: Run) -> list[list[str]]:
    """Return the statistics of the data as a table, headings first; empty if there are none."""
    known = run.info.get("tasks") or {}
    rows = {
        f"{run.suite.labels.get(task, task)}, {split}": numbers
        for task in names_on(run, "task")
        for split, numbers in (known.get(task, {}).get("statistics") or {}).items()
    }
    names = list(dict.fromkeys(name for numbers in rows.values() for name in numbers))
    table = [[label, *(_statistic(numbers.get(name)) for name in names)] for label, numbers in rows.items()]
    return [["split", *(name.replace("_", " ") for name in names)], *table] if names else []


def _statistic(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
