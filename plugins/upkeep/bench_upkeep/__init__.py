"""Upkeep of stores and runs: listing, cleaning, and explaining why results are not stored.

`garbage` lists the artifacts of a store, finds damaged ones and removes those that no run refers to; `run_folders`
lists and removes runs; `why` compares the keys of a run with today's plan. `commands` holds the commands.
"""
