"""A subprocess that answers each line with one line."""

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

BATCH = 256  # questions per flush
EXIT_TIMEOUT = 10.0  # seconds for a program to exit and its pipes to close


class Unanswered(Exception):
    """A program exited early, timed out (`silent`) or answered too often; `number` is the index of the question."""

    def __init__(self, number: int, reason: str, silent: bool = False) -> None:
        super().__init__(reason)
        self.number, self.reason, self.silent = number, reason, silent


def ask(command: Sequence[str], questions: Sequence[str], patience: float, *files: Path) -> list[str]:
    """Run a program and return its answers; when this returns or raises, its processes and temporary files are gone.

    The program reads questions from stdin; it also reads `files`, which are recorded as inputs of the stage. Each
    answer may take `patience` seconds. Two threads write questions and read answers, and stderr goes to a file, so
    that no full pipe can block either side. Raises Unanswered unless there is exactly one answer per question, and
    ValueError if a question has several lines.
    """
    broken = [question for question in questions if "\n" in question or "\r" in question]
    if broken:
        raise ValueError(f"a question must be a single line, not {broken[0]!r}")
    with TemporaryDirectory(prefix="bench-") as folder, TemporaryFile() as errors:
        # a new session: its children are killed with it, and it does not receive Ctrl-C
        with reads(*files):
            program = Popen(command, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=errors, start_new_session=True)
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
                raise Unanswered(len(answers), _exit_report(program, errors))
            return answers
        finally:
            _end(program, threads)


def _answers(lines: SimpleQueue[bytes | None], number: int, patience: float) -> list[str]:
    """Return the answers until the program closes its output; raise Unanswered on timeout or excess answers."""
    answers: list[str] = []
    while True:
        try:
            line = lines.get(timeout=patience)
        except Empty:
            reason = f"no answer within {patience:g} seconds"
            raise Unanswered(min(len(answers), number - 1), reason, silent=True) from None
        if line is None:
            return answers
        if len(answers) == number:
            raise Unanswered(number - 1, f"there were more answers than questions, such as {line[:80]!r}")
        answers.append(line.decode("utf-8", "replace").rstrip("\r\n"))


def _write(stdin: IO[bytes], questions: Sequence[str]) -> None:
    with suppress(OSError):  # the program has exited
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


def _exit_report(program: Popen[bytes], errors: IO[bytes]) -> str:
    """Return the exit status of a program that closed its output, and its last errors, without stack traces."""
    with suppress(TimeoutExpired):
        program.wait(EXIT_TIMEOUT)
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 100_000))
    lines = errors.read().decode("utf-8", "replace").splitlines()
    message = " / ".join([line for line in lines if line.strip() and not line[0].isspace()][-3:])[:500]
    return f"the program exited with status {program.poll()}" + (f" and printed: {message}" if message else "")


def _end(program: Popen[bytes], threads: Sequence[Thread]) -> None:
    """Kill the program and its children, and close its pipes."""
    if program.poll() is None and os.name == "posix":
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
    elif program.poll() is None:
        program.kill()
    program.wait()
    for thread in threads:
        if thread.ident is not None:  # started
            thread.join(EXIT_TIMEOUT)
    for pipe in (program.stdin, program.stdout):
        with suppress(OSError):  # unwritten questions
            assert pipe is not None
            pipe.close()
