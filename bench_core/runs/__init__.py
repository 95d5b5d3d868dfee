"""Runs of suites, and the folder that each leaves.

`runner` performs the stages of a plan, `record` writes the run folder, `results` reads it, `reporting` has its report
written. `provenance` is what a run records of its stages and parts (`planned`: of its plan) so that it can be
verified; `manifest` lists the files of a folder. `why` compares the keys of a run with today's plan, `selecting`
selects its cells, `plan_filter` those that are run. Not here: reports (a plugin), and commands.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = ("manifest", "provenance", "reporting", "results", "selecting")
