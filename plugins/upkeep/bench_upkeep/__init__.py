"""Looks ahead and after: what runs would compute, why results are not stored, and what is in stores and runs.

`predictions` says what stages will cost, `stage_order` begins the longest first, and `calibrating` times trainings on
this machine; `garbage` lists the artifacts of a
store, finds damaged ones and removes those that no run refers to; `run_folders` lists and removes runs; `why`
compares the keys of a run with today's plan. `commands` holds the commands.
"""
