"""What the core calls where bench-reports is installed; a function is imported when it is called."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

PLACES = {
    "write_report": "render.written:report",
    "run_html": "render.notebook:notebook_html",
    "power_rows": "content.power_table:power_rows",
    "decided": "content.claims:decided",
}


def __getattr__(name: str) -> Any:
    """Return one of these functions; raise AttributeError for any other name."""
    if name not in PLACES:
        raise AttributeError(name)
    return resolve_name(f"bench_reports.{PLACES[name]}")
