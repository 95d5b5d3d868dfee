"""Observers of a run, each in a thread of its own, so that none can take the run down or hold it up."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread

from bench_core.config import ObserverConfig
from bench_core.observer import Event, Hear, Observer, silent
from process_watch import reads, unobserved

PATIENCE = 30.0  #: seconds that observers have in all, after the run, for what they have not written yet
MOST = 100_000  #: events that may wait for an observer


@contextmanager
def observing(configs: Sequence[ObserverConfig], warn: Callable[[str], None]) -> Iterator[Hear]:
    """Yield a function that passes events to observers, and never raises or waits.

    Afterwards they have some time to write what is left. `warn` hears once of each that failed, or was given up; it
    is called from their threads, too.
    """
    hosts = [Host(config, warn) for config in configs]

    def hear(event: Event) -> None:
        for host in hosts:
            host.put(event)

    try:
        yield hear if hosts else silent
    finally:
        for host in hosts:
            host.end()
        until = time.monotonic() + PATIENCE
        for host in hosts:
            host.wait(until - time.monotonic())


class Host:
    """One observer, its thread, and the events that wait for it."""

    def __init__(self, config: ObserverConfig, warn: Callable[[str], None]) -> None:
        self.config, self.warn, self.off, self.lock = config, warn, Flag(), Lock()
        self.waiting: SimpleQueue[Event | None] = SimpleQueue()
        # A daemon: one that hangs does not keep this process alive.
        self.thread = Thread(target=self._work, name=f"observer {config.name}", daemon=True)
        self.thread.start()

    def put(self, event: Event) -> None:
        """Hand over an event, unless the observer is off."""
        if self.off.is_set():
            return
        if self.waiting.qsize() >= MOST:
            self._switch_off(f"it is too slow: {MOST:,} events wait for it")
        else:
            self.waiting.put(event)

    def end(self) -> None:
        """Say that there are no more events."""
        self.waiting.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until the observer has closed; give it up if that takes longer."""
        self.thread.join(max(0.0, seconds))
        if self.thread.is_alive():
            self._switch_off("it did not end in time after the run; what it has not written is lost")

    def _work(self) -> None:
        unobserved.add(self.thread)  # with the threads that it starts
        try:
            with reads():  # none of it is an input of a stage, where stages are computed in this process, too
                observer = self.config.load()(self.config)
                self._pass_on(observer)
                observer.close()
        except Exception as error:  # whatever a plugin raises
            self._switch_off(f"{type(error).__name__}: {error}")

    def _pass_on(self, observer: Observer) -> None:
        """Pass events to the observer until there are no more, or until it is switched off."""
        while not self.off.is_set():
            try:
                event = self.waiting.get(timeout=1.0)
            except Empty:
                continue
            if event is None:
                return
            observer.hear(event)

    def _switch_off(self, reason: str) -> None:
        """Switch the observer off, and say so once."""
        with self.lock:
            first = not self.off.is_set()
            self.off.set()
        if first:
            self.warn(
                f"observer {self.config.name!r} is switched off: {reason.rstrip('.')}. The run is not affected."
            )
