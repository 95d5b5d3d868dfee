"""Runs of suites, and the folder that each leaves.

`runner` runs suites: `stage_loop` has their stages performed by one of the `executors`, `run_writer` writes the run
folder, with `sample_outputs`, `results` reads it, with its suite (`run_suite`), and `reporting` has its report
written. `provenance` is what a run records of its stages and parts (`planned`: of its plan) so that it can be
verified; `manifest` lists the files of a folder, `unverified` the stages imported on trust. `selecting` selects its
cells, `plan_filter` those that are run. `observing` hosts observers, `observed` names what they hear of. `quoting`
says which prompts and references may be shown. Not here: reports, use from Python, upkeep (plugins), and commands.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = (
    "manifest", "plan_filter", "provenance", "quoting", "reporting", "results", "run_suite", "runner",
    "selecting", "task_facts", "unverified",
)  # fmt: skip
