"""`bench run SUITE`."""

from __future__ import annotations

from pathlib import Path

import click

from bench_core.commands import options


@click.command()
@options.of_suite
@options.data
@options.store
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("reports"), show_default=True, help="Folder of reports."
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Processes that compute side by side, each with the suite's threads; 0 computes in this one.",
)
def command(
    suite: Path,
    profile: str | None,
    settings: tuple[str, ...],
    seeds: int | None,
    data: Path | None,
    store: Path,
    runs: Path,
    out: Path,
    workers: int,
) -> int:
    """Run a suite: compute what is not stored, then write its report."""
    from bench_core.commands.report import home
    from bench_core.corpora import data_folder
    from bench_core.progress import Lines
    from bench_core.reporting.report import screen, write_report
    from bench_core.runner import Runner, executor
    from bench_core.store import Store
    from bench_core.suite import load

    loaded = load(suite, profile, settings, seeds)
    folder = home(out, loaded.label)
    progress = Lines(loaded.label)
    place, kept = data_folder(data), Store(store)
    with executor(workers, kept, place) as performing, progress:
        runner = Runner(loaded, place, kept, performing, progress)
        found = runner.run(runs)
    write_report(found, folder)
    click.echo(screen(found))
    failed = [cell for cell in found.cells if cell.status != "done"]
    done = len(runner.computed)
    click.echo(
        f"{len(found.cells)} cells: " + (f"{done} stages computed" if done else "all stored, nothing computed")
    )
    for status, reason in dict.fromkeys((cell.status, cell.reason) for cell in failed):
        number = sum((cell.status, cell.reason) == (status, reason) for cell in failed)
        click.echo(f"{number} cells {status}: {reason}", err=True)
    unprepared = {name: about for name, about in found.info["tasks"].items() if about.get("reason")}
    for name, about in unprepared.items():
        click.echo(f"task {name!r} {about['status']}: {about['reason']}", err=True)
    click.echo(f"run     {found.folder}\nreport  {folder / 'report.md'}")
    return 1 if failed or unprepared else 0
