"""Loads a suite file: applies profile and `--set`, looks parts up, reports every problem with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from bench_core.config import DecoderConfig, MetricConfig, TaskConfig
from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites import yaml_source as located
from bench_core.suites.choice_check import check_choices
from bench_core.suites.figure_check import check_figures
from bench_core.suites.grids import expand, origins, plainly
from bench_core.suites.names import Names
from bench_core.suites.parts import Parts, section
from bench_core.suites.problems import Problems
from bench_core.suites.published import load_published
from bench_core.suites.schema import Hardware, SuiteFile
from bench_core.suites.suite import Suite
from bench_core.suites.table_check import check_tables
from bench_core.suites.training import Select
from bench_core.suites.yaml_source import Located

MOST_CELLS = 250_000  #: of a suite
LONGEST = 100  # characters of what was typed, in a message
LONGEST_LABEL = 200  # bytes: it is the name of folders
AS_WRITTEN = ("title", "source", "splits", "limits", "skip", "tables", "figures", "claims", "choose")


def load(path: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None) -> Suite:
    """Read a suite file; raise SuiteError with every problem, each with file, line and column."""
    source = located.read(path)
    return resolve(source, path.parent, profile, settings, seeds)


def resolve(
    source: Located, folder: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None
) -> Suite:
    """Apply profile, `--set` and `--seeds` to a suite, and look up everything that it names."""
    whole = _names(source)
    asked = _apply(source, profile, settings, seeds)
    problems = Problems(source)
    effective = {key: value for key, value in source.data.items() if key != "profiles"}
    grids = expand(source, problems)
    file = problems.parsed(SuiteFile, source.data, ())
    parts = Parts(source.data, problems, origins(grids), whole["tasks"])
    tasks, models = parts.configs("task", TaskConfig), parts.models()
    decoders, metrics = parts.configs("decoder", DecoderConfig), parts.configs("metric", MetricConfig)
    if file is None:
        raise problems.error()
    file = plainly(file, grids)
    suite = Suite(
        **{name: getattr(file, name) for name in AS_WRITTEN},
        name=file.suite, profile=profile, effective=effective, grids=grids, asked=asked,
        tasks=tasks, models=models, decoders=decoders, metrics=metrics, probes=parts.probes(models),
        seeds=list(range(file.seeds)) if isinstance(file.seeds, int) else file.seeds,
        hardware={"default": file.hardware} if isinstance(file.hardware, Hardware) else file.hardware,
        published=load_published(folder / "references"),
        changes=[setting.partition("=")[0] for setting in settings],
    )  # fmt: skip
    if len(suite.label.encode()) > LONGEST_LABEL:
        text = f"the name of a suite with its profile may have at most {LONGEST_LABEL} bytes. Shorten it."
        problems.add(("suite",), text)
    _check_size(suite, problems)
    _check_names(Names(suite, source, problems, whole))
    if problems.found:
        raise problems.error()
    return suite


def _check_names(names: Names) -> None:
    """Report every undefined name."""
    for number, skip in enumerate(names.suite.skip):
        for axis, skipped in skip:
            names.known(("skip", number, axis), axis, skipped)
    check_choices(names)
    check_tables(names)
    check_figures(names)
    for name, entry in names.suite.models.items():
        for anywhere in entry.all:
            _check_select(names, name, anywhere.training.select)
    if names.suite.claims:
        from bench_core.suites.claim_check import check_claims  # only suites with claims pay for it

        check_claims(names)


def _check_select(names: Names, name: str, select: Select) -> None:
    own = "training" in names.source.data["models"].get(name, {})
    keys = [*(("models", name) if own else ()), "training", "select"]
    if select.metric != "loss":
        names.known([*keys, "metric"], "metric", [select.metric])
    if select.decoder is not None:
        names.known([*keys, "decoder"], "decoder", [select.decoder])


def _check_size(suite: Suite, problems: Problems) -> None:
    """Raise SuiteError if the suite has too many cells to plan in memory."""
    axes = {
        "tasks": suite.tasks, "models": suite.models, "decoders": suite.decoders, "splits": suite.splits,
        "hardware": suite.hardware, "seeds": suite.seeds,
    }  # fmt: skip
    cells = prod(len(names) or 1 for names in axes.values())
    if cells > MOST_CELLS:
        longest = max(axes, key=lambda axis: len(axes[axis]))
        product = " x ".join(f"{len(names):,} {axis}" for axis, names in axes.items() if len(names) > 1)
        text = (
            f"a suite can have {MOST_CELLS:,} cells at most; this one has {product}. Reduce it, or split the suite."
        )
        problems.add((longest,), text)
        raise problems.error()


def _names(source: Located) -> dict[str, set[str]]:
    """Return the names that a suite defines before changes, and the settings that its grids vary."""
    copy = Located(source.path, dict(source.data))
    grids = expand(copy, Problems(copy))
    names = {kind: set(section(copy.data, kind)) for kind in ("models", "decoders", "metrics", "tasks")}
    varied = {setting for grid in grids.values() for setting in grid.settings}
    splits, hardware = source.data.get("splits"), section(source.data, "hardware")
    names["splits"] = {name for name in splits if isinstance(name, str)} if isinstance(splits, list) else {"test"}
    names["hardwares"] = {name for name, one in hardware.items() if isinstance(one, Mapping)} or {"default"}
    return {**names, "models": names["models"] | {*grids}, "grids": {*grids}, "settings": varied}


def _apply(source: Located, profile: str | None, settings: Sequence[str], seeds: int | None) -> list[str]:
    """Apply changes to a suite; return those that are not from a profile."""
    if profile is not None:
        profiles = source.data.get("profiles")
        known = list(profiles) if isinstance(profiles, dict) else []
        if profile not in known:
            problems = Problems(source)
            problems.add(["profiles"], f"no profile {profile!r}. {suggestion(profile, known)}")
            raise problems.error()
        if not isinstance(profiles[profile], dict):  # type: ignore[index]
            raise SuiteError(f"{source.place(['profiles', profile])}: a profile must be a mapping of changes.")
        source.overlay(profiles[profile], ("profiles", profile))  # type: ignore[index]
    for setting in settings:
        keys, equals, value = setting.partition("=")
        if not equals or not keys.isprintable() or not all(way := _split(keys, source.data)):
            raise SuiteError(f"--set {_shown(setting)}: expected KEY.KEY=VALUE, such as --set models.lstm.hidden=64.")
        if isinstance(source.data.get(way[0]), list) and len(way) > 1:
            raise SuiteError(f"--set {_shown(setting)}: set lists as a whole, such as --set 'splits=[valid, test]'.")
        origin = f"--set {_shown(keys)}"
        source.put(tuple(way), located.scalar(value, origin), origin)
    asked = [*settings]
    if seeds is not None:
        same = source.data.get("seeds", 1) in (seeds, [*range(min(seeds, MOST_CELLS))])
        asked += [] if same else [f"seeds={seeds}"]
        source.put(("seeds",), seeds, "--seeds")
    return asked


def _shown(text: str) -> str:
    """Return user input in printable form."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    return cut if cut.isprintable() else repr(cut)


def _split(keys: str, data: Any) -> list[str]:
    """Split at dots, but not inside an existing key, such as `nucleus-0.2`."""
    words = keys.split(".")
    for end in range(len(words), 0, -1):
        key = ".".join(words[:end])
        if isinstance(data, dict) and key in data:
            return [key, *(_split(".".join(words[end:]), data[key]) if end < len(words) else [])]
    return [words[0], *(_split(".".join(words[1:]), None) if len(words) > 1 else [])]
