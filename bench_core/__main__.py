"""`python -m bench_core`, the same as `bench`."""

from bench_core.commands.main import main

main()
