"""Fixtures of the core's tests."""

from __future__ import annotations

from textwrap import dedent

import pytest
from bench_small.suites import SUITE


@pytest.fixture
def small():
    """Install the plugin of tests/small for the time of a test."""
    import bench_small.plugin

    from bench_core import registry

    with registry.extra(bench_small.plugin):
        yield


@pytest.fixture
def suite_file(tmp_path, small):
    """Return a function that writes a suite, the small one or another, and returns its path."""

    def write(text=SUITE, **replaced):
        for old, new in replaced.items():
            text = text.replace(old, new)
        path = tmp_path / "suite.yaml"
        path.write_text(dedent(text))
        return path

    return write
