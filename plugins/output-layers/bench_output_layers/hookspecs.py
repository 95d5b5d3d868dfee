"""The hook that this plugin offers to others."""

from bench_core import hookspec
from bench_output_layers.codebooks import CodebookConfig


@hookspec
def bench_codebooks() -> list[type[CodebookConfig]]:
    """Return the codebooks that a plugin provides, for the setting `codes`."""
