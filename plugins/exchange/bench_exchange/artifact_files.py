"""Artifact files in exports: selects them and checks their contents."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from bench_core.data import Prediction
from bench_core.registry import stage_kinds
from bench_core.storage.artifact import FORMER_FILES
from bench_core.storage.file_formats import SHAPES, HistoryEntry, parsed

MAX_LINE_BYTES = 2**26  #: limit for a line of JSON
AS_TOKENS = b'"actions": "tokens"', b'"actions": null'  # see `write_predictions`; quotes inside strings are escaped
LINES: dict[str, Any] = {"history.jsonl": HistoryEntry, "predictions.jsonl.gz": Prediction, "parts.jsonl.gz": Any}


def carried() -> dict[str, tuple[str, ...]]:
    """Return the exported files of each kind of artifact or record, including their former names; inputs first."""
    files = {kind.record or kind.name: kind.files for kind in stage_kinds().values() if kind.files}
    return {
        kind: (*names, *(FORMER_FILES[name] for name in names if name in FORMER_FILES))
        for kind, names in files.items()
    }


class TooLarge(ValueError):
    """An unpacked file exceeds its size limit."""


def check(name: str, content: bytes, max_bytes: int) -> int:
    """Check an artifact file according to its name, and return its unpacked size in bytes.

    For stage kinds defined by plugins, only JSON syntax is checked. Raises TooLarge above `max_bytes`, and ValueError
    with a description of any other problem.
    """
    if name == "draws.npy":
        _check_replicates(content)
        return len(content)
    shapes = {**SHAPES, **LINES}
    shapes |= {old: shapes[new] for new, old in FORMER_FILES.items()}
    size, shape = 0, shapes.get(name, Any)
    if not name.endswith((".json", ".jsonl", ".jsonl.gz")):
        return len(content)
    for text in _texts(name, content, max_bytes):
        parsed(shape, text.replace(*AS_TOKENS) if shape is Prediction else text)
        size += len(text)
    return size


def _texts(name: str, content: bytes, max_bytes: int) -> Iterable[bytes]:
    """Return the JSON texts of a file: each line of a JSON lines file, otherwise the whole file."""
    if name.endswith(".gz"):
        return lines(content, max_bytes)
    return content.splitlines(keepends=True) if name.endswith(".jsonl") else [content]


def lines(content: bytes, max_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the lines of gzipped text; raise TooLarge above `max_bytes` and ValueError for damaged data."""
    read = 0
    try:
        with gzip.open(BytesIO(content)) as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                read += len(line)
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError(f"a line exceeds {MAX_LINE_BYTES:,} bytes")
                if max_bytes is not None and read > max_bytes:
                    raise TooLarge
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"not a complete gzip file: {error}") from None


def _check_replicates(content: bytes) -> None:
    import numpy as np

    from block_bootstrap import BLOCKS, REPLICATES

    array = np.load(BytesIO(content), allow_pickle=False, max_header_size=1000)
    if array.dtype != np.float64 or array.shape[1:] != (REPLICATES,) or len(array) > len(BLOCKS):
        raise ValueError(
            f"found {array.shape} {array.dtype}, expected {REPLICATES} float64 replicates per block length"
        )
