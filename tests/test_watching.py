"""The library that watches processes knows what is the core's, and what it is told of parts."""

from __future__ import annotations

import subprocess
import sys

import pytest

import block_bootstrap
import code_digests
import input_digests
import placed_settings
import plain_files
import process_watch
from bench_core.execution.watching import install
from bench_core.registry import parts
from process_watch import Watch
from process_watch.replacements import is_helper
from process_watch.whose_code import sort_of


def test_generators_of_what_a_stage_imports_are_seeded_as_if_it_had_been_there(tmp_path):
    code = """
import random, sys
from bench_core.computing.process_state import defined_state
from bench_core.execution.watching import install
install()
for _ in range(2):
    with defined_state(1, 3, sys.argv[1], print):
        first = random.random()
        import numpy
        print(first, random.random(), numpy.random.rand())
"""
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    one, other = found.stdout.splitlines()
    assert one == other


@pytest.mark.parametrize(
    "library",
    [block_bootstrap, code_digests, input_digests, placed_settings, plain_files, process_watch],
    ids=lambda library: library.__name__,
)
def test_a_library_of_the_core_is_the_host_s_and_no_helper_of_parts(library):
    install()
    assert sort_of(library.__file__) == "host"
    assert not is_helper(library.__name__, library)


def test_the_registry_is_restored_after_a_stage():
    install()
    watch, before = Watch(), {**parts("metric")}
    watch.begin()
    try:
        parts("metric").popitem()
        assert watch.restored() == ["the registry"]
        assert parts("metric") == before
    finally:
        parts("metric").update(before)
