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
def command(
    suite: Path,
    profile: str | None,
    settings: tuple[str, ...],
    seeds: int | None,
    data: Path | None,
    store: Path,
    runs: Path,
    out: Path,
) -> int:
    """Run a suite: compute what is not stored, then write its report."""
    from bench_core.commands.report import home
    from bench_core.corpora import data_folder
    from bench_core.progress import Lines
    from bench_core.reporting.report import screen, write_report
    from bench_core.runner import Runner
    from bench_core.store import Store
    from bench_core.suite import load

    loaded = load(suite, profile, settings, seeds)
    folder = home(out, loaded.label)
    progress = Lines(loaded.label)
    runner = Runner(loaded, data_folder(data), Store(store), progress)
    with progress:
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
