"""Execution of stages: in this process, by worker processes, or by executors of plugins.

`executor` is the interface, `workers` the pool of processes whose code is `worker`, `progress` prints progress and
the remaining time, `gpus` says which stages are on which GPU. Not here: what stages compute (`computing`), and the
order in which they run (`runs`).
"""

#: What those may build on who have stages performed, besides the interfaces.
PUBLIC = ("executor", "progress")
