"""Models by their name on the Hugging Face hub: from its cache on this machine, or fetched where that is allowed."""

from pathlib import Path

from bench_core import DataError
from bench_huggingface.checkpoint import PATTERNS, Family, files


def fetched(name: str, revision: str, family: Family, may_download: bool) -> dict[str, Path]:
    """Return the files of a model at a revision; raise DataError if they are not here and cannot be had."""
    try:
        return files(_snapshot(name, revision, offline=True), family)
    except (DataError, OSError, ValueError) as error:
        if not may_download:
            found = f" ({error})" if isinstance(error, DataError) else ""
            raise DataError(
                f"{name} at {revision} is not on this machine{found}. Set `allow_download: true` to fetch it, or "
                f"`path` to a folder that has it; `hf download {name} --revision {revision}` fetches it too."
            ) from None
    try:
        return files(_snapshot(name, revision, offline=False), family)
    except DataError:
        raise
    except Exception as error:  # of the network or the hub
        why = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{name} at {revision} cannot be fetched: {why}") from None


def _snapshot(name: str, revision: str, offline: bool) -> Path:
    """Return the folder of a revision in the cache of huggingface_hub, with the files that are needed: no code."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    found = snapshot_download(name, revision=revision, allow_patterns=[*PATTERNS], local_files_only=offline)
    return Path(found)
