"""Exchange of runs between machines.

`exporting` writes a run to one zip file, `importing` checks such a file (by `artifact_files`) and adds it to a store,
`merge` combines runs of one suite, as far as `compatibility` allows. `commands` holds the commands.
"""
