"""Computation of stages; every file here that a stage executes is part of the keys of its results.

`stage_runner` performs stages, `stages` and `training_stages` implement each kind with a `context`, `building` builds
parts, `train` and `evaluate` are the loops, `checkpoint` resumes training, `vmap_training` trains several seeds at
once, `bootstrap` resamples examples; files with `guard` in their name check what parts return. `calibration` times
some updates of a training and counts its `memory`, which no result depends on. Not here: processes and machines
(`execution`).
"""
