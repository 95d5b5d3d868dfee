"""Test sets downloaded by sacrebleu; this module downloads nothing."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench_core import DataError, suggestion
from bench_data.records import DataRecord
from bench_data.settings import TestSet
from bench_text.api import corpora


def digests(origin: TestSet) -> Mapping[str, str]:
    """Return the digests of a test set's files for a Config's `reads`; raise DataError if the test set is missing."""
    return {f"sacrebleu {path.name}": corpora.digest(path) for path in _files(origin).values()}


def rows(origin: TestSet) -> Iterator[DataRecord]:
    """Yield the lines of a test set: `source`, its first reference as `target`, and the fields of sacrebleu."""
    files = _files(origin)
    columns = {field: corpora.read_lines(path) for field, path in files.items()}
    lengths = {field: len(lines) for field, lines in columns.items()}
    if len({*lengths.values()}) > 1:
        counts = ", ".join(f"{files[field].name} {number:,}" for field, number in lengths.items())
        raise DataError(f"files of {origin.sacrebleu} {origin.pair} differ in their numbers of lines: {counts}.")
    references = [field for field in columns if field.startswith("ref")]
    if not references:
        raise DataError(f"test set {origin.sacrebleu} {origin.pair} has no references that sacrebleu uses.")
    for number, row in enumerate(zip(*columns.values(), strict=True), 1):
        values = dict(zip(columns, row, strict=True))
        target, *others = (values[field] for field in references)
        fields = {"source": values["src"], "target": target, "line": str(number)}
        yield DataRecord(f"{files['src']}:{number}", {**values, **fields}, others)


def _files(origin: TestSet) -> dict[str, Path]:
    """Return the file of each field, sorted by name; includes only the references that sacrebleu uses."""
    dataset, pair = _dataset(origin), origin.pair
    try:
        fields, files = dataset.fieldnames(pair), dataset.get_files(pair)
        chosen = {dataset.get_source_file(pair), *dataset.get_reference_files(pair)}
    except (
        OSError,
        ValueError,
        SyntaxError,
        AssertionError,
        SystemExit,
    ) as error:  # invalid XML or test sets
        raise DataError(f"test set {origin.sacrebleu} {pair} cannot be read: {error}. {_advice(origin)}") from None
    return {
        field: Path(file)
        for field, file in sorted(zip(fields, files, strict=True))
        if file in chosen or field in ("docid", "domain", "genre", "origlang")
    }


def _dataset(origin: TestSet) -> Any:
    """Return sacrebleu's description of a test set, without downloading it; raise DataError for an unknown name."""
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR  # set by the environment variable SACREBLEU

    name, pair = origin.sacrebleu, origin.pair
    if name not in DATASETS:
        raise DataError(f"sacrebleu has no test set {name!r}. {suggestion(name, [*DATASETS])}")
    if pair not in DATASETS[name].langpairs:
        raise DataError(f"test set {name} has no pair {pair!r}. {suggestion(pair, [*DATASETS[name].langpairs])}")
    dataset: Any = copy.copy(DATASETS[name])
    raw = Path(SACREBLEU_DIR) / name / "raw"

    def maybe_download() -> None:
        if not raw.is_dir() or not any(raw.iterdir()):
            raise DataError(f"test set {name} {pair} is not in {raw.parent}. {_advice(origin)}")

    dataset.maybe_download = maybe_download
    return dataset


def _advice(origin: TestSet) -> str:
    return f"Run `sacrebleu --test-set {origin.sacrebleu} --language-pair {origin.pair} --echo src` first."
