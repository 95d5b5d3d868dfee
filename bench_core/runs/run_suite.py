"""The suite of a run, as its folder keeps it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_core.errors import SuiteError
from bench_core.optional import SECTIONS
from bench_core.suites import yaml_source as located
from bench_core.suites.grids import ModelGrid, expand, plainly
from bench_core.suites.load import resolve
from bench_core.suites.schema import SuiteFile
from bench_core.suites.sections import of_plugins
from bench_core.suites.suite import Suite
from bench_core.suites.training import training_schema
from placed_settings import Located, Problems

SHOWN = ("labels", "quote", "samples", *SECTIONS)  #: sections of a suite on which no key depends


def effective_suite(source: Located) -> tuple[SuiteFile, dict[str, ModelGrid]]:
    """Return a suite with its grids expanded as in the run."""
    mistakes = Problems(source)
    grids = expand(source, mistakes)
    if mistakes.found:
        raise SuiteError(mistakes.text())
    return plainly(read_suite_file(source.data), grids), grids


def sections_of(source: Located, grids: Mapping[str, ModelGrid]) -> dict[str, Any]:
    """Return what the suite of a run has for the keys of plugins that are installed here, by key."""
    mistakes = Problems(source)
    found = of_plugins(source.data, grids, mistakes)
    if mistakes.found:
        raise SuiteError(mistakes.text())
    return found


def read_suite_file(data: Mapping[str, Any]) -> SuiteFile:
    """Return the suite of a run without the keys of plugins, which need not be installed where it is read.

    Raises ValidationError if it is invalid, or its `training:` is, as far as its schema is installed.
    """
    found = SuiteFile.model_validate({key: value for key, value in data.items() if key in SuiteFile.model_fields})
    training_schema().model_validate(found.training)
    return found


def suite_of(run: Path) -> Suite:
    """Return the suite of a run as loaded by the current code, without what no key depends on."""
    source = located.read(run / "suite.yaml")
    for key in SHOWN:
        source.data.pop(key, None)
    return resolve(source, run)
