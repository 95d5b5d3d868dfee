"""The packages that belong to the core."""

from bench_core.optional import AUTHORS, NOTEBOOK, TRAINING, package

#: The core, its libraries, and distributions that perform stages and call parts on its behalf.
LIBRARIES = ("block_bootstrap", "code_digests", "input_digests", "placed_settings", "plain_files", "process_watch")
PACKAGES = ("bench_core", *LIBRARIES, *map(package, (AUTHORS, NOTEBOOK, TRAINING)))
