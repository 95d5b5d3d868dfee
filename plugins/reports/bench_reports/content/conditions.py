"""The conditions under which numbers were measured, as plain text."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from bench_core.runs.results import CellResult, Number, Run
from bench_reports.content.environments import abridged
from bench_reports.content.sorting import by_key, names_on
from input_digests import described

LONGEST = 300  # characters of a reason in a footnote; the list of incomplete cells has all of it


def limits(run: Run) -> list[str]:
    """Return the limits that all numbers of a run have in common, and what they were made of."""
    return [run_limits(run), *filter(None, [corpus_note(run, names_on(run, "task"))])]


def exemptions(run: Run) -> str:
    """Return which laws the suite does not ask of its parts, and why."""
    texts = [f"{one.part} ({one.law.replace('_', ' ')}): {one.reason}" for one in run.suite.exempt]
    return "; ".join(texts)


def observed_inputs(run: Run) -> str:
    """Return which inputs stages were observed to read that no key covers, and what could not be observed."""
    found = run.info.get("observed") or {}
    hidden = [f"{name} (in {module})" for name, module in found.get("unobserved", {}).items()]
    read = [described(sort, name) for sort, names in found.items() if sort != "unobserved" for name in names]
    texts = [abridged(read) if read else "", f"unobserved: {abridged(hidden)}" if hidden else ""]
    return "; ".join(filter(None, texts))


def run_limits(run: Run) -> str:
    """Return the limits of a run, its profile, and what `--set` changed."""
    limits, profile = run.suite.limits, run.info.get("profile")
    decoded = "all examples" if limits.examples is None else f"{limits.examples:,} examples"
    scored = "all" if limits.scored is None else f"{limits.scored:,}"
    text = f"Limits: {limits.max_tokens:,} tokens an output, {decoded} decoded, {scored} scored."
    changed = ", ".join(run.info.get("changes") or ())
    words = [text, f"Profile {profile}." if profile else "", f"Changed by --set: {changed}." if changed else ""]
    return " ".join(filter(None, words))


def corpora(run: Run, tasks: Iterable[str]) -> str:
    """Return the corpora behind tasks, such as `WikiText-2 (completion)`."""
    known = run.info.get("tasks") or {}
    found = {task: known.get(task, {}).get("corpus") for task in tasks}
    return by_task(run, {task: corpus_text(corpus) for task, corpus in found.items() if corpus})


def corpus_text(corpus: str | Mapping[str, str]) -> str:
    """Return the name of a corpus, or those of its splits if they differ, as text."""
    if isinstance(corpus, str):
        return corpus
    names = [f"{split}: {name}" for split, name in corpus.items()]
    return ", ".join(names) if len({*corpus.values()}) > 1 else next(iter(corpus.values()), "")


def by_task(run: Run, texts: Mapping[str, str]) -> str:
    """Return what is known of tasks with their labels; without, where a run has one task or a text says the same."""
    labels = {task: run.suite.labels.get(task, task) for task in texts}
    alone = len(names_on(run, "task")) <= 1
    same = {task: alone or labels[task].casefold() == text.casefold() for task, text in texts.items()}
    return ", ".join(text if same[task] else f"{text} ({labels[task]})" for task, text in texts.items())


def quoted(text: str) -> str:
    """Return text on one line, in which names that stand between backticks have quotation marks."""
    return re.sub("`([^`]+)`", r"‘\1’", " ".join(text.split()))


def corpus_note(run: Run, tasks: Iterable[str]) -> str:
    """Return the corpora behind tasks as a sentence, if they are known."""
    found = corpora(run, dict.fromkeys(tasks))
    return f"Corpus: {found}." if found else ""


def description(number: Number, examples: Collection[int], cells: Iterable[CellResult], metric: str) -> str:
    """Return what a number is: unit, direction, likelihood, examples, signature, and ceilings in cells."""
    words = [
        number.unit,
        {1: "higher is better", -1: "lower is better"}.get(number.better, ""),
        {"exact": "exact likelihood", "bound": "a bound", "estimate": "an estimate by sampling"}.get(number.kind, ""),
        f"over {span(examples)} examples",
        f"signature {number.signature}" if number.signature else "",
        ceilings([cell for cell in cells if metric in cell.numbers], metric),
    ]
    return ", ".join(filter(None, words))


def ceilings(cells: Sequence[CellResult], metric: str) -> str:
    """Return what references score as the tokens of tasks or models write them, with the cells if they differ."""
    numbers = [(cell.numbers[metric], cell) for cell in cells]
    found = by_key((f"{one.ceiling:.{one.digits}f}", cell) for one, cell in numbers if one.ceiling is not None)
    if not found:
        return ""
    axes = [axis for axis in ("task", "model", "split") if len({cell.cell[axis] for cell in cells}) > 1]
    names = {
        score: ", ".join(dict.fromkeys(" ".join(str(one.cell[axis]) for axis in axes) for one in own))
        for score, own in found.items()
    }
    if len(found) == 1 and sum(map(len, found.values())) == len(cells):
        return f"references written by their tokens score {next(iter(found))}"
    told = (f"{score} ({name})" if name else score for score, name in names.items())
    return f"references written by their tokens score {', '.join(told)}"


def span(numbers: Collection[int]) -> str:
    """Return the lowest and the highest of numbers, such as `3 to 5`."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
