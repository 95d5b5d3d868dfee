"""Plans of finished runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bench_core.errors import BenchError
from bench_core.planning.plan import plan
from bench_core.runs.results import suite_of


def file_places(run: Path, data: Path) -> dict[str, str]:
    """Return where the files of the suite of a run are, with their marks in keys; none if it cannot be planned."""
    with suppress(BenchError):
        stages = plan(suite_of(run), data).stages.values()
        return {place: mark for stage in stages for place, mark in stage.settings.get("places", {}).items()}
    return {}
