"""Runs of suites, and their folders.

`runner` runs suites: `stage_loop` performs their stages with one of the `executors`, `run_writer` writes the run
folder, with `sample_outputs`, `results` reads it, with its suite (`run_suite`), and `reporting` lets a plugin write
its report. `provenance` records the stages and parts of a run (`planned`: from its plan) for verification; `manifest`
lists the files of a folder, `unverified` the stages imported on trust. `selecting` selects cells of a run,
`plan_filter` the cells to run. `observing` hosts observers, `observed` converts events for them. `quoting` decides
which prompts and references may be shown. Not here: reports, the Python interface, upkeep (plugins), and commands.
"""

#: Modules that readers of finished runs may use, besides the interfaces.
PUBLIC = (
    "manifest", "plan_filter", "provenance", "quoting", "reporting", "results", "run_suite", "runner",
    "selecting", "reported_info", "unverified",
)  # fmt: skip
