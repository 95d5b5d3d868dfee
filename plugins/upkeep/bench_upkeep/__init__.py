"""Inspects suites before and stores after runs: planned stages, costs, reasons for recomputation, cleanup.

`cost_estimates` estimates the costs of stages, `stage_order` starts the longest first, and `calibrating` times
trainings on this machine. `garbage` lists artifacts of a store, finds damaged and removes unreferenced artifacts.
`run_folders` lists and removes runs. `why` compares the keys of a run with the current plan. `commands` contains the
commands.
"""
