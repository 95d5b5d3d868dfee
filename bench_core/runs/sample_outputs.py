"""The sample outputs of a run, with details added by sections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bench_core.computing.stages import sample_of
from bench_core.data import Prediction
from bench_core.errors import StoreError
from bench_core.planning.plan import Plan
from bench_core.registry import sections
from bench_core.runs.quoting import may_quote
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite

TEXT_FIELDS = ("steps", "words", "order")  # fields of a sample that may repeat its text


def samples(suite: Suite, plan: Plan, store: Store, tasks: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield sample outputs of the first seed, with prompts and references only if the data may be quoted."""
    quotable = {name for name, info in tasks.items() if may_quote(name, info, suite.quote)}
    for cell, artifacts in plan.of_cell.items():
        if "decode" not in artifacts or cell.seed != suite.seeds[0]:
            continue
        for sample in _outputs(suite, store, cell, artifacts, cell.task in quotable):
            visible = sample if cell.task in quotable else _without_data(sample)
            yield {"cell": cell.axes, **visible}


def stored_json(store: Store, kind: str, key: str, name: str) -> Any:
    """Return the content of a stored JSON file, or None if the stage did not finish."""
    try:
        return store.find(kind, key).json(name)
    except StoreError:
        return None


def _outputs(
    suite: Suite, store: Store, cell: Cell, artifacts: Mapping[str, str], quotable: bool
) -> Sequence[Mapping[str, Any]]:
    """Return the sample outputs of a cell, with data for figures."""
    key = artifacts["decode"]
    stored: Sequence[Mapping[str, Any]] = stored_json(store, "decode", key, "samples.json") or ()
    outputs = stored[: suite.samples]
    info = stored_json(store, "prepare", artifacts["prepare"], "task_info.json") or {}

    def predictions() -> Sequence[Prediction]:
        return read_predictions(store.get("decode", key).file(PREDICTIONS))

    def hidden(predictions: Sequence[Prediction]) -> list[int]:
        private = () if quotable else predictions
        return [prediction.id for prediction in private if _repeated_field(sample_of(prediction))]

    try:
        if 0 < len(outputs) < suite.samples:
            outputs = [*outputs, *map(sample_of, islice(predictions(), len(outputs), suite.samples))]
        arguments = (suite, cell.axes, predictions, info.get("vocabulary", ()), hidden)
        answers = [details for section in sections() for details in section.details(*arguments)]
    except StoreError:  # imported records do not contain predictions
        return outputs
    return detailed(outputs, predictions(), answers) if answers else outputs


def _without_data(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Remove prompt and reference from an output, and also its text if that repeats the prompt or the reference."""
    field = _repeated_field(sample)
    text = f"(the {field}, word for word)" if field else sample["text"]
    fields = {name: value for name, value in sample.items() if not (field and name in TEXT_FIELDS)}
    return {**fields, "text": text, "prompt": "", "reference": ""}


def _repeated_field(sample: Mapping[str, Any]) -> str | None:
    """Return the field that an output repeats word for word, "prompt" or "reference", or None."""
    texts = {name: " ".join(sample.get(name, "").split()) for name in ("prompt", "reference", "text")}
    return next((name for name in ("prompt", "reference") if texts[name] and texts[name] == texts["text"]), None)


def detailed(
    samples: Sequence[Mapping[str, Any]],
    predictions: Iterable[Prediction],
    answers: Iterable[Mapping[int, Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Add plugins' data about individual outputs to the samples; may also add samples."""
    by_id = {sample["id"]: {**sample} for sample in samples}
    details = [(example, fields) for answer in answers for example, fields in answer.items()]
    missing = {example for example, _ in details} - by_id.keys()
    by_id.update({prediction.id: sample_of(prediction) for prediction in predictions if prediction.id in missing})
    for example, fields in details:
        by_id[example] = {**by_id[example], **fields}
    return [by_id[example] for example in sorted(by_id)]
