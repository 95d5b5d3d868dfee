"""Runs that travel between machines.

`bundle` writes a run to one file, `unbundle` checks such a file and `importing` takes it in; `merge` makes one run of
several, after `compatibility` and `duplicates` have looked at them. `commands` are those of the command line.
"""
