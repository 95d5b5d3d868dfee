"""Which packages are the core's."""

from bench_core.optional import AUTHORS, NOTEBOOK, TRAINING, package

#: Its own, its libraries, and those that perform stages and call parts in its place.
PACKAGES = ("bench_core", "code_digests", "process_watch", *map(package, (AUTHORS, NOTEBOOK, TRAINING)))
