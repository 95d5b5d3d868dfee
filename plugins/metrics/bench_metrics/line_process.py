"""A subprocess that answers one line per line."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen, TimeoutExpired
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Thread
from typing import IO

from bench_core import reads

BATCH = 256  # questions written at once
FAREWELL = 10.0  # seconds for what follows at once: an end, a closed pipe


class Unanswered(Exception):
    """A program ended, fell silent or said too much; `number` is the question that it owes an answer to."""

    def __init__(self, number: int, reason: str, silent: bool = False) -> None:
        super().__init__(reason)
        self.number, self.reason, self.silent = number, reason, silent


def ask(command: Sequence[str], questions: Sequence[str], patience: float, *files: Path) -> list[str]:
    """Start a program and return its answers; it has ended, and its files are gone, when this returns or raises.

    It reads its questions, and `files`, which are inputs of the stage.

    Each answer may take `patience` seconds. Questions are written and answers read by threads of their own, and what
    the program complains of goes to a file, so that no full pipe can hold up either side. Raises Unanswered unless
    there is exactly one answer to each question, and ValueError for a question of several lines.
    """
    broken = [question for question in questions if "\n" in question or "\r" in question]
    if broken:
        raise ValueError(f"a question is one line, not {broken[0]!r}")
    with TemporaryDirectory(prefix="bench-") as folder, TemporaryFile() as complaints:
        # a session of its own: what it starts is ended with it, and Ctrl-C comes to us alone
        with reads(*files):
            program = Popen(command, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=complaints, start_new_session=True)
        lines: SimpleQueue[bytes | None] = SimpleQueue()
        threads = [
            Thread(target=_write, args=(program.stdin, questions), daemon=True),
            Thread(target=_read, args=(program.stdout, lines), daemon=True),
        ]
        try:
            for thread in threads:
                thread.start()
            answers = _answers(lines, len(questions), patience)
            if len(answers) < len(questions):
                raise Unanswered(len(answers), _last_words(program, complaints))
            return answers
        finally:
            _end(program, threads)


def _answers(lines: SimpleQueue[bytes | None], most: int, patience: float) -> list[str]:
    """Return what is said until the program closes its output; raise Unanswered if it keeps silent or says more."""
    answers: list[str] = []
    while True:
        try:
            line = lines.get(timeout=patience)
        except Empty:
            reason = f"nothing came within {patience:g} seconds"
            raise Unanswered(min(len(answers), most - 1), reason, silent=True) from None
        if line is None:
            return answers
        if len(answers) == most:
            raise Unanswered(most - 1, f"there were more answers than questions, one of them {line[:80]!r}")
        answers.append(line.decode("utf-8", "replace").rstrip("\r\n"))


def _write(stdin: IO[bytes], questions: Sequence[str]) -> None:
    with suppress(OSError):  # a program that has ended reads no more
        for start in range(0, len(questions), BATCH):
            batch = "".join(f"{question}\n" for question in questions[start : start + BATCH])
            stdin.write(batch.encode("utf-8", "replace"))
            stdin.flush()
    with suppress(OSError):
        stdin.close()


def _read(stdout: IO[bytes], lines: SimpleQueue[bytes | None]) -> None:
    for line in stdout:
        lines.put(line)
    lines.put(None)


def _last_words(program: Popen[bytes], complaints: IO[bytes]) -> str:
    """Return how a program ended that closed its output, and what it complained of last, without traces of calls."""
    with suppress(TimeoutExpired):
        program.wait(FAREWELL)
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - 100_000))
    lines = complaints.read().decode("utf-8", "replace").splitlines()
    said = " / ".join([line for line in lines if line.strip() and not line[0].isspace()][-3:])[:500]
    return f"the program ended with status {program.poll()}" + (f" and said: {said}" if said else "")


def _end(program: Popen[bytes], threads: Sequence[Thread]) -> None:
    """End the program and all that it started, and close its pipes."""
    if program.poll() is None and os.name == "posix":
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
    elif program.poll() is None:
        program.kill()
    program.wait()
    for thread in threads:
        if thread.ident is not None:  # it was started
            thread.join(FAREWELL)
    for pipe in (program.stdin, program.stdout):
        with suppress(OSError):  # what could not be written any more
            assert pipe is not None
            pipe.close()
