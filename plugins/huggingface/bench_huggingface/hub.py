"""Fetches models of the Hugging Face hub, from the local cache or, if allowed, by download."""

from pathlib import Path

from bench_core import DataError
from bench_huggingface.checkpoint import PATTERNS, Family, files, one_line


def fetch(name: str, revision: str, family: Family, may_download: bool) -> dict[str, Path]:
    """Return the files of a model at a revision; raise DataError if they are unavailable."""
    try:
        return files(_snapshot(name, revision, offline=True), family)
    except (DataError, OSError, ValueError) as error:
        if not may_download:
            reason = f" ({error})" if isinstance(error, DataError) else ""
            raise DataError(
                f"{name} at {revision} is not in the local cache{reason}. Set `allow_download: true`, set `path` to "
                f"a folder with the model, or run `hf download {name} --revision {revision}`."
            ) from None
    try:
        return files(_snapshot(name, revision, offline=False), family)
    except DataError:
        raise
    except Exception as error:  # errors of the network or the hub
        raise DataError(f"{name} at {revision} cannot be fetched: {one_line(error)}") from None


def _snapshot(name: str, revision: str, offline: bool) -> Path:
    """Return the folder of a revision in the cache of huggingface_hub, with the required files but no code."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    return Path(snapshot_download(name, revision=revision, allow_patterns=[*PATTERNS], local_files_only=offline))
