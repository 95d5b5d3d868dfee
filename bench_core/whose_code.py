"""Which packages are the core's."""

from bench_core.optional import AUTHORS, NOTEBOOK, TRAINING, package

#: Its own, its libraries, and those that perform stages and call parts in its place.
LIBRARIES = ("block_bootstrap", "code_digests", "input_digests", "placed_settings", "plain_files", "process_watch")
PACKAGES = ("bench_core", *LIBRARIES, *map(package, (AUTHORS, NOTEBOOK, TRAINING)))
