"""Runs of suites, and the folder that each leaves.

`runner` performs the stages of a plan, `record` writes the run folder, `results` reads it, `reporting` has its report
written; `why` compares its keys with today's plan, `selecting` selects its cells, `plan_filter` those that are run.
Not here: reports (a plugin), and commands.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = ("reporting", "results", "selecting")
