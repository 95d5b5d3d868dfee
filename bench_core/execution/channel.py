"""What a run and one of its workers say to each other: lines of JSON over a socket that only these two know.

A part runs in the process of the worker, and may write to any descriptor that it finds there. So each line stands
behind the token of the order that it belongs to, and what does not is not taken for an answer.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

LARGEST = 2**16  # bytes that are read at a time
SHOWN = 60  # bytes of what does not belong here


class Garbled(Exception):
    """Something came that the worker did not write."""


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.end.set_inheritable(False)
        self.rest = b""  # of a line that is not whole yet
        self.closed = False  # by the other end

    def send(self, token: str, message: Any) -> None:
        """Send a message; raise OSError if nobody can hear it, or a part has closed the descriptor."""
        self.end.sendall(f"{token} {json.dumps(message)}\n".encode())

    def listen(self) -> Iterator[tuple[str, Any]]:
        """Yield tokens and messages until the other end is closed."""
        while not self.closed:
            for line in self._lines(None):
                token, _, message = line.decode().partition(" ")
                yield token, json.loads(message)

    def heard(self, token: str, seconds: float) -> list[Any]:
        """Return what has come about an order, waiting so long for it; raise Garbled for anything else."""
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
        """Return whether the other end is open, and has said nothing since its last answer."""
        return not (self.rest or self._lines(0) or self.rest or self.closed)

    def close(self) -> None:
        """Close this end."""
        self.end.close()

    def _lines(self, seconds: float | None) -> list[bytes]:
        """Return the whole lines that have come by now; where there is nothing at all, wait so long for it."""
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
    """Return the beginning of something for people."""
    return repr(text[:SHOWN].decode(errors="replace")) + ("..." if len(text) > SHOWN else "")
