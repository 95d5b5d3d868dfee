"""The command line: a file per command, shared `options`, and `main`, which imports commands on use.

Commands parse arguments, call the layers below, and print. Plugins add commands by entry points of `bench.commands`.
"""
