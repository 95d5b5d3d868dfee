"""Detects threads of user code that outlive their block."""

import sys
import threading
from dataclasses import dataclass, field
from weakref import WeakSet

from process_watch.replacements import is_user_code, runs_user_code
from process_watch.wrapped_readers import started_by, user_threads


@dataclass
class Threads:
    """The threads of a process before a block."""

    idents: set[int] = field(default_factory=set)
    others: WeakSet[threading.Thread] = field(default_factory=WeakSet)  # all except the thread that runs blocks
    left: dict[int, str] = field(default_factory=dict)  # identifier -> name of a thread of earlier blocks

    def begin(self) -> None:
        """Record the current threads."""
        self.idents = {*sys._current_frames()}
        self.others = WeakSet({*threading.enumerate()} - {threading.current_thread()})
        self.left = {ident: name for ident, name in self.left.items() if ident in self.idents}

    def lingering(self) -> list[str]:
        """Return the names of user threads that outlive the block."""
        known = {thread.ident: thread for thread in threading.enumerate()}
        of_users = {
            ident
            for ident, thread in known.items()
            if thread in user_threads or is_user_code(getattr(thread, "function", None))
        }
        remaining = {
            ident: known[ident].name if ident in known else "a thread"
            for ident, frame in sys._current_frames().items()
            if (ident in of_users or runs_user_code(frame)) and not self._is_older_than_block(ident, known.get(ident))
        }
        self.left |= remaining
        return [*remaining.values()]

    def _is_older_than_block(self, ident: int, thread: threading.Thread | None) -> bool:
        """Return whether a thread existed before the block, or was started by such a thread, as in a server."""
        if thread in (None, threading.current_thread()):
            return ident in self.idents  # identifiers are reused
        while thread is not None and thread not in self.others:
            thread = started_by.get(thread)
        return thread is not None
