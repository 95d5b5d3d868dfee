"""Tries contracts on parts in a worker process: whatever a part does there, all other contracts are still tried."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_core.errors import PluginError
from bench_core.execution.failures import StageFailed
from bench_core.execution.workers import Worker
from bench_core.registry import PartKind

MODULE = "bench_authors.testing.trials"  #: of the worker processes, which no module of this process imports
MOST_HANGS = 2  #: contracts of a part that may take too long before the rest is left out
IMPORTED, BUILT = "while it was imported", "while it was built"


@dataclass(frozen=True)
class Trial:
    """A part, as JSON data, and what its contracts depend on."""

    kind: PartKind  # model, decoder, task or metric
    parts: Sequence[Mapping[str, Any]]  # its settings with its name; those of a decoder, then those of its model
    source: str = "none"  # that the model is given
    trained: bool = True  # whether the model is trained by updates
    accelerated: bool = False  # whether it may be on an accelerator, so that contracts about that count
    quick: bool = False  # whether to draw few samples, and to leave out what trains a model or needs an accelerator
    roots: Sequence[str] = ()  # of the parts that names in the settings mean


@dataclass
class Verdict:
    """The results of the contracts of a part, by name, with a reason for each broken one."""

    kept: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    raised: list[str] = field(default_factory=list)  # broken by an error, or by the end of the process
    only_on_cpu: dict[str, str] = field(default_factory=dict)  # broken on an accelerator, where nobody asks for one
    exempt: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # as others have taken too long
    untried: str = ""  # why none was tried
    trying: str = ""  # the last that was begun
    due: list[str] = field(default_factory=list)

    @property
    def done(self) -> list[str]:
        """Return the contracts that need not be tried again."""
        return [*self.kept, *self.broken, *self.only_on_cpu]

    def hear(self, message: Mapping[str, Any]) -> None:
        """Note what a trial reports."""
        self.trying = message.get("trying", self.trying)
        self.due = message.get("due", self.due)
        self.exempt = message.get("exempt", self.exempt)
        self.untried = message.get("untried", self.untried)
        if "kept" in message:
            self.kept.append(message["kept"])
        self.raised += message.get("raised", [])
        for name in ("broken", "only_on_cpu"):
            getattr(self, name).update(message.get(name, {}))

    def lose(self, reason: str) -> bool:
        """Note that the process was lost in a contract; return whether the others can be tried in a fresh one."""
        again = self.trying not in (IMPORTED, BUILT, *self.broken)
        self.broken.setdefault(self.trying, reason)
        self.raised.append(self.trying)
        self.kept = [name for name in self.kept if name != self.trying]
        return again


@contextmanager
def checking(data: Path, seconds: float) -> Iterator[Callable[[Trial], Verdict]]:
    """Yield a function that tries the contracts of a part in a worker process, each for at most `seconds`."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        worker = Worker(
            0, Path(name), data.absolute(), timeout=seconds, suspension=seconds, module=MODULE,
            option="--contract-timeout", again="",
        )  # fmt: skip
        try:
            yield partial(_verdict, worker, seconds)
        finally:
            worker.kill()


def _verdict(worker: Worker, seconds: float, trial: Trial) -> Verdict:
    """Try the contracts of a part; raise PluginError if no process can be started."""
    found, hangs = Verdict(), 0
    while True:
        begun = time.monotonic()
        try:
            for message in worker.ask({**asdict(trial), "skip": found.done}):
                begun = time.monotonic() if "trying" in message else begun
                found.hear(message)
            return found
        except StageFailed as failure:
            if not found.trying:
                raise PluginError(str(failure)) from None
            hangs += time.monotonic() - begun >= seconds
            if not found.lose(str(failure)):
                return found
            if hangs == MOST_HANGS:
                found.left_out = [name for name in found.due if name not in found.done]
                return found
