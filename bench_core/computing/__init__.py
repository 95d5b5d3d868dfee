"""Computation of stages; cache keys include every module of this package that a stage executes.

`stage_runner` performs stages, `stages` implements the core's stage kinds with a `context`, `building` builds parts,
`initial_model` initializes weights, `evaluate` decodes and scores, and `bootstrap` resamples examples. Modules with
`guard` or `look` in their names check return values of parts. Not here: training, and processes (`execution`).
"""

#: Modules that plugins may import, besides the interfaces.
PUBLIC = (
    "building", "clocks", "context", "evaluate", "evaluating", "fingerprint", "guarded_tasks",
    "initial_model", "loading", "memory_errors", "process_state", "result_checks", "stage_runner", "texts",
)  # fmt: skip
