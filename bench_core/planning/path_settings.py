"""Settings of type `Path`: how files are located, and replaced in keys by their digests, called marks."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from bench_core.config import FoundPath, PathText, TaskConfig
from bench_core.errors import DataError
from bench_core.files import digest
from input_digests import folder_digest

T = TypeVar("T")
KeyPath: TypeAlias = tuple[str, ...]  #: key path of a nested value in settings, such as `("corpus", "train")`

MARK = "sha256:"
MARKED = re.compile(rf"{MARK}[0-9a-f]{{64}}(\..+)?")


def replace_values(
    value: T,
    change: Callable[[Any, KeyPath], Any],
    keys: KeyPath = (),
    kinds: tuple[type, ...] = (PurePath, FoundPath),
) -> T:
    """Return a copy of settings with every path, or every value of these `kinds`, replaced, at any depth."""

    def each(item: Any, key: Any) -> Any:
        is_plain = type(item) in (str, int, float, bool)  # tested first because abstract classes are slower
        return item if is_plain else replace_values(item, change, (*keys, str(key)), kinds)

    new: Any = value
    if isinstance(value, kinds):
        new = change(value, keys)
    elif isinstance(value, BaseModel):
        names = [*type(value).model_fields, *(value.model_extra or ())]
        new = value.model_copy(update={name: each(getattr(value, name), name) for name in names})
    elif is_dataclass(value) and not isinstance(value, type):
        new = replace(value, **{item.name: each(getattr(value, item.name), item.name) for item in fields(value)})
    elif isinstance(value, Mapping):
        new = {each(key, key): each(item, key) for key, item in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        new = type(value)(*(each(item, place) for place, item in enumerate(value)))
    elif isinstance(value, list | tuple | set | frozenset):
        new = type(value)(each(item, place) for place, item in enumerate(value))
    return new  # type: ignore[no-any-return]


def paths(settings: Any, keys: KeyPath = ()) -> list[tuple[Path, KeyPath]]:
    """Return every path in settings, with its keys."""
    collected: list[tuple[Path, KeyPath]] = []

    def collect(path: PurePath | FoundPath, inside: KeyPath) -> PurePath | FoundPath:
        collected.append((Path(path), inside))
        return path

    replace_values(settings, collect, keys)
    return collected


def located(settings: T, data: Path, suite: Path = Path()) -> T:
    """Return settings with absolute paths.

    Relative paths are looked up in the folder of the suite, the working directory and the data directory. Paths that
    do not exist are not changed, nor is a `PathText` that is absolute or in the data directory.
    """

    def locate(path: PurePath | PathText, _: KeyPath) -> PurePath | PathText:
        given = Path(path).expanduser()
        folders = [suite.absolute(), Path.cwd()]
        if not isinstance(path, PathText):
            return _first_existing(given, [*folders, data.absolute()]) or given
        place = None if given.is_absolute() else _first_existing(given, folders)
        return FoundPath(place) if place else path

    return replace_values(settings, locate, kinds=(PurePath, PathText))


def _first_existing(given: Path, folders: Iterable[Path]) -> Path | None:
    """Return a path in the first of these folders where it exists, or None."""
    return next((folder / given for folder in folders if (folder / given).exists()), None)


def places(path: Path, data: Path, suite: Path) -> str:
    """Return the folders in which a relative path was looked up, for messages."""
    folders = dict.fromkeys([suite.absolute(), Path.cwd(), data])
    return "" if path.is_absolute() else f" in {' or '.join(map(str, folders))}"


def mark(path: Path, name: str, data: Path, suite: Path = Path()) -> str:
    """Return the mark of a file, which replaces it in keys: its digest and suffix (which may determine the reader).

    The mark of a folder is a digest of all its files and their names. Raises DataError with `name`, the suite's key.
    """
    try:
        if not path.is_dir():
            return f"{MARK}{digest(path)}{path.suffix}"
        return f"{MARK}{folder_digest(path)}"
    except FileNotFoundError:
        where = places(path, data, suite)
        raise DataError(f"{name}: there is no file {path}{where}. Correct its path, or put the file there.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{name}: {path} cannot be read ({why}). Correct its path.") from None


def marks(settings: Any, keys: KeyPath = ()) -> Iterator[tuple[str, str]]:
    """Yield the marks of files in JSON settings, each with its keys, joined by dots."""
    for key, value in settings.items() if isinstance(settings, Mapping) else enumerate(settings):
        if isinstance(value, str) and MARKED.fullmatch(value):
            yield ".".join((*keys, str(key))), value
        elif isinstance(value, Mapping | list):
            yield from marks(value, (*keys, str(key)))


def placed(settings: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return JSON settings with marks replaced by paths; `places` maps paths to marks.

    Files with the same content are used in order. Raises DataError if the path of a mark is unknown.
    """
    paths_of: dict[str, list[str]] = {}
    for place, file_mark in places.items():
        paths_of.setdefault(file_mark, []).append(place)
    with_paths: dict[str, Any] = _place_value(settings, paths_of)
    if unknown := dict(marks(with_paths)):
        raise DataError(f"{', '.join(unknown)}: the path of this file is unknown here. Run the suite that uses it.")
    return with_paths


def _place_value(value: Any, paths_of: Mapping[str, list[str]]) -> Any:
    if isinstance(value, Mapping):
        return {_place_value(key, paths_of): _place_value(item, paths_of) for key, item in value.items()}
    if isinstance(value, list):
        return [_place_value(item, paths_of) for item in value]
    if not isinstance(value, str) or value not in paths_of:
        return value
    candidates = paths_of[value]
    return candidates.pop(0) if len(candidates) > 1 else candidates[0]


def other_reads(reads: Mapping[str, str], places: Container[str], data: Path) -> dict[str, str]:
    """Return the digests of the files that a task reads, except `places` and files in them, which have marks."""

    def is_named(path: Path) -> bool:
        return any(str(folder) in places for folder in (path, *path.parents))

    return {name: read for name, read in reads.items() if not is_named(data.absolute() / name)}


@contextmanager
def unchanged(
    places: Mapping[str, str], task: TaskConfig | None, reads: Mapping[str, str], data: Path
) -> Iterator[None]:
    """Raise DataError unless files agree with the plan before and after the block: `places` with their marks, and
    the files that a `task` `reads` with their digests.
    """
    before = _states(places, task, reads, data)
    yield
    if _states(places, task, reads, data) != before:
        raise DataError("a file changed while it was read. Run the suite again.")


def _states(places: Mapping[str, str], task: TaskConfig | None, reads: Mapping[str, str], data: Path) -> list[Any]:
    """Return the modification states of files; raise a DataError that names all files that differ from the plan."""
    changed = [place for place, planned in places.items() if mark(Path(place), "a file of the plan", data) != planned]
    current = other_reads(task.reads(data), places, data) if task else {}
    changed += [name for name in {**reads, **current} if reads.get(name) != current.get(name)]
    if changed:
        text = f"{', '.join(changed)}: changed since the run was planned, so nothing was stored."
        raise DataError(f"{text} Run the suite again.")
    states = [Path(place).stat() for place in places]
    return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]
