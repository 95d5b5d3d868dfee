"""All files of a run for figures of per-example values."""

from collections.abc import Sequence
from typing import Any

from bench_reports.figures.by_length import BY_LENGTH
from bench_reports.figures.distributions import DISTRIBUTIONS
from bench_reports.figures.kept_files import KeptFile
from bench_reports.figures.survival import OUTPUT_LENGTHS

EXAMPLE_FILES: Sequence[KeptFile[Any]] = (DISTRIBUTIONS, OUTPUT_LENGTHS, BY_LENGTH)
