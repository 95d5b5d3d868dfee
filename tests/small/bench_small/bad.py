"""Parts that disturb the process that they are in."""

from __future__ import annotations

import builtins
import ctypes
import os
import random
import signal
import sys
import time
from contextlib import suppress
from math import log

import torch

from bench_small.parts import Argmax, Ended

ALL = range(3, 256)  # descriptors that a part should not know of
LONG = 600  # seconds


class Bad(Argmax):
    def decode(self, model, batch, rng):
        DEEDS[self.config.deed](model, batch)
        return super().decode(model, batch, rng)


class Clear(Ended):
    signature = "clears"

    def measure(self, predictions):
        found = [float(bool(prediction.hypotheses[0].finished)) for prediction in predictions]
        for prediction in predictions:
            prediction.hypotheses[0] = prediction.hypotheses[0].__class__([], False)
        return found


def change_weights(model, batch):
    model.table.weight.data[1] += 1


def shuffle_weights(model, batch):
    model.table.weight.data = model.table.weight.data.flip(0)


def change_buffer(model, batch):
    model.luck.data -= 0.5


def replace_method(model, batch):
    step = model.step
    model.step = lambda state, actions: (step(state, actions)[0].flip(1), state)


def add_hook(model, batch):
    model.table.register_forward_hook(lambda module, inputs, output: output.flip(1))


def write_batch(model, batch):
    batch.prompt.fill_(0)
    batch.ids.fill_(1)


def patch_torch(model, batch):
    torch.Tensor.log_softmax = lambda self, dim: (0 * self).sub(log(self.shape[dim]))  # sums to one all the same


def write_everywhere(text):
    def write(model, batch):
        for number in ALL:
            with suppress(OSError):
                os.write(number, text)
        time.sleep(1)

    return write


def leave_child(model, batch):
    if os.fork() == 0:
        time.sleep(LONG)
        os._exit(0)
    os.abort()


def leave_child_and_go_on(model, batch):
    if os.fork() == 0:
        time.sleep(LONG)
        os._exit(0)


def come_back_twice(model, batch):
    if os.fork() == 0:
        raise RuntimeError("from the child")
    os.wait()


def recur(model, batch):
    recur(model, batch)


def never_end(model, batch):
    while True:
        with suppress(BaseException):
            time.sleep(LONG)


def seed(model, batch):
    torch.manual_seed(1)
    random.seed(1)


def look_around(model, batch):
    os.environ.get("SMALL")
    ctypes.CDLL(None)


DEEDS = {
    "look": look_around,
    "dtype": lambda model, batch: torch.set_default_dtype(torch.float64),
    "precision": lambda model, batch: torch.set_float32_matmul_precision("medium"),
    "deterministic": lambda model, batch: torch.use_deterministic_algorithms(True),
    "device": lambda model, batch: torch.set_default_device("meta"),
    "gradients": lambda model, batch: torch.set_grad_enabled(True),
    "threads": lambda model, batch: torch.set_num_threads(3),
    "folder": lambda model, batch: os.chdir("/"),
    "seed": seed,
    "weights": change_weights,
    "shuffled": shuffle_weights,
    "buffer": change_buffer,
    "method": replace_method,
    "hook": add_hook,
    "batch": write_batch,
    "patch": patch_torch,
    "input": lambda model, batch: builtins.input(),
    "stdin": lambda model, batch: (sys.stdin.close(), suppress(OSError).__enter__(), os.close(0)),
    "garbage": write_everywhere(b"\xff\x00 garbage" * 999),
    "answer": write_everywhere(b'{"done": true}\n'),
    "close": lambda model, batch: os.closerange(ALL.start, ALL.stop),
    "leave": lambda model, batch: os._exit(0),
    "quit": lambda model, batch: sys.exit(),
    "kill": lambda model, batch: os.killpg(0, signal.SIGKILL),
    "ignore": lambda model, batch: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "child": leave_child,
    "lasting child": leave_child_and_go_on,
    "twice": come_back_twice,
    "recursion": recur,
    "sleep": lambda model, batch: time.sleep(LONG),
    "endless": never_end,
    "stop": lambda model, batch: os.kill(os.getpid(), signal.SIGSTOP),
    "none": lambda model, batch: None,
}
