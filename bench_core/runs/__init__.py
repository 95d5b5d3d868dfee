"""Runs of suites, and their folders.

`runner` runs suites: `stage_loop` performs their stages with one of the `executors`, `run_writer` and
`sample_outputs` write the run folder, `results` and `run_suite` read it, and `reporting` lets a plugin write the
report. `planned` and `provenance` record the stages and parts of a run for verification; `manifest` lists the files
of a folder, and `unverified` the stages imported on trust. `selecting` selects cells of a run, and `plan_filter` the
cells to run. `observing` hosts observers, `observed` converts events for them. `quoting` decides which prompts and
references may be shown. Not here: reports, the Python interface, upkeep (plugins), and commands.
"""

#: Modules that code reading finished runs may use, in addition to the interfaces.
PUBLIC = (
    "manifest", "plan_filter", "provenance", "quoting", "reporting", "results", "run_suite", "runner",
    "selecting", "reported_info", "unverified",
)  # fmt: skip
