"""The sample outputs of a run, with what sections want to know of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bench_core.computing.stages import sample_of
from bench_core.data import Outcome
from bench_core.errors import StoreError
from bench_core.planning.plan import Plan
from bench_core.registry import sections
from bench_core.runs.quoting import may_quote
from bench_core.stage_kinds import OUTCOMES
from bench_core.storage.outcomes import read_outcomes
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite

REPEATS = ("steps", "words", "order")  # what of a sample may repeat its text


def samples(suite: Suite, plan: Plan, store: Store, tasks: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield sample outputs of the first seed; prompts and references only of data that allow it."""
    quotable = {name for name, about in tasks.items() if may_quote(name, about, suite.quote)}
    for cell, artifacts in plan.of_cell.items():
        if "decode" not in artifacts or cell.seed != suite.seeds[0]:
            continue
        for sample in _outputs(suite, store, cell, artifacts, cell.task in quotable):
            shown = sample if cell.task in quotable else _without_data(sample)
            yield {"cell": cell.axes, **shown}


def stored_json(store: Store, kind: str, key: str, name: str) -> Any:
    """Return a stored JSON file, or None if the stage did not finish."""
    try:
        return store.kept(kind, key).json(name)
    except StoreError:
        return None


def _outputs(
    suite: Suite, store: Store, cell: Cell, artifacts: Mapping[str, str], quotable: bool
) -> Sequence[Mapping[str, Any]]:
    """Return the sample outputs of a cell, with the data that figures need."""
    key = artifacts["decode"]
    stored: Sequence[Mapping[str, Any]] = stored_json(store, "decode", key, "samples.json") or ()
    found = stored[: suite.samples]
    info = stored_json(store, "prepare", artifacts["prepare"], "facts.json") or {}

    def outcomes() -> Sequence[Outcome]:
        return read_outcomes(store.get("decode", key).file(OUTCOMES))

    def hidden(outcomes: Sequence[Outcome]) -> list[int]:
        return [] if quotable else [outcome.id for outcome in outcomes if _repeated(sample_of(outcome))]

    try:
        if 0 < len(found) < suite.samples:
            found = [*found, *map(sample_of, islice(outcomes(), len(found), suite.samples))]
        about = (suite, cell.axes, outcomes, info.get("vocabulary", ()), hidden)
        answers = [one for section in sections() for one in section.details(*about)]
    except StoreError:  # only what reports are made of was carried here
        return found
    return detailed(found, outcomes(), answers) if answers else found


def _without_data(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return an output without its source and reference, and without its text if that repeats one of them."""
    data = _repeated(sample)
    text = f"(the {data}, word for word)" if data else sample["text"]
    shown = {name: value for name, value in sample.items() if not (data and name in REPEATS)}
    return {**shown, "text": text, "prompt": "", "reference": ""}


def _repeated(sample: Mapping[str, Any]) -> str | None:
    """Return whether an output repeats its prompt or its reference word for word; None if neither."""
    told = {name: " ".join(sample.get(name, "").split()) for name in ("prompt", "reference", "text")}
    return next((name for name in ("prompt", "reference") if told[name] and told[name] == told["text"]), None)


def detailed(
    samples: Sequence[Mapping[str, Any]],
    outcomes: Iterable[Outcome],
    answers: Iterable[Mapping[int, Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Return samples with the data of plugins about single outputs, which may add samples."""
    found = {sample["id"]: {**sample} for sample in samples}
    details = [(number, more) for answer in answers for number, more in answer.items()]
    lacking = {number for number, _ in details} - found.keys()
    found.update({outcome.id: sample_of(outcome) for outcome in outcomes if outcome.id in lacking})
    for number, more in details:
        found[number] = {**found[number], **more}
    return [found[number] for number in sorted(found)]
