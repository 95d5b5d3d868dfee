"""`bench check SUITE...`"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.errors import BenchError
from bench_core.optional import AUTHORS, installed_module, is_installed, optional_module
from bench_core.optional import source as installed_by
from bench_core.terminal import counted, say

if TYPE_CHECKING:
    from bench_core.inspection import Findings
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite
    from placed_settings import Located

HERE = f"classes of parts, files, servers and devices: these checks come with {installed_by(AUTHORS)}"
WEIGHTS = "whether models have the weights that `groups` and `reset` name (see --build)"


@click.command()
@click.argument("suites", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--profile", help="One profile; by default all of them, and none.")
@options.changed
@click.option("--elsewhere", is_flag=True, help="Do not look for data and devices: the suites will run elsewhere.")
@click.option("--build", is_flag=True, help="Also prepare the tasks and build every model, without weights.")
@click.option("--contracts", is_flag=True, help="Also try the contracts of the interfaces on every part.")
@click.option(
    "--contract-timeout",
    type=options.DURATION,
    default="5m",
    show_default=True,
    help="End a contract that takes longer; it is broken.",
)
@click.option("--same-process", is_flag=True, help="Try contracts in the process of the command, for a debugger.")
@options.data
@options.store
def command(
    suites: tuple[Path, ...], profile: str | None, settings: tuple[str, ...], elsewhere: bool, build: bool,
    contracts: bool, contract_timeout: float, same_process: bool, data: Path, store: Store,
) -> int:  # fmt: skip
    """Check suites without running them, and report every problem at once."""
    from bench_core.inspection import Findings
    from bench_core.storage.store import ANSWERS

    trying = optional_module(AUTHORS, "suite_contracts", "bench check --contracts") if contracts else None
    checked: dict[str, Suite] = {}
    wrong = False
    for path in suites:
        problems: dict[str, str] = {}  # each with the label of the first profile that has it
        findings = Findings()
        opened = None if elsewhere else Opened(data, store.root / ANSWERS, findings)
        for label, suite, cells, found in _checked(path, profile, settings, opened):
            if suite is None or found:
                problems = {**dict.fromkeys(found, label), **problems}
                continue
            checked[label] = suite
            if not is_installed(AUTHORS):
                findings.skipped[HERE] = None
            if not build and _names_weights(suite):
                findings.skipped[WEIGHTS] = None
            say(f"{label}: no problem found ({counted(cells, 'cell')}).")
        for text in findings.warnings:
            say(text, err=True)
        for text in findings.notes:
            say(text)
        if skipped := [*(["files, servers and devices"] if elsewhere else []), *findings.skipped]:
            say(f"{path}: not checked: {'; '.join(skipped)}.")
        _tell("" if profile else str(path), problems)
        wrong = wrong or bool(problems)
    if build and not wrong:
        wrong = _build(checked, data, store)
    if wrong or trying is None:
        return 2 if wrong else 0
    code: int = trying.check_contracts(checked, data, None if same_process else contract_timeout)
    return code


@dataclass(frozen=True)
class Opened:
    """The folders of data and cached answers, and the findings of inspections."""

    data: Path
    answers: Path
    findings: Findings


def _tell(path: str, problems: dict[str, str]) -> None:
    """Print the problems of a suite in the order of the file, each once; that of a profile alone names it."""
    from placed_settings import listing

    shown = {
        text: text if label == path or not path else f"{text} (With {label.removeprefix(f'{path} ')}.)"
        for text, label in problems.items()
    }
    for text in listing(shown.values()):
        say(text, err=True)


def _checked(
    path: Path, profile: str | None, settings: tuple[str, ...], opened: Opened | None
) -> Iterator[tuple[str, Suite | None, int, list[str]]]:
    """Yield a label, the suite, the number of its cells, and its problems, for each profile and for none."""
    from bench_core.suites import yaml_source

    try:
        source = yaml_source.read(path, tolerant=True)
    except BenchError as error:
        yield str(path), None, 0, str(error).splitlines()
        return
    profiles = source.data.get("profiles")
    known = [name for name, one in profiles.items() if isinstance(one, dict)] if isinstance(profiles, dict) else []
    for name in [profile] if profile else [None, *known]:
        label = str(path) if name is None else f"{path} --profile {name}"
        own = replace(source, data=deepcopy(source.data), places=dict(source.places))
        try:
            yield label, *_check(own, path.parent, name, settings, opened)
        except BenchError as error:  # of `--set`, or of a plugin
            yield label, None, 0, str(error).splitlines()


def _check(
    source: Located, folder: Path, profile: str | None, settings: tuple[str, ...], opened: Opened | None
) -> tuple[Suite, int, list[str]]:
    """Return a suite, the number of its cells, and all of its problems."""
    from bench_core.suites.cells import cells_of
    from bench_core.suites.check import report_misfits
    from bench_core.suites.load import examine

    suite, problems = examine(source, folder, profile, settings)
    report_misfits(suite, problems)
    if authors := installed_module(AUTHORS, "suite_checks"):
        authors.report_targets(suite, problems)
    if opened:
        opened.findings.notes |= dict.fromkeys(problems.notes)
    if opened and authors:
        inspector = authors.Inspector(suite, problems, opened.findings, opened.data, opened.answers)
        authors.report_unavailable(suite, opened.data, problems, inspector)
    return suite, 0 if problems.found else len(cells_of(suite)), problems.found


def _names_weights(suite: Suite) -> bool:
    return any(one.training.names_weights for entry in suite.models.values() for one in entry.all)


def _build(suites: dict[str, Suite], data: Path, store: Store) -> bool:
    """Prepare tasks and build models; return whether that fails, after printing why."""
    from bench_core.execution.progress import Progress
    from bench_core.runs.executors import executor
    from bench_core.runs.runner import Runner

    reasons: dict[str, None] = {}
    for suite in suites.values():
        runner = Runner(suite, data, store, executor(0, store, data), Progress())
        try:
            runner.build()
        except BenchError as error:
            reasons[str(error)] = None
        reasons |= dict.fromkeys(runner.loop.failures.values())
    for text in reasons:
        say(text, err=True)
    return bool(reasons)
