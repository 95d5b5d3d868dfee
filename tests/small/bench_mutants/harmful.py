"""Parts that leave, hang or crash while they are tried."""

from __future__ import annotations

import os
import signal
import sys
import time

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


class HarmfulTable(Table):
    def score(self, batch, scoring):
        WAYS[self.config.way]()
        return super().score(batch, scoring)


class HarmfulToBuild(Table):
    def __init__(self, config, info):
        super().__init__(config, info)
        WAYS[config.way]()


class HarmfulGreedy(Greedy):
    def decode(self, model, batch, noise):
        WAYS[self.config.way]()
        return super().decode(model, batch, noise)


class HarmfulMatch(Match):
    def measure(self, outcomes):
        WAYS[self.config.way]()
        return super().measure(outcomes)


class HarmfulWords(Words):
    def references(self, split):
        WAYS[self.config.way]()
        return super().references(split)
