"""Execution of stages: in this process, by worker processes, or by executors of plugins.

`performing` performs a stage. `executor` is the interface of executors, `workers` a pool of worker processes, which
run `worker`. `progress` prints progress and the remaining time; `gpus` assigns stages to GPUs. Not here: the
computation of stages (`computing`) and their order (`runs`).
"""

#: Modules that plugins may import, in addition to the interfaces.
PUBLIC = ("executor", "failures", "progress")
