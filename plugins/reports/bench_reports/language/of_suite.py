"""The sections of a suite, or of a run, that define its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bench_core.runs.results import Run
    from bench_core.suites.suite import Suite
    from bench_reports.language.figure_schema import Figure
    from bench_reports.language.published import Published
    from bench_reports.language.schema import Choice, Claim, Table


class SuiteLanguage(NamedTuple):
    """The sections of a suite that define its report; reading an invalid section raises Unreadable."""

    sections: Mapping[str, Any]

    @property
    def tables(self) -> Sequence[Table]:
        """Return the entries of `tables:`."""
        return self._of("tables")  # type: ignore[no-any-return]

    @property
    def figures(self) -> Sequence[Figure]:
        """Return the entries of `figures:`."""
        return self._of("figures")  # type: ignore[no-any-return]

    @property
    def claims(self) -> Sequence[Claim]:
        """Return the entries of `claims:`."""
        return self._of("claims")  # type: ignore[no-any-return]

    @property
    def choose(self) -> Sequence[Choice]:
        """Return the entries of `choose:`."""
        return self._of("choose")  # type: ignore[no-any-return]

    @property
    def published(self) -> Mapping[str, Published]:
        """Return the published tables that a suite can show, or that a run shows, by id."""
        return self._of("published")  # type: ignore[no-any-return]

    def _of(self, key: str) -> Any:
        if key not in self.sections:
            from placed_settings import Unreadable  # slow import, only for invalid sections

            raise Unreadable(key)
        return self.sections[key]


def language(suite: Suite | Run) -> SuiteLanguage:
    """Return the sections of a suite, or of a run, that define its report."""
    return SuiteLanguage(suite.sections)
