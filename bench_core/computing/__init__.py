"""Computation of stages; every file here that a stage executes is part of the keys of its results.

`stage_runner` performs stages, `stages` implements the kinds of the core with a `context`, `building` builds parts,
`initial_model` gives models their first weights, `evaluate` decodes and scores, `bootstrap` resamples examples; files
with `guard` or `look` in their name check what parts return. Not here: training, processes and machines
(`execution`).
"""

#: What those may build on who perform stages or use their parts, besides the interfaces.
PUBLIC = (
    "building", "clocks", "context", "evaluate", "evaluating", "fingerprint", "guarded_tasks",
    "initial_model", "loading", "memory_errors", "process_state", "result_checks", "stage_runner", "texts",
)  # fmt: skip
