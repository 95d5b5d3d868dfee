"""The worker process, and the channel to it: JSON lines over a private socket.

Requests and answers are JSON lines: `{"alive": true}` as a heartbeat, `{"begun": true}` once it holds its locks,
`{"tell": [text, share]}`, `{"hear": event}` and `{"warn": text}` during it, then `{"done": true}` or
`{"failed": {...}}`. When the socket is closed, the process exits at once with all its children. SIGTERM asks it to
stop; artifacts are written atomically, so nothing is left half-written.

A part runs in the process of the worker and could write to any descriptor. So each line starts with the token of its
request, and a line without it is not an answer.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Event, Lock, Thread
from typing import Any

from bench_core.computing.stage_runner import StageRunner
from bench_core.execution.executor import answer
from bench_core.execution.performing import WATCH
from bench_core.execution.watching import install
from bench_core.observer import event_to_json
from bench_core.storage.store import Store

PATIENCE = 30.0  # seconds to clean up
HEARTBEAT = 5.0  # seconds between two signs of life
MUTE = 71  #: exit code of a worker that cannot answer, because a part has closed its descriptor
LARGEST = 2**16  # bytes that are read at a time
SHOWN = 60  # bytes of what does not belong here


class Garbled(Exception):
    """The channel contains something that the worker did not write."""


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.end.set_inheritable(False)
        self.rest = b""  # of a line that is not whole yet
        self.closed = False  # by the other end

    def send(self, token: str, message: Any) -> None:
        """Send a message; raise OSError if the other end, or the descriptor, is closed."""
        self.end.sendall(f"{token} {json.dumps(message)}\n".encode())

    def listen(self) -> Iterator[tuple[str, Any]]:
        """Yield tokens and messages until the other end is closed."""
        while not self.closed:
            for line in self._lines(None):
                token, _, message = line.decode().partition(" ")
                yield token, json.loads(message)

    def heard(self, token: str, seconds: float) -> list[Any]:
        """Return the messages of a request, waiting at most `seconds`; raise Garbled for anything else."""
        start, found = f"{token} ".encode(), []
        for line in self._lines(seconds):
            if not line.startswith(start):
                raise Garbled(_shown(line))
            try:
                found.append(json.loads(line[len(start) :]))
            except ValueError:
                raise Garbled(_shown(line)) from None
        if not start.startswith(self.rest[: len(start)]):
            raise Garbled(_shown(self.rest))
        return found

    def is_silent(self) -> bool:
        """Return whether the other end is open, and has sent nothing since its last answer."""
        return not (self.rest or self._lines(0) or self.rest or self.closed)

    def close(self) -> None:
        """Close this end."""
        self.end.close()

    def _lines(self, seconds: float | None) -> list[bytes]:
        """Return the complete lines received; if there is nothing, wait at most `seconds`."""
        found = b""
        self.end.settimeout(seconds)
        try:
            found = self.end.recv(LARGEST)
            self.closed = not found
        except (TimeoutError, BlockingIOError):
            return []
        except ConnectionError:
            self.closed = True
        *lines, self.rest = (self.rest + found).split(b"\n")
        return lines


def _shown(text: bytes) -> str:
    """Return the beginning of a message, printable."""
    return repr(text[:SHOWN].decode(errors="replace")) + ("..." if len(text) > SHOWN else "")


class Reporter:
    """Answers the current request, from any thread of this process but from no child process."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.token, self.lock, self.process = channel, "", Lock(), os.getpid()

    def begin(self, token: str) -> None:
        """Start answering a request."""
        with self.lock:
            self.token = token

    def say(self, last: bool = False, **answer: Any) -> None:
        """Answer the current request, if there is one."""
        if os.getpid() != self.process:
            return
        with self.lock:
            if self.token:
                self.channel.send(self.token, answer)
            if last:
                self.token = ""

    def beat(self) -> None:
        """Send heartbeats."""
        with suppress(OSError):
            while True:
                time.sleep(HEARTBEAT)
                self.say(alive=True)


def stages(reporter: Reporter) -> Callable[[Any], dict[str, Any]]:
    """Return a function that performs a request for a stage and returns its last answer."""
    store = Store(Path(sys.argv[1]), warn=lambda text: reporter.say(warn=text))
    runner = StageRunner(store, Path(sys.argv[2]), lambda text, share: reporter.say(tell=[text, share]))
    runner.hear = lambda event: reporter.say(hear=event_to_json(event))
    runner.begun = lambda: reporter.say(begun=True)
    return lambda request: answer(request, runner)


def main(service: Callable[[Reporter], Callable[[Any], dict[str, Any]]] = stages) -> None:
    """Perform requests until there are no more."""
    install()
    WATCH.exclusive = True
    channel = Channel(socket.socket(fileno=int(sys.argv[3])))
    requests: Queue[tuple[str, Any]] = Queue()
    deserted, reporter = Event(), Reporter(channel)
    _stop_by_signal()
    Thread(target=_listen, args=(channel, requests, deserted), daemon=True).start()
    Thread(target=reporter.beat, daemon=True).start()
    try:
        _work(requests, reporter, service(reporter))
    except ConnectionError:
        deserted.set()
    except OSError:
        sys.exit(MUTE)
    finally:
        if deserted.is_set():  # else the run ends the group
            os.killpg(0, signal.SIGKILL)


def _work(requests: Queue[tuple[str, Any]], reporter: Reporter, perform: Callable[[Any], dict[str, Any]]) -> None:
    while True:
        token, request = requests.get()
        _stop_by_signal()  # whatever the last part has made of it
        reporter.begin(token)
        reporter.say(last=True, **perform(request))


def _stop_by_signal() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))


def _listen(channel: Channel, requests: Queue[tuple[str, Any]], deserted: Event) -> None:
    try:
        for request in channel.listen():
            requests.put(request)
    finally:
        deserted.set()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
