"""Checks that the files and devices of a suite are available on this machine."""

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

DEVICE_PATTERNS = ("nvidia[0-9]*", "dxg", "nvhost-gpu")  # CUDA devices in /dev


def report_unavailable(suite: Suite, data: Path, problems: Problems, inspector: Inspector | None = None) -> None:
    """Report unreadable files and missing devices, each at the setting or part that needs it.

    With an inspector, also report problems with parts whose files are all available.
    """
    for keys, name, task, settings in _settings(suite):
        before = len(problems.messages)
        files = {path: (place, text) for path, place, text in _unreadable_files(keys, settings, data, suite.folder)}
        for place, text in files.values():
            problems.add(place, text)
        with suppress(Unreadable):
            for text in _implicit_file_problems(settings, data, suite.folder):
                if not any(str(path) in text for path in files):
                    problems.add(keys, text)
        if inspector and len(problems.messages) == before:
            inspector.inspect(keys, name, task, settings)
    for section in sections():
        with suppress(Unreadable):
            for setting, text in section.unavailable(suite, lambda task: _digests(task, data, suite.folder)):
                problems.add(setting, text)
    with suppress(Unreadable):
        if suite.models:
            _report_devices(suite, problems)


def _settings(suite: Suite) -> Iterator[tuple[Keys, str, str, Any]]:
    """Yield keys, name, task and settings of each part and of its training; the task is empty outside `by_task`."""
    for section in ("tasks", "decoders", "metrics", "probes"):
        yield from (((section, name), name, "", config) for name, config in getattr(suite, section).items())
    for name, entry in suite.models.items():
        for task, specific in {"": entry, **entry.by_task}.items():
            keys: Keys = ("models", suite.origins.get(name, name), *(("by_task", task) if task else ()))
            yield keys, name, task, specific.config
            yield (*keys, "training"), name, task, specific.training


def _unreadable_files(keys: Keys, settings: Any, data: Path, suite: Path) -> Iterator[tuple[Path, Keys, str]]:
    """Yield the unreadable files in settings, each with its keys and the problem."""
    files: list[tuple[Path, tuple[str, ...]]] = []
    for name, value in vars(settings).items():
        with suppress(Unreadable):
            files += paths({name: value})
    for path, steps in files:
        if text := _problem(path, data, suite):
            inside = tuple(int(key) if key.isdigit() else key for key in steps)
            yield path, (*keys, *inside), f"{'.'.join((*map(str, keys), *steps))}: {text}"


def _problem(path: Path, data: Path, suite: Path) -> str | None:
    """Return why a file or folder cannot be read, with advice; None if it is readable."""
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


def _implicit_file_problems(settings: Any, data: Path, suite: Path) -> Iterator[str]:
    """Yield problems with the files that a task or model reads but whose paths are not settings."""
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
    except (OSError, ValueError) as error:  # an impossible file name, such as 300 letters
        reason = error.strerror if isinstance(error, OSError) else error
        yield f"its files cannot be read ({reason}). Correct their names."


def _digests(task: TaskConfig, data: Path, suite: Path) -> list[str]:
    """Return the digests of a task's files, or an empty list if a file is unreadable (reported elsewhere)."""
    with suppress(DataError, OSError, ValueError):
        config = located(task, data, suite)
        return [*config.reads(data).values(), *(digest(path) for path, _ in paths(vars(config)) if path.is_file())]
    return []


def _report_devices(suite: Suite, problems: Problems) -> None:
    several = isinstance(suite.effective.get("hardware"), Mapping) and "default" not in suite.hardware
    for name, hardware in suite.hardware.items():
        with suppress(Unreadable):
            if hardware.device == "cuda" and (text := _cuda_advice()):
                problems.add(("hardware", *([name] if several else []), "device"), text)


def _cuda_advice() -> str:
    """Return advice if CUDA is unavailable; import torch only if its availability is uncertain."""
    try:
        has_device = any(any(Path("/dev").glob(pattern)) for pattern in DEVICE_PATTERNS)
        is_certain = version("torch").endswith("+cpu") or not has_device
    except PackageNotFoundError:
        is_certain = True
    return missing_device(["cuda"], is_certain)
