"""The costs of stages that one process runs."""

import sys

import pytest

from bench_core.execution.stage_costs import measure_cost

MEBIBYTE = 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the peak memory of a process")
def test_the_peak_memory_of_a_stage_does_not_include_earlier_stages():
    peaks = []
    for size in (96, 1):
        with measure_cost() as cost:
            block = b"x" * (size * MEBIBYTE)
            del block
        peaks.append(cost["peak_mib"])
    assert peaks[1] < peaks[0] - 64
