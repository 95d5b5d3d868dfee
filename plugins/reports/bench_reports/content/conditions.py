"""The conditions under which numbers were measured, as plain text."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from bench_core.runs.results import CellResult, Run, Score
from bench_reports.content.environments import abridged
from bench_reports.content.sorting import by_key, names_on
from input_digests import described

MAX_REASON_CHARACTERS = 300  # characters of a reason in a footnote; the list of incomplete cells has the full text


def limits(run: Run) -> list[str]:
    """Return the limits of a run and its corpora as sentences."""
    return [run_limits(run), *filter(None, [corpus_note(run, names_on(run, "task"))])]


def exemptions(run: Run) -> str:
    """Return the contract checks from which the suite exempts parts, with the reasons."""
    texts = [f"{entry.part} ({entry.law.replace('_', ' ')}): {entry.reason}" for entry in run.suite.exempt]
    return "; ".join(texts)


def observed_inputs(run: Run) -> str:
    """Return the observed inputs of stages that no cache key covers, and the reads that could not be observed."""
    observed = run.info.get("observed") or {}
    hidden = [f"{name} (in {module})" for name, module in observed.get("unobserved", {}).items()]
    read = [described(sort, name) for sort, names in observed.items() if sort != "unobserved" for name in names]
    texts = [abridged(read) if read else "", f"unobserved: {abridged(hidden)}" if hidden else ""]
    return "; ".join(filter(None, texts))


def run_limits(run: Run) -> str:
    """Return the limits of a run, its profile, and the settings changed by `--set`."""
    limits, profile = run.suite.limits, run.info.get("profile")
    decoded = "all examples" if limits.examples is None else f"{limits.examples:,} examples"
    scored = "all" if limits.scored is None else f"{limits.scored:,}"
    text = f"Limits: {limits.max_tokens:,} tokens per output, {decoded} decoded, {scored} scored."
    changed = ", ".join(run.info.get("changes") or ())
    words = [text, f"Profile {profile}." if profile else "", f"Changed by --set: {changed}." if changed else ""]
    return " ".join(filter(None, words))


def corpora(run: Run, tasks: Iterable[str]) -> str:
    """Return the corpora of tasks, such as `WikiText-2 (completion)`."""
    about = run.info.get("tasks") or {}
    by_name = {task: about.get(task, {}).get("corpus") for task in tasks}
    return by_task(run, {task: corpus_text(corpus) for task, corpus in by_name.items() if corpus})


def corpus_text(corpus: str | Mapping[str, str]) -> str:
    """Return the name of a corpus, or the names of its splits if they differ."""
    if isinstance(corpus, str):
        return corpus
    names = [f"{split}: {name}" for split, name in corpus.items()]
    return ", ".join(names) if len({*corpus.values()}) > 1 else next(iter(corpus.values()), "")


def by_task(run: Run, texts: Mapping[str, str]) -> str:
    """Return texts about tasks, followed by task labels unless the run has a single task or the text is the label."""
    labels = {task: run.suite.labels.get(task, task) for task in texts}
    alone = len(names_on(run, "task")) <= 1
    same = {task: alone or labels[task].casefold() == text.casefold() for task, text in texts.items()}
    return ", ".join(text if same[task] else f"{text} ({labels[task]})" for task, text in texts.items())


def with_quotation_marks(text: str) -> str:
    """Return text on one line, with quotation marks in place of backticks."""
    return re.sub("`([^`]+)`", r"‘\1’", " ".join(text.split()))


def corpus_note(run: Run, tasks: Iterable[str]) -> str:
    """Return the corpora of tasks as a sentence; empty if they are unknown."""
    names = corpora(run, dict.fromkeys(tasks))
    return f"Corpus: {names}." if names else ""


def description(number: Score, examples: Collection[int], cells: Iterable[CellResult], metric: str) -> str:
    """Return unit, direction, likelihood, number of examples, signature and ceilings of a number."""
    words = [
        number.unit,
        {1: "higher is better", -1: "lower is better"}.get(number.better, ""),
        {"exact": "exact likelihood", "bound": "a bound", "estimate": "a sampling estimate"}.get(number.kind, ""),
        f"over {span(examples)} examples",
        f"signature {number.signature}" if number.signature else "",
        ceilings([cell for cell in cells if metric in cell.numbers], metric),
    ]
    return ", ".join(filter(None, words))


def ceilings(cells: Sequence[CellResult], metric: str) -> str:
    """Return the scores of references after tokenization and detokenization, with the cells if they differ."""
    numbers = [(cell.numbers[metric], cell) for cell in cells]
    by_score = by_key(
        (f"{number.ceiling:.{number.digits}f}", cell) for number, cell in numbers if number.ceiling is not None
    )
    if not by_score:
        return ""
    axes = [axis for axis in ("task", "model", "split") if len({cell.cell[axis] for cell in cells}) > 1]
    names = {
        score: ", ".join(dict.fromkeys(" ".join(str(cell.cell[axis]) for axis in axes) for cell in group))
        for score, group in by_score.items()
    }
    if len(by_score) == 1 and sum(map(len, by_score.values())) == len(cells):
        return f"tokenized references score {next(iter(by_score))}"
    scores = (f"{score} ({name})" if name else score for score, name in names.items())
    return f"tokenized references score {', '.join(scores)}"


def span(numbers: Collection[int]) -> str:
    """Return the range of numbers, such as `3 to 5`."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
