"""The data directory and file digests."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from bench_core.errors import DataError

_IS_READ = ContextVar("is_read", default=True)


def data_folder(given: Path | None = None) -> Path:
    """Return the data directory: `given`, or $BENCH_DATA, or the user's cache directory."""
    if given or os.environ.get("BENCH_DATA"):
        return Path(given or os.environ["BENCH_DATA"]).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("bench")


@contextmanager
def opened_only() -> Iterator[None]:
    """Make `digest` open files without reading them, to check only that they exist."""
    before = _IS_READ.set(False)
    try:
        yield
    finally:
        _IS_READ.reset(before)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; an empty string inside `opened_only`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if _IS_READ.get() else ""


def digests_of(*sources: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """Merge the digests of several sources for a Config's `reads`; raise one DataError for all missing files."""
    digests: dict[str, str] = {}
    missing = []
    for source in sources:
        try:
            digests |= source()
        except DataError as error:
            missing.append(str(error))
    if missing:
        raise DataError("\n".join(missing))
    return digests


def check_weights(paths: Iterable[Path]) -> None:
    """Raise DataError if a file is not in safetensors format, is truncated, or contains no weights."""
    from safetensors import SafetensorError, safe_open

    for path in paths:
        try:
            with safe_open(path, "numpy") as file:
                if not file.keys():
                    raise DataError(f"{path} contains no weights. Save them again as safetensors.")
        except (OSError, SafetensorError) as error:
            raise DataError(f"cannot read weights from {path} ({error}). Copy the file again.") from None
