"""Training: from `stages`, which are what workers perform, to a single update; `plugin` declares their kinds.

`trainer` goes through phases, updates and evaluations, `resuming` goes on from a checkpoint; `update` computes one;
`optimizers`, `schedules`, `clipping`, `averaging`, `precision`, `compilation`, `batch_size` and `reset` are what a
suite chooses; `batch_stream` brings batches to the device, `log` collects losses, `evaluation` judges weights,
`checkpoint` stores the state of a training, `together` trains several seeds as one model, and `peers` shares each
batch among processes that `process_group` starts. `training_check` checks the settings. `forecast` predicts what
trainings cost, by the `speed` that `calibration` measures.
"""
