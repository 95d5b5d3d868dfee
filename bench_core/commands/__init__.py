"""A file for each command; `main` finds them, `options` are what several share.

Commands read arguments, call what does the work, and print. Plugins add commands by entry points of `bench.commands`.
"""
