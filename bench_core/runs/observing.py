"""Runs each observer of a run in a separate thread, so that it can neither fail nor delay the run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread

from bench_core.config import ObserverConfig
from bench_core.observer import Event, Hear, Observer, silent
from process_watch import reads, unobserved

FINISH_SECONDS = 30.0  #: total seconds for observers to finish writing after the run
MAX_WAITING_EVENTS = 100_000  #: events that may wait for an observer


@contextmanager
def observing(configs: Sequence[ObserverConfig], warn: Callable[[str], None]) -> Iterator[Hear]:
    """Yield a function that passes events to observers, and never raises an error or waits.

    Afterwards, observers have some time to finish writing. `warn` is called once for each observer that failed or
    exceeded its time, possibly from its thread.
    """
    threads = [ObserverThread(config, warn) for config in configs]

    def hear(event: Event) -> None:
        for thread in threads:
            thread.put(event)

    try:
        yield hear if threads else silent
    finally:
        for thread in threads:
            thread.end()
        until = time.monotonic() + FINISH_SECONDS
        for thread in threads:
            thread.wait(until - time.monotonic())


class ObserverThread:
    """An observer, its thread, and the events that it has not received yet."""

    def __init__(self, config: ObserverConfig, warn: Callable[[str], None]) -> None:
        self.config, self.warn, self.off, self.lock = config, warn, Flag(), Lock()
        self.waiting: SimpleQueue[Event | None] = SimpleQueue()
        # A daemon thread, because a hanging observer must not keep this process alive.
        self.thread = Thread(target=self._work, name=f"observer {config.name}", daemon=True)
        self.thread.start()

    def put(self, event: Event) -> None:
        """Queue an event, unless the observer is switched off."""
        if self.off.is_set():
            return
        if self.waiting.qsize() >= MAX_WAITING_EVENTS:
            self._switch_off(f"it is too slow: {MAX_WAITING_EVENTS:,} events are waiting for it")
        else:
            self.waiting.put(event)

    def end(self) -> None:
        """Signal that there are no more events."""
        self.waiting.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until the observer has closed; switch it off if that takes longer."""
        self.thread.join(max(0.0, seconds))
        if self.thread.is_alive():
            self._switch_off("it did not finish in time after the run; data that it has not written is lost")

    def _work(self) -> None:
        unobserved.add(self.thread)  # also applies to threads that this thread starts
        try:
            with reads():  # files that it reads are not inputs of stages that run in this process
                observer = self.config.load()(self.config)
                self._pass_on(observer)
                observer.close()
        except Exception as error:  # a plugin may raise anything
            self._switch_off(f"{type(error).__name__}: {error}")

    def _pass_on(self, observer: Observer) -> None:
        """Pass events to the observer until there are no more, or it is switched off."""
        while not self.off.is_set():
            try:
                event = self.waiting.get(timeout=1.0)
            except Empty:
                continue
            if event is None:
                return
            observer.hear(event)

    def _switch_off(self, reason: str) -> None:
        """Switch the observer off, with a single warning."""
        with self.lock:
            first = not self.off.is_set()
            self.off.set()
        if first:
            text = f"observer {self.config.name!r} is switched off: {reason.rstrip('.')}."
            self.warn(f"{text} The run is not affected.")
