"""Settings of type `Path`: where the files are, and their digests, which stand for them in keys."""

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

Way: TypeAlias = tuple[str, ...]  #: keys to a value inside settings, such as `("corpus", "train")`

MARK = "sha256:"
MARKED = re.compile(rf"{MARK}[0-9a-f]{{64}}(\..+)?")


def changed(
    value: T, change: Callable[[Any, Way], Any], way: Way = (), kinds: tuple[type, ...] = (PurePath, FoundPath)
) -> T:
    """Return a copy of settings with every path replaced, or every value of these `kinds`, at any depth."""

    def each(one: Any, key: Any) -> Any:
        return changed(one, change, (*way, str(key)), kinds)

    new: Any = value
    if isinstance(value, kinds):
        new = change(value, way)
    elif isinstance(value, BaseModel):
        names = [*type(value).model_fields, *(value.model_extra or ())]
        new = value.model_copy(update={name: each(getattr(value, name), name) for name in names})
    elif is_dataclass(value) and not isinstance(value, type):
        new = replace(value, **{one.name: each(getattr(value, one.name), one.name) for one in fields(value)})
    elif isinstance(value, Mapping):
        new = {each(key, key): each(one, key) for key, one in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        new = type(value)(*(each(one, place) for place, one in enumerate(value)))
    elif isinstance(value, list | tuple | set | frozenset):
        new = type(value)(each(one, place) for place, one in enumerate(value))
    return new  # type: ignore[no-any-return]


def paths(settings: Any, way: Way = ()) -> list[tuple[Path, Way]]:
    """Return every path in settings, and the keys that lead there."""
    found: list[tuple[Path, Way]] = []

    def noted(path: PurePath | FoundPath, inside: Way) -> PurePath | FoundPath:
        found.append((Path(path), inside))
        return path

    changed(settings, noted, way)
    return found


def located(settings: T, data: Path, suite: Path = Path()) -> T:
    """Return settings with absolute paths, found from the folder of the suite, the working or the data directory.

    A path that does not exist stays as it is, and so does a `PathText` that is absolute or in the data directory.
    """

    def found(path: PurePath | PathText, _: Way) -> PurePath | PathText:
        given = Path(path).expanduser()
        own = [suite.absolute(), Path.cwd()]
        if not isinstance(path, PathText):
            return _existing(given, [*own, data.absolute()]) or given
        place = None if given.is_absolute() else _existing(given, own)
        return FoundPath(place) if place else path

    return changed(settings, found, kinds=(PurePath, PathText))


def _existing(given: Path, folders: Iterable[Path]) -> Path | None:
    """Return where a path leads from the first of these folders from which it leads to something."""
    return next((folder / given for folder in folders if (folder / given).exists()), None)


def places(path: Path, data: Path, suite: Path) -> str:
    """Return where a relative path was looked for, for messages."""
    folders = dict.fromkeys([suite.absolute(), Path.cwd(), data])
    return "" if path.is_absolute() else f" in {' or '.join(map(str, folders))}"


def mark(path: Path, name: str, data: Path, suite: Path = Path()) -> str:
    """Return what stands for a file in keys: its digest, and its suffix, by which parts may choose how to read it.

    Of a folder, the digest of all files in it with their names. Raises DataError with `name`, the key of the suite.
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


def marks(settings: Any, way: Way = ()) -> Iterator[tuple[str, str]]:
    """Yield the marks of files in JSON settings, each with its path of keys."""
    inside = settings.items() if isinstance(settings, Mapping) else enumerate(settings)
    for key, value in inside:
        if isinstance(value, str) and MARKED.fullmatch(value):
            yield ".".join((*way, str(key))), value
        elif isinstance(value, Mapping | list):
            yield from marks(value, (*way, str(key)))


def placed(settings: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return JSON settings with paths in place of marks; `places` maps paths to marks.

    Files with the same content are taken in their order. Raises DataError if that of some file is not known.
    """
    known: dict[str, list[str]] = {}
    for place, one in places.items():
        known.setdefault(one, []).append(place)
    found: dict[str, Any] = _placed(settings, known)
    if lost := dict(marks(found)):
        raise DataError(f"{', '.join(lost)}: where this file lies is not known here. Run the suite that names it.")
    return found


def _placed(value: Any, known: Mapping[str, list[str]]) -> Any:
    if isinstance(value, Mapping):
        return {_placed(key, known): _placed(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_placed(one, known) for one in value]
    if not isinstance(value, str) or value not in known:
        return value
    places = known[value]
    return places.pop(0) if len(places) > 1 else places[0]


def unnamed(reads: Mapping[str, str], places: Container[str], data: Path) -> dict[str, str]:
    """Return the digests of what a task reads, without `places` and the files in them: their names do not matter."""

    def is_named(path: Path) -> bool:
        return any(str(one) in places for one in (path, *path.parents))

    return {name: one for name, one in reads.items() if not is_named(data.absolute() / name)}


@contextmanager
def unchanged(
    places: Mapping[str, str], task: TaskConfig | None, reads: Mapping[str, str], data: Path
) -> Iterator[None]:
    """Raise DataError unless files are, before and after, what the plan found: those at `places`, with their marks,
    and those that a `task` reads, with their digests.
    """
    before = _states(places, task, reads, data)
    yield
    if _states(places, task, reads, data) != before:
        raise DataError("a file changed while it was read. Run the suite again.")


def _states(places: Mapping[str, str], task: TaskConfig | None, reads: Mapping[str, str], data: Path) -> list[Any]:
    """Return the modification states of files; raise DataError that names those that differ from the plan."""
    wrong = [place for place, known in places.items() if mark(Path(place), "a file of the plan", data) != known]
    found = unnamed(task.reads(data), places, data) if task else {}
    wrong += [name for name in {**reads, **found} if reads.get(name) != found.get(name)]
    if wrong:
        raise DataError(
            f"{', '.join(wrong)}: changed since the run was planned, so nothing was stored. Run the suite again."
        )
    states = [Path(place).stat() for place in places]
    return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]
