"""Rows of data sets of the library `datasets`: saved folders, and revisions on the Hugging Face hub."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_data.records import DataRecord, columns_of
from bench_data.settings import Hub, Saved

UNFINISHED = "*.incomplete"  # interrupted downloads in the hub's cache


def rows(origin: Saved | Hub, names: Sequence[str]) -> Iterator[DataRecord]:
    """Yield the rows of a data set, with the fields `names` only; raise DataError if it cannot be read."""
    data_set, label = _load_folder(origin) if isinstance(origin, Saved) else _load_revision(origin)
    known = data_set.column_names
    data_set = data_set if known is None else data_set.select_columns(columns_of(names, known, label))
    try:
        for number, values in enumerate(data_set, 1):
            yield DataRecord(f"{label}: row {number}", values)
    except (OSError, ValueError) as error:
        raise DataError(f"{label} cannot be read: {_short(error)}.") from None


def _load_folder(origin: Saved) -> tuple[Any, str]:
    """Return a split of a saved folder, and the name of the split for messages."""
    from datasets import load_from_disk

    try:
        content = load_from_disk(str(origin.saved))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{origin.saved} was not written by `save_to_disk`: {_short(error)}.") from None
    if not isinstance(content, dict):
        if origin.split is not None:
            raise DataError(f"{origin.saved} is a single data set without splits. Leave out `split: {origin.split}`.")
        return content, str(origin.saved)
    if origin.split not in content:
        problem = "set `split:` to one of them" if origin.split is None else f"there is no split {origin.split!r}"
        raise DataError(f"{origin.saved} has the splits {', '.join(map(repr, content))}: {problem}.")
    return content[origin.split], f"{origin.saved} {origin.split}"


def _load_revision(origin: Hub) -> tuple[Any, str]:
    """Return a split of a revision from the hub's cache; download the revision first if allowed."""
    from datasets import load_dataset

    folder, label = snapshot(origin), " ".join(filter(None, (origin.hub, origin.config, origin.split)))
    try:
        return load_dataset(str(folder), origin.config, split=origin.split, streaming=True), label
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(f"{label} of {origin.revision} cannot be read: {_short(error)}.") from None


def snapshot(origin: Hub) -> Path:
    """Return the folder of a revision; raise DataError if it is missing or incomplete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    name, revision, is_local = origin.hub, origin.revision, not origin.allow_download
    try:
        folder = Path(snapshot_download(name, repo_type="dataset", revision=revision, local_files_only=is_local))
    except (OSError, ValueError, HfHubHTTPError) as error:
        advice = " Set `allow_download: true`, or download it." if is_local else ""
        raise DataError(
            f"data set {name} of revision {revision} is not available: {_short(error)}.{advice}"
        ) from None
    if is_local and any((folder.parent.parent / "blobs").glob(UNFINISHED)):
        raise DataError(f"the download of data set {name} was interrupted. Set `allow_download: true` to finish it.")
    return folder


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200].removesuffix(".")
