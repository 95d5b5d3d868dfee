"""Checks that files and devices which a suite names are on this machine."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench_authors.inspector import Inspector
from bench_core.config import ModelConfig, TaskConfig
from bench_core.errors import DataError
from bench_core.files import digest, opened_only
from bench_core.planning.hardware import missing_device
from bench_core.planning.path_settings import located, paths, places
from bench_core.registry import sections
from bench_core.suites.suite import Suite
from placed_settings import Keys, Problems, Unreadable

DEVICES = ("nvidia[0-9]*", "dxg", "nvhost-gpu")  # of GPUs for CUDA, in /dev


def report_unavailable(suite: Suite, data: Path, problems: Problems, inspector: Inspector | None = None) -> None:
    """Report files that cannot be read and devices that are not here, each at the setting or part that needs it.

    Given an inspector, also report what is wrong with the parts whose files are all here.
    """
    for keys, name, task, settings in _settings(suite):
        before = len(problems.found)
        files = {path: (at, text) for path, at, text in _unreadable_files(keys, settings, data, suite.folder)}
        for at, text in files.values():
            problems.add(at, text)
        with suppress(Unreadable):
            for text in _unread(settings, data, suite.folder):
                if not any(str(path) in text for path in files):
                    problems.add(keys, text)
        if inspector and len(problems.found) == before:
            inspector.inspect(keys, name, task, settings)
    for one in sections():
        with suppress(Unreadable):
            for where, text in one.unavailable(suite, lambda task: _digests(task, data, suite.folder)):
                problems.add(where, text)
    with suppress(Unreadable):
        if suite.models:
            _report_devices(suite, problems)


def _settings(suite: Suite) -> Iterator[tuple[Keys, str, str, Any]]:
    """Yield the settings of each part and training, with their keys, their name, and the task that they are for."""
    for section in ("tasks", "decoders", "metrics", "probes"):
        yield from (((section, name), name, "", config) for name, config in getattr(suite, section).items())
    for name, entry in suite.models.items():
        for task, one in {"": entry, **entry.by_task}.items():
            keys: Keys = ("models", suite.origins.get(name, name), *(("by_task", task) if task else ()))
            yield keys, name, task, one.config
            yield (*keys, "training"), name, task, one.training


def _unreadable_files(keys: Keys, settings: Any, data: Path, suite: Path) -> Iterator[tuple[Path, Keys, str]]:
    """Yield the files in settings that cannot be read, each with its keys, and why."""
    found: list[tuple[Path, tuple[str, ...]]] = []
    for name, value in vars(settings).items():
        with suppress(Unreadable):
            found += paths({name: value})
    for path, way in found:
        if text := _problem(path, data, suite):
            inside = tuple(int(one) if one.isdigit() else one for one in way)
            yield path, (*keys, *inside), f"{'.'.join((*map(str, keys), *way))}: {text}"


def _problem(path: Path, data: Path, suite: Path) -> str | None:
    """Return why a file or folder cannot be read, and what to do."""
    try:
        place: Path = located(path, data, suite)
        if place.is_dir():
            return None
        with place.open("rb") as file:
            file.read(1)
    except FileNotFoundError:
        return f"there is no file {path}{places(path, data, suite)}. Correct its path, or put the file there."
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return f"{path} cannot be read ({why}). Correct its path."
    return None


def _unread(settings: Any, data: Path, suite: Path) -> Iterator[str]:
    """Yield why the files of a task or model that are not settings cannot be read."""
    try:
        if isinstance(settings, TaskConfig):
            with opened_only():
                located(settings, data, suite).reads(data)
        elif isinstance(settings, ModelConfig):
            for role, path in located(settings, data, suite).files(data).items():
                if text := _problem(path, data, suite):
                    yield f"{role}: {text}"
    except DataError as error:
        yield from str(error).splitlines()
    except (OSError, ValueError) as error:  # a name that no file can have, such as one of 300 letters
        reason = error.strerror if isinstance(error, OSError) else error
        yield f"its files cannot be read ({reason}). Correct their names."


def _digests(task: TaskConfig, data: Path, suite: Path) -> list[str]:
    """Return the digests of files that a task reads; none where one cannot be read, which is reported elsewhere."""
    with suppress(DataError, OSError, ValueError):
        found = located(task, data, suite)
        return [*found.reads(data).values(), *(digest(path) for path, _ in paths(vars(found)) if path.is_file())]
    return []


def _report_devices(suite: Suite, problems: Problems) -> None:
    several = isinstance(suite.effective.get("hardware"), Mapping) and "default" not in suite.hardware
    for name, one in suite.hardware.items():
        with suppress(Unreadable):
            if one.device == "cuda" and (text := _without_cuda()):
                problems.add(("hardware", *([name] if several else []), "device"), text)


def _without_cuda() -> str:
    """Return advice if CUDA is not available; torch is imported only where that is not certain."""
    try:
        is_certain = version("torch").endswith("+cpu") or not any(any(Path("/dev").glob(one)) for one in DEVICES)
    except PackageNotFoundError:
        is_certain = True
    return missing_device(["cuda"], is_certain)
