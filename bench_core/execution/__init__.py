"""Who performs stages: this process, workers on this machine, or executors that plugins bring.

`executor` is the interface, `workers` and `worker` the two ends of a channel between processes, `progress` tells how
far all is, `repeat` does stages again to compare. Not here: what stages compute (`computing`), and in which order a
run has them performed (`runs`).
"""
