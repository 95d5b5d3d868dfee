"""Reading the YAML of suites; errors are raised as SuiteError."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import placed_settings
from bench_core.errors import SuiteError
from placed_settings import Located


@contextmanager
def errors_of_suites() -> Iterator[None]:
    """Convert SettingsError in a block to SuiteError."""
    try:
        yield
    except placed_settings.SettingsError as error:
        raise SuiteError(str(error)) from None


def read(path: Path, tolerant: bool = False) -> Located:
    """Read a suite; raise SuiteError with file, line and column. See `placed_settings.read`."""
    with errors_of_suites():
        return placed_settings.read(path, tolerant)


def content(path: Path) -> str:
    """Return the text of a file; raise SuiteError if it cannot be read."""
    with errors_of_suites():
        return placed_settings.content(path)


def parse(text: str, path: str = "<text>", tolerant: bool = False) -> Located:
    """Parse the text of a suite; see `read`."""
    with errors_of_suites():
        return placed_settings.parse(text, path, tolerant)


def scalar(text: str, origin: str) -> Any:
    """Parse the value of a `--set` option; raise SuiteError, with its `origin`, unless it is a single value."""
    with errors_of_suites():
        return placed_settings.scalar(text, origin)
