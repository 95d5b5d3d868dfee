"""The worker process, and the channel to it: JSON lines over a private socket.

Requests and answers are JSON lines: `{"alive": true}` as a heartbeat, `{"begun": true}` once the stage holds its
locks, `{"tell": [text, share]}`, `{"hear": event}` and `{"warn": text}` during the stage, and finally
`{"done": true}` or `{"failed": {...}}`. When the socket is closed, the process exits immediately with all its
children. SIGTERM stops it gracefully; artifacts are written atomically, so they are always complete.

Parts run in the worker's process and could write to any descriptor. Therefore each line starts with the token of its
request, and lines without this token are not answers.
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

CLEANUP_SECONDS = 30.0  # seconds from SIGTERM to SIGKILL
HEARTBEAT = 5.0  # seconds between heartbeats
MUTE = 71  #: exit code of a worker that cannot answer because a part has closed its descriptor
MAX_READ_BYTES = 2**16
MAX_QUOTED_BYTES = 60  # limit for quotes of an unexpected message


class Garbled(Exception):
    """The channel contains data that the worker did not write."""


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.end.set_inheritable(False)
        self.rest = b""  # beginning of a line that is still incomplete
        self.closed = False  # whether the other end has closed the socket

    def send(self, token: str, message: Any) -> None:
        """Send a message; raise OSError if the other end or the descriptor is closed."""
        self.end.sendall(f"{token} {json.dumps(message)}\n".encode())

    def listen(self) -> Iterator[tuple[str, Any]]:
        """Yield tokens and messages until the other end is closed."""
        while not self.closed:
            for line in self._lines(None):
                token, _, message = line.decode().partition(" ")
                yield token, json.loads(message)

    def receive(self, token: str, seconds: float) -> list[Any]:
        """Return the messages of a request, waiting at most `seconds`; raise Garbled for any other data."""
        start, messages = f"{token} ".encode(), []
        for line in self._lines(seconds):
            if not line.startswith(start):
                raise Garbled(_quote(line))
            try:
                messages.append(json.loads(line[len(start) :]))
            except ValueError:
                raise Garbled(_quote(line)) from None
        if not start.startswith(self.rest[: len(start)]):
            raise Garbled(_quote(self.rest))
        return messages

    def is_silent(self) -> bool:
        """Return whether the other end is open and has sent nothing since its last answer."""
        return not (self.rest or self._lines(0) or self.rest or self.closed)

    def close(self) -> None:
        """Close this end."""
        self.end.close()

    def _lines(self, seconds: float | None) -> list[bytes]:
        """Return the complete lines received, waiting at most `seconds` for data."""
        received = b""
        self.end.settimeout(seconds)
        try:
            received = self.end.recv(MAX_READ_BYTES)
            self.closed = not received
        except (TimeoutError, BlockingIOError):
            return []
        except ConnectionError:
            self.closed = True
        *lines, self.rest = (self.rest + received).split(b"\n")
        return lines


def _quote(text: bytes) -> str:
    """Return the beginning of a message in printable form."""
    return repr(text[:MAX_QUOTED_BYTES].decode(errors="replace")) + ("..." if len(text) > MAX_QUOTED_BYTES else "")


class Reporter:
    """Answers the current request from any thread of this process, but not from child processes."""

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
    """Return a function that performs a stage request and returns the final answer."""
    store = Store(Path(sys.argv[1]), warn=lambda text: reporter.say(warn=text))
    runner = StageRunner(store, Path(sys.argv[2]), lambda text, share: reporter.say(tell=[text, share]))
    runner.hear = lambda event: reporter.say(hear=event_to_json(event))
    runner.begun = lambda: reporter.say(begun=True)
    return lambda request: answer(request, runner)


def main(service: Callable[[Reporter], Callable[[Any], dict[str, Any]]] = stages) -> None:
    """Perform requests until the socket is closed."""
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
        if deserted.is_set():  # otherwise, the run will kill the process group
            os.killpg(0, signal.SIGKILL)


def _work(requests: Queue[tuple[str, Any]], reporter: Reporter, perform: Callable[[Any], dict[str, Any]]) -> None:
    while True:
        token, request = requests.get()
        _stop_by_signal()  # the last part may have changed the handler
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
        time.sleep(CLEANUP_SECONDS)
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
