"""The suite of a run, read from its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_core.errors import SuiteError
from bench_core.optional import SECTIONS
from bench_core.suites import yaml_source as located
from bench_core.suites.former_settings import rename_settings
from bench_core.suites.grids import ModelGrid, expand, plainly
from bench_core.suites.load import resolve
from bench_core.suites.schema import SuiteFile
from bench_core.suites.sections import of_plugins
from bench_core.suites.suite import Suite
from bench_core.suites.training import training_schema
from placed_settings import Located, Problems

PRESENTATION_SECTIONS = ("labels", "quote", "samples", *SECTIONS)  #: sections that affect no key


def effective_suite(source: Located) -> tuple[SuiteFile, dict[str, ModelGrid]]:
    """Return the suite of a run and its grids, expanded as in the run."""
    mistakes = Problems(source)
    rename_settings(source, mistakes)  # without warnings, because runs are records
    grids = expand(source, mistakes)
    if mistakes.messages:
        raise SuiteError(mistakes.text())
    return plainly(read_suite_file(source.data), grids), grids


def sections_of(source: Located, grids: Mapping[str, ModelGrid]) -> dict[str, Any]:
    """Return the values of the sections of installed plugins in the suite of a run, by key."""
    mistakes = Problems(source)
    values = of_plugins(source.data, grids, mistakes)
    if mistakes.messages:
        raise SuiteError(mistakes.text())
    return values


def read_suite_file(data: Mapping[str, Any]) -> SuiteFile:
    """Parse the suite of a run without the sections of plugins, which need not be installed.

    Raises ValidationError if the suite is invalid; `training:` is checked only if its schema is installed.
    """
    source = Located("suite.yaml", dict(data))
    rename_settings(source, Problems(source))
    file = SuiteFile.model_validate({key: value for key, value in data.items() if key in SuiteFile.model_fields})
    training_schema().model_validate(file.training)
    return file


def suite_of(run: Path) -> Suite:
    """Load the suite of a run with the current code, without sections that affect no key."""
    source = located.read(run / "suite.yaml")
    for key in PRESENTATION_SECTIONS:
        source.data.pop(key, None)
    return resolve(source, run)
