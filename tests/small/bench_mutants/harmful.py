"""Parts that leave, hang or crash while they are tried."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import suppress
from threading import Timer

import torch

from bench_authors.testing import Contract
from bench_mutants.sound import Greedy, Match, Table, Words


def interrupt():
    raise KeyboardInterrupt


def leave():
    raise SystemExit


def hang():
    while True:
        time.sleep(60)


WAYS = {
    "quits": lambda: sys.exit(0),
    "leaves": leave,
    "fails": lambda: sys.exit(3),
    "interrupts": interrupt,
    "vanishes": lambda: os._exit(0),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "aborts": os.abort,
    "hangs": hang,
}


class Unspeakable(Exception):
    """An error whose text ends the process."""

    def __str__(self):
        sys.exit(0)


def exhaust():
    """Allocate more than there may be."""
    resource.setrlimit(resource.RLIMIT_AS, (2**35, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return [bytearray(2**32) for _ in range(16)]


def flood():
    """Print what the checker prints of sound parts, and answers to its requests into all descriptors."""
    print("ok  model wrong: 20 contracts\n" * 10_000, flush=True)
    for descriptor in range(3, 64):
        with suppress(OSError):
            os.write(descriptor, b'{"done": true}\n')


def desert():
    """Leave a child with all descriptors open."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)


def resist():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def speak():
    raise Unspeakable


def recurse():
    recurse()


def replace_a_check():
    torch.testing.assert_close = lambda *one, **more: None


def hide_errors():
    """Have all contracts of all parts pass."""
    Contract.__call__ = lambda contract, case: None


def vanish_later():
    Timer(1, os._exit, [0]).start()


def stop_responding():
    os.closerange(3, 1024)


#: What ends the process in other ways, or would have the checker wait, or believe something.
MORE_WAYS = {
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exhausts": exhaust,
    "kills its group": lambda: os.killpg(0, signal.SIGKILL),
    "suspends itself": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "closes descriptors": stop_responding,
    "floods": flood,
    "deserts": desert,
    "resists": resist,
    "cannot be reported": speak,
    "recurses": recurse,
    "replaces a check": replace_a_check,
    "hides errors": hide_errors,
}
#: What may be no fault of the part, and may harm those that come after it.
LASTING = {
    "forks": os.fork,
    "removes folders": lambda: shutil.rmtree("..", ignore_errors=True),
    "vanishes later": vanish_later,
    "sets an alarm": lambda: signal.alarm(1),
    "prints at the end": lambda: atexit.register(os._exit, 0),
    "limits recursion": lambda: sys.setrecursionlimit(150),
    "changes the default type": lambda: torch.set_default_dtype(torch.float16),
}
ALL_WAYS = {**WAYS, **MORE_WAYS, **LASTING}


class HarmfulTable(Table):
    def score(self, batch, scoring):
        WAYS[self.config.way]()
        return super().score(batch, scoring)


class HarmfulToBuild(Table):
    def __init__(self, config, info):
        super().__init__(config, info)
        WAYS[config.way]()


class HarmfulGreedy(Greedy):
    def decode(self, model, batch, rng):
        WAYS[self.config.way]()
        return super().decode(model, batch, rng)


class HarmfulMatch(Match):
    def measure(self, predictions):
        WAYS[self.config.way]()
        return super().measure(predictions)


class HarmfulWords(Words):
    def references(self, split):
        ALL_WAYS[self.config.way]()
        return super().references(split)
