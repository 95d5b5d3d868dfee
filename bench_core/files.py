"""The data directory, and digests of files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def data_folder(given: Path | None = None) -> Path:
    """Return the data directory: `given`, else $BENCH_DATA, else the user's cache directory."""
    if given or os.environ.get("BENCH_DATA"):
        return Path(given or os.environ["BENCH_DATA"]).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("bench")


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
