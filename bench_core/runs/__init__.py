"""Runs: suites that are carried out, and what they leave.

`runner` has stages performed in their order, `record` writes the folder of a run, `results` reads it; `why` compares
what a run recorded with today's plan; `selecting` and `distributions` are for readers. Not here: reports (a plugin),
and commands.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = ("reporting", "results", "selecting")
