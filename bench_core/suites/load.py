"""Loads a suite file: applies profile and `--set`, finds parts, reports every problem with its place."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from bench_core.config import DecoderConfig, MetricConfig, TaskConfig
from bench_core.errors import SuiteError
from bench_core.optional import TRAINING, source
from bench_core.registry import sections, stage_kinds, suggestion
from bench_core.stage_kinds import call
from bench_core.suites import yaml_source as located
from bench_core.suites.former_settings import rename_settings
from bench_core.suites.grids import expand, origins, plainly
from bench_core.suites.names import Names
from bench_core.suites.parts import Parts, section
from bench_core.suites.schema import Exemption, Hardware, Skip
from bench_core.suites.sections import of_plugins, suite_file
from bench_core.suites.suite import Entry, Suite, partial_suite
from bench_core.suites.training import Select
from placed_settings import Keys, Located, Problems, Unreadable

MAX_CELLS = 250_000  #: per suite
MAX_ECHOED_CHARACTERS = 100  # user input shown in a message
MAX_LABEL_BYTES = 200  # because labels become folder names
AS_WRITTEN = (
    "title", "source", "labels", "quote", "samples", "exempt", "splits", "limits", "skip", "hardware",
)  # fmt: skip
REMOVABLE = ("tasks", "models", "decoders", "metrics", "probes", "hardware", "profiles")  # `--set` may remove entries


def load(path: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None) -> Suite:
    """Read a suite file; raise SuiteError with every problem, each with file, line and column."""
    source = located.read(path, tolerant=True)
    file, here = path.absolute(), Path.cwd()
    name = file.relative_to(here).as_posix() if file.is_relative_to(here) else file.name
    return replace(resolve(source, path.parent, profile, settings, seeds), file=name)


def resolve(
    source: Located, folder: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None
) -> Suite:
    """Apply profile, `--set` and `--seeds` to a suite, and resolve all names in it."""
    suite, problems = examine(source, folder, profile, settings, seeds)
    if problems.messages:
        raise SuiteError(problems.text())
    return replace(suite, notes=list(dict.fromkeys(problems.notes)))


def examine(
    source: Located, folder: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None
) -> tuple[Suite, Problems]:
    """Resolve a suite; return it with its problems. Invalid sections are absent or unreadable."""
    problems = Problems(source)
    rename_settings(source, problems)
    whole = _names(source)
    asked = _apply(source, problems, profile, settings, seeds)
    rename_settings(source, problems)  # those set by --set
    effective = {key: value for key, value in source.data.items() if key != "profiles"}
    grids = expand(source, problems)
    file = plainly(suite_file(source.data, problems), grids)
    parts = Parts(source.data, problems, origins(grids), whole["tasks"], file)
    models, seeds_of_file = parts.models(), getattr(file, "seeds", 1)
    core = {name: getattr(file, name) for name in AS_WRITTEN if hasattr(file, name)}
    if isinstance(core.get("hardware"), Hardware):
        core["hardware"] = {"default": core["hardware"]}
    others = of_plugins(source.data, grids, problems)
    others |= {name: value for section in sections() for name, value in section.beside(folder, problems).items()}
    suite = partial_suite(
        {
            **core, "name": getattr(file, "suite", ""), "profile": profile, "effective": effective,
            "grids": grids, "asked": asked, "tasks": parts.configs("task", TaskConfig), "models": models,
            "decoders": parts.configs("decoder", DecoderConfig), "metrics": parts.configs("metric", MetricConfig),
            "probes": parts.probes(models), "changes": [setting.partition("=")[0] for setting in settings],
            "seeds": [*range(seeds_of_file)] if isinstance(seeds_of_file, int) else seeds_of_file,
            "folder": folder, "sections": others,
        },
        {*AS_WRITTEN} - {*core},
    )  # fmt: skip
    if len(suite.label.encode()) > MAX_LABEL_BYTES:
        text = f"the names of suite and profile can have at most {MAX_LABEL_BYTES} bytes together. Shorten them."
        problems.add(("suite",), text)
    if _check_size(suite, problems):
        _check_names(Names(suite, source, problems, whole), parts)
    return suite, problems


def _check_names(names: Names, parts: Parts) -> None:
    """Report every undefined name."""
    with suppress(Unreadable):
        names.each("skip", names.suite.skip, (_check_skip,))
    with suppress(Unreadable):
        names.check_known(["quote"], "task", () if isinstance(names.suite.quote, bool) else names.suite.quote)
    with suppress(Unreadable):
        names.each("exempt", names.suite.exempt, (_check_exemption,))
    reports: dict[tuple[Keys, str], dict[str, None]] = {}  # problems with training settings -> models
    for name, entry in names.suite.models.items():
        for task, variant in {"": entry, **entry.by_task}.items():
            with suppress(Unreadable):
                place = partial(parts.training_keys, name, task)
                _check_trainings(names, variant, place, reports)
    for (where, text), models in reports.items():
        names.problems.add(where, text.replace("{model}", " or ".join(map(repr, models))))
    for section_of_plugin in sections():
        with suppress(Unreadable):
            for keys, text in section_of_plugin.check(names):
                names.problems.add(tuple(keys), text)


def _check_skip(names: Names, keys: list[str | int], skip: Skip) -> None:
    for axis, skipped in skip:
        names.check_known([*keys, axis], axis, skipped)


def _check_exemption(names: Names, keys: list[str | int], exemption: Exemption) -> None:
    parts = [name for axis in ("model", "decoder", "metric") for name in names.names(axis)]
    names.check_known([*keys, "part"], "task", [exemption.part], parts)


def _check_trainings(
    names: Names, entry: Entry, place: Callable[[Keys], Keys], reports: dict[tuple[Keys, str], dict[str, None]]
) -> None:
    """Report problems with training settings, some in `reports`; `place` maps their keys to keys of the suite."""
    if entry.training.trains and not any(kind.trains for kind in stage_kinds().values()):
        names.problems.add(place(()), f"training needs {source(TRAINING)}, which is not installed.")
    for check in filter(None, (kind.check for kind in stage_kinds().values())):
        call(check, entry, lambda at, text: reports.setdefault((place(at), text), {}).setdefault(entry.config.name))
    for key in ("select", "stop"):
        with suppress(Unreadable):
            if (select := getattr(entry.training, key)) is not None:
                _check_select(names, key, select, place)


def _check_select(names: Names, key: str, select: Select, place: Callable[[Keys], Keys]) -> None:
    """Report an unknown or removed metric or decoder of a selection."""
    for axis, name in (("metric", getattr(select, "metric", "loss")), ("decoder", getattr(select, "decoder", None))):
        if name is not None and (axis, name) != ("metric", "loss"):
            keys = place((key, axis))
            names.check_known(keys, axis, [name])
            names.present(keys, axis, name)


def _check_size(suite: Suite, problems: Problems) -> bool:
    """Return whether the cells of the suite can be planned in memory; report a problem if not."""
    sections = ("tasks", "models", "decoders", "splits", "hardware", "seeds")
    axes = {name: getattr(suite, name, ()) for name in sections}
    cells = prod(len(names) or 1 for names in axes.values())
    if cells > MAX_CELLS:
        longest = max(axes, key=lambda axis: len(axes[axis]))
        product = " x ".join(f"{len(names):,} {axis}" for axis, names in axes.items() if len(names) > 1)
        text = f"a suite can have at most {MAX_CELLS:,} cells; this suite has {product}."
        problems.add((longest,), f"{text} Remove some of them, or split the suite.")
    return cells <= MAX_CELLS


def _names(source: Located) -> dict[str, set[str]]:
    """Return the names that a suite defines before changes, by section, and the settings that its grids vary."""
    copy = Located(source.path, dict(source.data))
    grids = expand(copy, Problems(copy))
    names = {kind: set(section(copy.data, kind)) for kind in ("models", "decoders", "metrics", "tasks")}
    varied = {setting for grid in grids.values() for setting in grid.settings}
    splits, hardware = source.data.get("splits"), section(source.data, "hardware")
    names["splits"] = {name for name in splits if isinstance(name, str)} if isinstance(splits, list) else {"test"}
    names["hardwares"] = {name for name, entry in hardware.items() if isinstance(entry, Mapping)} or {"default"}
    return {**names, "models": names["models"] | {*grids}, "grids": {*grids}, "settings": varied}


def _apply(
    source: Located, problems: Problems, profile: str | None, settings: Sequence[str], seeds: int | None
) -> list[str]:
    """Apply changes to a suite; return the changes that are not from a profile."""
    if profile is not None:
        profiles = source.data.get("profiles")
        known = list(profiles) if isinstance(profiles, dict) else []
        if profile not in known:
            problems.add(["profiles"], f"no profile {profile!r}. {suggestion(profile, known)}")
        elif isinstance(profiles[profile], dict):  # type: ignore[index]
            source.overlay(profiles[profile], ("profiles", profile))  # type: ignore[index]
    for setting in settings:
        _set(source, problems, setting)
    asked = [*settings]
    if seeds is not None:
        same = source.data.get("seeds", 1) in (seeds, [*range(min(seeds, MAX_CELLS))])
        asked += [] if same else [f"seeds={seeds}"]
        source.put(("seeds",), seeds, "--seeds")
    return asked


def _set(source: Located, problems: Problems, setting: str) -> None:
    """Apply a `--set KEY=VALUE`; null removes an entry of a mapping by name, or of a list by id."""
    keys, equals, value = setting.partition("=")
    if not equals or not keys.isprintable() or not all(path := _split(keys, source.data)):
        raise SuiteError(f"--set {_shorten(setting)}: expected KEY.KEY=VALUE, such as --set models.lstm.hidden=64.")
    origin = f"--set {_shorten(keys)}"
    new = located.scalar(value, origin)
    section = source.data.get(path[0])
    if isinstance(section, list) and len(path) > 1:
        ids = {str(entry.get("id")): place for place, entry in enumerate(section) if isinstance(entry, Mapping)}
        if new is not None or not ids:
            advice = "set lists as a whole, such as --set 'splits=[valid, test]'."
            raise SuiteError(f"--set {_shorten(setting)}: {advice}")
        source.remove((path[0], ids[_check_removable(".".join(path[1:]), [*ids], origin)]))
    elif new is None and len(path) == 2 and path[0] in REMOVABLE:
        source.remove((path[0], _check_removable(path[1], [*(section or ())], origin)))
        problems.removed.add((path[0].removesuffix("s"), path[1]))
    else:
        source.put(tuple(path), new, origin)


def _check_removable(name: str, names: list[str], origin: str) -> str:
    if name not in names:
        raise SuiteError(f"{origin}: there is nothing to remove. {suggestion(name, names)}")
    return name


def _shorten(text: str) -> str:
    """Return user input in printable form, truncated."""
    shortened = text if len(text) <= MAX_ECHOED_CHARACTERS else f"{text[:MAX_ECHOED_CHARACTERS]} …"
    return shortened if shortened.isprintable() else repr(shortened)


def _split(keys: str, data: Any) -> list[str]:
    """Split keys at dots, except inside existing keys such as `nucleus-0.2`."""
    words = keys.split(".")
    for end in range(len(words), 0, -1):
        key = ".".join(words[:end])
        if isinstance(data, dict) and key in data:
            return [key, *(_split(".".join(words[end:]), data[key]) if end < len(words) else [])]
    return [words[0], *(_split(".".join(words[1:]), None) if len(words) > 1 else [])]
