"""Inspects suites before runs, and stores after runs: planned stages, costs, reasons for recomputation, cleanup.

`cost_estimates` estimates the costs of stages, to start the longest first, and `calibrating` times model updates
on this machine. `garbage` lists the artifacts of a store, finds damaged artifacts, and removes
unreferenced artifacts. `run_folders` lists and removes runs. `why` compares the keys of a run with the current plan.
`commands` contains the commands.
"""
