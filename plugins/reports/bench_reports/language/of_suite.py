"""The sections of a suite, or of a run, that define its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

if TYPE_CHECKING:
    from bench_core.runs.results import Run
    from bench_core.suites.suite import Suite
    from bench_reports.language.figure_schema import Figure
    from bench_reports.language.published import Published
    from bench_reports.language.schema import Choice, Claim, Table


class SuiteLanguage:
    """The sections of a suite that define its report; reading an invalid section raises Unreadable."""

    tables: Sequence[Table]
    figures: Sequence[Figure]
    claims: Sequence[Claim]
    choose: Sequence[Choice]
    published: Mapping[str, Published]  #: published tables that a suite can show, or that a run shows, by id

    def __init__(self, sections: Mapping[str, Any]) -> None:
        vars(self).update(sections)

    def __getattr__(self, key: str) -> Never:
        from placed_settings import Unreadable  # slow import, only for invalid sections

        raise Unreadable(key)


def language(suite: Suite | Run) -> SuiteLanguage:
    """Return the sections of a suite, or of a run, that define its report."""
    return SuiteLanguage(suite.sections)
