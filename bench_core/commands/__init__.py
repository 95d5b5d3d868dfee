"""One file per command; `main` finds them, `options` holds what several share.

Commands parse arguments, call the layers below, and print. Plugins add commands by entry points of `bench.commands`.
"""
