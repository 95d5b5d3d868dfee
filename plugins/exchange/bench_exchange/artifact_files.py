"""The files of artifacts in exports: which are carried, and checks of their content, lines and numbers included."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from bench_core.data import Outcome
from bench_core.registry import stage_kinds
from bench_core.storage.file_formats import SHAPES, Evaluation, parsed

MOST_LINE = 2**26  #: bytes of a JSON line
AS_TOKENS = b'"actions": "tokens"', b'"actions": null'  # see `write_outcomes`; within a string, quotes are escaped
LINES: dict[str, Any] = {"history.jsonl": Evaluation, "outcomes.jsonl.gz": Outcome, "parts.jsonl.gz": Any}


def carried() -> dict[str, tuple[str, ...]]:
    """Return the files that are carried of each kind of artifact or record, and no others; inputs first."""
    return {one.record or one.name: tuple(one.files) for one in stage_kinds().values() if one.files}


class TooLarge(ValueError):
    """A file has more bytes than it may, unpacked."""


def check(name: str, content: bytes, most: int) -> int:
    """Check a file of an artifact by its name; return how many bytes it has, unpacked.

    Of the files of a plugin's kinds of stages, JSON is checked to be JSON. Raises TooLarge where they have more bytes
    than `most`, and ValueError that says what else is wrong.
    """
    if name == "draws.npy":
        _check_draws(content)
        return len(content)
    size, shape = 0, {**SHAPES, **LINES}.get(name, Any)
    if not name.endswith((".json", ".jsonl", ".jsonl.gz")):
        return len(content)
    for text in _texts(name, content, most):
        parsed(shape, text.replace(*AS_TOKENS) if shape is Outcome else text)
        size += len(text)
    return size


def _texts(name: str, content: bytes, most: int) -> Iterable[bytes]:
    """Return the JSON texts of a file: its lines, if it has them."""
    if name.endswith(".gz"):
        return lines(content, most)
    return content.splitlines(keepends=True) if name.endswith(".jsonl") else [content]


def lines(content: bytes, most: int | None = None) -> Iterator[bytes]:
    """Yield the lines of packed text; raise TooLarge if it has more than `most` bytes, ValueError if damaged."""
    read = 0
    try:
        with gzip.open(BytesIO(content)) as file:
            while line := file.readline(MOST_LINE + 1):
                read += len(line)
                if len(line) > MOST_LINE:
                    raise ValueError(f"a line has more than {MOST_LINE:,} bytes")
                if most is not None and read > most:
                    raise TooLarge
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is not whole gzip: {error}") from None


def _check_draws(content: bytes) -> None:
    import numpy as np

    from block_bootstrap import BLOCKS, DRAWS

    array = np.load(BytesIO(content), allow_pickle=False, max_header_size=1000)
    if array.dtype != np.float64 or array.shape[1:] != (DRAWS,) or len(array) > len(BLOCKS):
        raise ValueError(f"it holds {array.shape} {array.dtype}, not {DRAWS} numbers for each block length")
