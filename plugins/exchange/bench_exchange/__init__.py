"""Exchange of runs between machines and with other programs, and verification of runs.

`exporting` writes a run to one zip file, `unpacking` checks such a file (by `artifact_files`), `importing` adds it to
a store, `merge` combines runs of one suite, as far as `compatibility` allows. `outputs` writes what was decoded and
scored as JSON lines, CSV or text. `verifying` verifies runs, reports and exports: `recorded` and `suite_settings`
compare a run with what it records, `compared_with_store` with a store, and `repeating` computes its stages again.
`commands` holds the commands.
"""
