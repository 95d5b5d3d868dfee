"""Exchange of runs between machines and with other programs, and verification of runs.

`exporting` writes a run to one zip file, `unpacking` checks this file (using `artifact_files`), and `importing`
adds it to a store. `merge` combines runs of one suite if `compatibility` allows it. `outputs` writes predictions and
scores as JSON lines, CSV or text. `verifying` verifies runs, reports and exports: `recorded` and `suite_settings`
check the files of a run for consistency, `compared_with_store` compares them with a store, and `repeating`
recomputes stages.
`commands` contains the commands.
"""
