"""Exchange of runs between machines, and verification of runs.

`exporting` writes a run to one zip file, `importing` checks such a file (by `artifact_files`) and adds it to a store,
`merge` combines runs of one suite, as far as `compatibility` allows. `verifying` compares a run with a store, and
`repeating` computes its stages again. `commands` holds the commands.
"""
