"""Explain why results are not stored: list the changes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json, visible

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_upkeep.why import Answer, Explanation

INPUTS = {"prepare": "task", "train": "training", "initial": "model", "decode": "outputs", "score": "scores"}
NOTHING_CHANGED = "nothing changed since that run: the stage did not finish in it, or was removed later"


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("cell", nargs=-1)
@options.changes
@options.only
@options.data
@options.store
@options.runs
@options.as_json
def command(
    target: Path,
    cell: tuple[str, ...],
    profile: str | None,
    settings: tuple[str, ...],
    seeds: int | None,
    only: tuple[str, ...],
    data: Path,
    store: Store,
    runs: Path,
    as_json: bool,
) -> None:
    """Explain why stages of TARGET, a suite, are not stored, or why the keys of TARGET, a run, have changed.

    A suite is compared with the recorded ingredients of the same cells in its last run. CELL selects cells by name,
    such as `words/lstm/greedy/test, seed 0` or a part of it, or by AXIS=NAME like --only.
    """
    from bench_core.errors import SuiteError
    from bench_core.planning.plan import plan
    from bench_core.runs.results import read_run
    from bench_core.runs.run_suite import suite_of
    from bench_core.suites.cells import cells_of
    from bench_core.suites.check import check_fit
    from bench_core.suites.load import load
    from bench_upkeep.why import of_run, of_suite

    which = ",".join([" ".join(cell), *only]).strip(",")
    if target.is_dir():
        if profile is not None or settings or seeds is not None:
            raise SuiteError(f"{target} is a run, which has its own suite. Leave out --profile, --set and --seeds.")
        run = read_run(target)
        explanation = of_run(run, plan(suite_of(target), data), store, which)
    else:
        suite = load(target, profile, settings, seeds)
        check_fit(suite, cells_of(suite))
        explanation = of_suite(suite, plan(suite, data), store, runs, which)
    say(to_json(asdict(explanation), 1) if as_json else text(explanation))


def text(explanation: Explanation) -> str:
    """Return the explanation as text: causes first, each stated once."""
    groups: dict[tuple[str, ...], list[Answer]] = {}
    for answer in sorted(explanation.answers, key=lambda answer: not answer.cause):
        groups.setdefault((answer.stage, *reasons(answer)), []).append(answer)
    lines = [visible(explanation.verdict)]
    for (stage, *why), (first, *others) in groups.items():
        more = f" (and {len(others)} more)" if others else ""
        lines += ["", visible(f"{'cause: ' if first.cause else ''}{stage} {first.of}{more}")]
        lines += [f"  {visible(reason)}" for reason in why]
    return "\n".join([*lines, *([""] if explanation.notes else []), *map(visible, explanation.notes)])


def reasons(answer: Answer) -> list[str]:
    """Return the reasons why a stage is not stored, one per line."""
    changed = " and ".join(f"its {INPUTS[kind]}" for kind in answer.follows)
    lines = [
        *(difference.text for difference in answer.differences),
        *([f"follows from {changed}, see above"] if changed else []),
    ]
    return lines or [NOTHING_CHANGED]
