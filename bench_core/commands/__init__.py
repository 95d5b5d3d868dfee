"""The command line: a file per command, shared `options`, and `main`, which imports a command when it is called.

Commands parse arguments, call other modules, and print. Plugins add commands as entry points of `bench.commands`.
"""
