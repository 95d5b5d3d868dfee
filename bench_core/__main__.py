"""`python -m bench_core`, the same as `bench`."""

from bench_core.cli import main

main()
