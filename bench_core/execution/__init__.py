"""Execution of stages: in this process, by worker processes, or by executors of plugins.

`performing` performs one stage. `executor` is the interface of who has them performed, `workers` the pool of
processes whose code is `worker`. `progress` prints progress and
the remaining time, `gpus` says which stages are on which GPU. Not here: what stages compute (`computing`), and the
order in which they run (`runs`).
"""

#: What those may build on who have stages performed, besides the interfaces.
PUBLIC = ("executor", "failures", "progress")
