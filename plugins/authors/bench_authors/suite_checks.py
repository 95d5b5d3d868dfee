"""What `bench check` looks for besides mistakes in a suite: classes of parts, and files, servers and devices here."""

from bench_authors.availability import report_unavailable
from bench_authors.inspector import Inspector
from bench_authors.target_check import report_targets

__all__ = ["Inspector", "report_targets", "report_unavailable"]
