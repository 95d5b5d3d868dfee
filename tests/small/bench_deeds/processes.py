"""Deeds to the process itself, to its descriptors, and to files of others; most can only be tried in a worker."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench_deeds.doing import DELAY, Case, either

LONG = 600  # seconds


def store():
    return Path(os.environ["BENCH_DEEDS_STORE"])


def delete_weights():
    for path in store().glob("train/*/weights.safetensors"):
        path.unlink()


def write_weights():
    for path in store().glob("train/*/weights.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 64
        path.write_bytes(content)


def delete_unfinished():
    for path in store().glob("unfinished/*"):
        shutil.rmtree(path)


def close_unfinished():
    for path in (store(), *store().glob("*")):
        path.chmod(0)


def write_scores():
    for path in store().glob("measure/*/number.json"):
        path.write_text(path.read_text().replace("1", "2"))


def delete_file_of_another_part():
    from bench_deeds import clean

    (Path(clean.__file__).parent / "endings.txt").unlink()


def edit_file_of_another_part():
    from bench_deeds import clean

    (Path(clean.__file__).parent / "endings.txt").write_text("a 9\nb 9\nc 9\nd 9\n")


def close_streams():
    for number in (0, 1, 2):
        os.close(number)


def close_descriptors():
    os.closerange(3, 256)


def redirect_descriptors():
    empty = os.open(os.devnull, os.O_RDWR)
    for number in range(3, 64):
        if number != empty:
            os.dup2(empty, number)


def leave_child():
    if os.fork() == 0:
        time.sleep(LONG)
        os._exit(0)


def leave_child_that_kills():
    """Have a child of its own kill this process a little later."""
    command = f"import os, time; time.sleep({DELAY * 4}); os.kill({os.getpid()}, 9)"
    subprocess.Popen([sys.executable, "-S", "-c", command])


def run_out_of_descriptors():
    try:
        while True:
            os.open(os.devnull, os.O_RDONLY)
    except OSError:
        pass


def alarm():
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, DELAY)


PROCESSES = (
    either("trained weights deleted", "decoder", "loop", delete_weights),
    either("trained weights changed on disk", "metric", "loop", write_weights),
    either("stored scores changed on disk", "decoder", "end", write_scores, processes=True),
    either("unfinished artifacts deleted", "decoder", "loop", delete_unfinished),
    either("folders of the store closed", "decoder", "loop", close_unfinished, lasting=True),
    either("a file of another part deleted", "decoder", "loop", delete_file_of_another_part, lasting=True),
    either("a file of another part changed", "decoder", "loop", edit_file_of_another_part, lasting=True),
    either("standard streams closed", "decoder", "loop", close_streams),
    either("a child left running", "decoder", "loop", leave_child, processes=True),
    either("a child that kills its parent later", "decoder", "end", leave_child_that_kills, processes=True),
    either("an alarm that kills", "metric", "end", alarm, processes=True),
    either("no descriptor left", "decoder", "end", run_out_of_descriptors, processes=True),
    either("descriptors closed", "decoder", "loop", close_descriptors, processes=True),
    either("descriptors redirected", "metric", "loop", redirect_descriptors, processes=True),
    Case("os._exit(0)", "decoder", "loop", lambda: os._exit(0), "dies", processes=True),
    Case("sys.exit(0)", "model", "loop", lambda: sys.exit(0), "dies", processes=True),
    Case("sys.exit at building", "metric", "building", lambda: sys.exit(0), "dies", processes=True),
    Case("KeyboardInterrupt", "probe", "loop", lambda: signal.raise_signal(signal.SIGINT), "dies", processes=True),
    Case("os.abort()", "task", "loop", os.abort, "dies", processes=True),
    Case("SIGKILL", "metric", "end", lambda: os.kill(os.getpid(), signal.SIGKILL), "dies", processes=True),
    Case("SIGSTOP", "decoder", "loop", lambda: os.kill(os.getpid(), signal.SIGSTOP), "dies", processes=True),
    Case("SIGSTOP of its group", "model", "setup", lambda: os.killpg(0, signal.SIGSTOP), "dies", processes=True),
)
