"""The hook that this plugin defines for others."""

from bench_core import hookspec
from bench_decoders.processors import ProcessorConfig


@hookspec
def bench_processors() -> list[type[ProcessorConfig]]:
    """Return the processors that this plugin provides, for the setting `processors` of decoders."""
