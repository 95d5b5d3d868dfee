"""Threads of users' code that outlive their block."""

import sys
import threading
from dataclasses import dataclass, field
from weakref import WeakSet

from process_watch.replacements import is_own_code, runs_own
from process_watch.wrapped_readers import of_parts, started_by


@dataclass
class Threads:
    """The threads of a process as they were before a block."""

    idents: set[int] = field(default_factory=set)  # of all threads
    others: WeakSet[threading.Thread] = field(default_factory=WeakSet)  # but for the one that performs blocks
    left: dict[int, str] = field(default_factory=dict)  # names of threads of earlier blocks, by their identifiers

    def begin(self) -> None:
        """Record the threads that there are."""
        self.idents = {*sys._current_frames()}
        self.others = WeakSet({*threading.enumerate()} - {threading.current_thread()})
        self.left = {ident: name for ident, name in self.left.items() if ident in self.idents}

    def lingering(self) -> list[str]:
        """Return the names of threads of users' code that outlive the block."""
        known = {one.ident: one for one in threading.enumerate()}
        due = {
            ident for ident, one in known.items() if one in of_parts or is_own_code(getattr(one, "function", None))
        }
        found = {
            ident: known[ident].name if ident in known else "a thread"
            for ident, frame in sys._current_frames().items()
            if (ident in due or runs_own(frame)) and not self._was_there(ident, known.get(ident))
        }
        self.left |= found
        return [*found.values()]

    def _was_there(self, ident: int, thread: threading.Thread | None) -> bool:
        """Return whether a thread was there before the block, or was started by such a thread, as in a server."""
        if thread in (None, threading.current_thread()):
            return ident in self.idents  # identifiers of threads that have ended are used again
        while thread is not None and thread not in self.others:
            thread = started_by.get(thread)
        return thread is not None
