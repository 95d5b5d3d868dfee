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
from bench_core.terminal import count_of, say

if TYPE_CHECKING:
    from bench_core.inspection import Findings
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite
    from placed_settings import Located

NEEDS_AUTHORS = f"part classes, files, servers and devices: these checks come with {installed_by(AUTHORS)}"
NEEDS_BUILD = "whether models have the weights that `groups` and `reset` name (see --build)"


@click.command()
@click.argument("suites", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--profile",
    shell_complete=options.complete_profiles,
    help="Check only this profile [default: all profiles, and the suite without a profile].",
)
@options.set_option
@click.option("--elsewhere", is_flag=True, help="Do not check data and devices: suites will run on another machine.")
@click.option("--build", is_flag=True, help="Also prepare all tasks, and build all models, without weights.")
@click.option("--contracts", is_flag=True, help="Also test every part against the contracts of the interfaces.")
@click.option(
    "--contract-timeout",
    type=options.DURATION,
    default="5m",
    show_default=True,
    help="Time limit for each contract; a contract that exceeds it counts as broken.",
)
@click.option("--same-process", is_flag=True, help="Test contracts in this process, for debugging.")
@options.data
@options.store
def command(
    suites: tuple[Path, ...], profile: str | None, settings: tuple[str, ...], elsewhere: bool, build: bool,
    contracts: bool, contract_timeout: float, same_process: bool, data: Path, store: Store,
) -> int:  # fmt: skip
    """Check suites without running them; report all problems at once."""
    from bench_core.inspection import Findings
    from bench_core.storage.store import ANSWERS

    contract_checks = optional_module(AUTHORS, "suite_contracts", "bench check --contracts") if contracts else None
    valid: dict[str, Suite] = {}
    has_problems = False
    for path in suites:
        problems: dict[str, str] = {}  # problem -> label of the first profile that has it
        findings = Findings()
        inspection = None if elsewhere else InspectionInputs(data, store.root / ANSWERS, findings)
        for label, suite, cells, suite_problems in _check_profiles(path, profile, settings, inspection):
            if suite is None or suite_problems:
                problems = {**dict.fromkeys(suite_problems, label), **problems}
                continue
            valid[label] = suite
            if not is_installed(AUTHORS):
                findings.skipped[NEEDS_AUTHORS] = None
            entries = (entry for model in suite.models.values() for entry in model.all)
            if not build and any(entry.training.names_weights for entry in entries):
                findings.skipped[NEEDS_BUILD] = None
            say(f"{label}: no problem found ({count_of(cells, 'cell')}).")
        for text in findings.warnings:
            say(text, err=True)
        for text in findings.notes:
            say(text)
        if skipped := [*(["files, servers and devices"] if elsewhere else []), *findings.skipped]:
            say(f"{path}: not checked: {'; '.join(skipped)}.")
        _print_problems("" if profile else str(path), problems)
        has_problems = has_problems or bool(problems)
    if build and not has_problems:
        has_problems = _build(valid, data, store)
    if has_problems or contract_checks is None:
        return 2 if has_problems else 0
    code: int = contract_checks.check_contracts(valid, data, None if same_process else contract_timeout)
    return code


@dataclass(frozen=True)
class InspectionInputs:
    """The data folder, the folder of cached responses, and the findings of inspections."""

    data: Path
    answers: Path
    findings: Findings


def _print_problems(path: str, problems: dict[str, str]) -> None:
    """Print the distinct problems with a suite in file order; if only a profile has a problem, name the profile."""
    from placed_settings import listing

    messages = {
        text: text if label == path or not path else f"{text} (With {label.removeprefix(f'{path} ')}.)"
        for text, label in problems.items()
    }
    for text in listing(messages.values()):
        say(text, err=True)


def _check_profiles(
    path: Path, profile: str | None, settings: tuple[str, ...], inspection: InspectionInputs | None
) -> Iterator[tuple[str, Suite | None, int, list[str]]]:
    """Yield label, suite, cell count and problems for `profile` or, by default, the suite and each profile."""
    from bench_core.suites import yaml_source

    try:
        source = yaml_source.read(path, tolerant=True)
    except BenchError as error:
        yield str(path), None, 0, str(error).splitlines()
        return
    profiles = source.data.get("profiles")
    entries = profiles.items() if isinstance(profiles, dict) else ()
    names = [name for name, value in entries if isinstance(value, dict)]
    for name in [profile] if profile else [None, *names]:
        label = str(path) if name is None else f"{path} --profile {name}"
        copy = replace(source, data=deepcopy(source.data), places=dict(source.places))
        try:
            yield label, *_check(copy, path.parent, name, settings, inspection)
        except BenchError as error:  # raised by `--set` or by a plugin
            yield label, None, 0, str(error).splitlines()


def _check(
    source: Located, folder: Path, profile: str | None, settings: tuple[str, ...], inspection: InspectionInputs | None
) -> tuple[Suite, int, list[str]]:
    """Return the suite, the number of its cells, and all problems."""
    from bench_core.suites.cells import cells_of
    from bench_core.suites.check import report_misfits
    from bench_core.suites.load import examine

    suite, problems = examine(source, folder, profile, settings)
    report_misfits(suite, problems)
    if authors := installed_module(AUTHORS, "suite_checks"):
        authors.report_targets(suite, problems)
    if inspection:
        inspection.findings.notes |= dict.fromkeys(problems.notes)
    if inspection and authors:
        inspector = authors.Inspector(suite, problems, inspection.findings, inspection.data, inspection.answers)
        authors.report_unavailable(suite, inspection.data, problems, inspector)
    return suite, 0 if problems.messages else len(cells_of(suite)), problems.messages


def _build(suites: dict[str, Suite], data: Path, store: Store) -> bool:
    """Prepare tasks and build models; print failures, and return whether any occurred."""
    from bench_core.execution.progress import ProgressDisplay
    from bench_core.runs.executors import executor
    from bench_core.runs.runner import Runner

    reasons: dict[str, None] = {}
    for suite in suites.values():
        runner = Runner(suite, data, store, executor(0, store, data), ProgressDisplay())
        try:
            runner.build()
        except BenchError as error:
            reasons[str(error)] = None
        reasons |= dict.fromkeys(runner.loop.failures.values())
    for text in reasons:
        say(text, err=True)
    return bool(reasons)
