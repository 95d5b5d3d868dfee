"""Runs that travel between machines.

`exporting` writes a run to one file, `importing` checks such a file and adds it to a store; `merge` makes one run of
several that `compatibility` finds to be of one suite. `commands` are those of the command line.
"""
