"""Training: from the `stages` that workers perform down to a single update; `plugin` declares the stage kinds.

`trainer` runs phases, updates and evaluations, `resuming` continues from a checkpoint, and `update` computes one
update. A suite configures `optimizers`, `schedules`, `clipping`, `averaging`, `precision`, `compilation`,
`batch_size` and `reset`. `batch_stream` moves batches to the device, `log` accumulates losses, `evaluation` scores
weights, `checkpoint` stores the training state, `vmapped` vmaps over seeds, and `data_parallel` splits each batch
among the processes that `process_group` starts. `training_check` validates settings. `forecast` predicts training
costs from the `speed` that `calibration` measures.
"""
