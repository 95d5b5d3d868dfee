"""The checks that `bench check` makes beyond the suite file: part classes, local files, servers and devices."""

from bench_authors.availability import report_unavailable
from bench_authors.inspector import Inspector
from bench_authors.target_check import report_targets

__all__ = ["Inspector", "report_targets", "report_unavailable"]
