"""Run `bench` as `python -m bench_core`."""

from bench_core.commands.main import main

main()
