"""The hook that this plugin offers to others."""

from bench_core import hookspec
from bench_decoders.processors import ProcessorConfig


@hookspec
def bench_processors() -> list[type[ProcessorConfig]]:
    """Return the processors that a plugin provides, for the setting `processors` of decoders."""
