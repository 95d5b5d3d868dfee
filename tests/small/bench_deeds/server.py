"""A process with everything loaded, which runs each suite in a fork of its own, whatever that does to itself.

It reads a request as a line of JSON: the suite as a file, and where to run it; it answers by how the fork ended.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import bench_core
from bench_core.execution import workers
from bench_core.planning.plan import plan
from bench_core.suites.load import load
from bench_deeds import clean
from bench_deeds.deeds import CASES
from bench_upkeep import for_core
from block_bootstrap import drawing

PAUSE = 0.01  # seconds between two looks whether the fork has ended


def main():
    os.fsync = lambda handle: None
    run(json.loads(sys.argv[1]))  # loads what a run needs
    plan(load(Path(json.loads(sys.argv[1])["also"])), Path.cwd())  # digests the code of all parts
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)


def forked(request):
    """Run a suite in a fork; return its exit code, None if it did not end in time, and its CPU seconds."""
    before = cpu_seconds()
    child = os.fork()
    if child == 0:
        try:
            be_apart(request)
            if request["before"] is not None:
                begin_with(CASES[request["before"]])
            run(request)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    until, ended = time.monotonic() + request["seconds"], (0, 0)
    while ended[0] == 0 and time.monotonic() < until:
        time.sleep(PAUSE)
        ended = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if ended[0] == 0:
        os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended[1]) if ended[0] else None
    return {"code": code, "cpu": cpu_seconds() - before}


def be_apart(request):
    """Leave the server's group, folder and descriptors."""
    os.setsid()
    os.chdir(request["folder"])
    log = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    empty = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((empty, log, log)):
        os.dup2(descriptor, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["BENCH_DEEDS_STORE"] = request["store"]
    drawing._cached_counts.cache_clear()
    clean.factor.cache_clear()


def begin_with(case):
    """Do a deed before a run, whose stages then are all affected."""
    if case.moment == "import":
        import_module(f"bench_deeds.imported.{case.part}")
    with suppress(Exception):
        case.act()


def run(request):
    """Run a suite, its stages in some order."""
    if request["order"] is not None:
        for_core.ranks = lambda stages, estimates, number: ranks(stages, request["order"])
    workers.SILENCE, workers.SUSPENSION = 2.0, 3.0
    bench_core.run(
        request["suite"],
        store=request["store"],
        out=request["out"],
        data=request["folder"],
        workers=request["workers"],
    )


def ranks(stages, order):
    """Return ranks by which the deed comes `first` or `last`, or, with a number, in some random order."""
    if isinstance(order, int):
        keys = sorted(stage.key for stage in stages)
        random.Random(order).shuffle(keys)
        return {key: float(place) for place, key in enumerate(keys)}
    known = {stage.key: stage for stage in stages}
    wanted = [stage for stage in stages if "deed" in stage.label]
    needed = set()
    while wanted:
        stage = wanted.pop()
        needed.add(stage.key)
        wanted += [known[key] for _, key in stage.inputs.values() if key in known and key not in needed]
    early = {True: -1.0, False: 0.0} if order == "first" else {True: 1.0, False: 0.0}
    return {stage.key: early[stage.key in needed] * len(stages) + place for place, stage in enumerate(stages)}


def cpu_seconds():
    """Return the CPU seconds of all forks that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
