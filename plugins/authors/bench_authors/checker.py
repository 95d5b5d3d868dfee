"""Tests contracts of parts in a worker process, so that a crash or hang does not affect other contracts."""

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

MODULE = "bench_authors.testing.trials"  #: runs in worker processes; never imported here
MAX_TIMEOUTS = 2  #: number of timeouts after which a part's other contracts are skipped
IMPORTED, BUILT = "while it was imported", "while it was built"


@dataclass(frozen=True)
class Trial:
    """A part to test, as JSON data, and the conditions for testing its contracts."""

    kind: PartKind  # model, decoder, task or metric
    parts: Sequence[Mapping[str, Any]]  # settings with `name`; for a decoder, followed by its model's settings
    source: str = "none"  # source kind of the task
    trained: bool = True  # whether the model is trained by updates
    accelerated: bool = False  # whether it may run on an accelerator, where its contracts must also hold
    quick: bool = False  # whether to use few samples and skip training and accelerators
    roots: Sequence[str] = ()  # root modules of the parts named in the settings


@dataclass
class Verdict:
    """The results of testing a part's contracts, with a reason for each broken contract."""

    kept: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    raised: list[str] = field(default_factory=list)  # contracts broken by an error or a crash
    only_on_cpu: dict[str, str] = field(default_factory=dict)  # broken only on an accelerator that is not required
    exempt: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # skipped after timeouts
    untried: str = ""  # reason why no contract was tested
    trying: str = ""  # contract most recently started
    due: list[str] = field(default_factory=list)

    @property
    def done(self) -> list[str]:
        """Return the contracts that have a result."""
        return [*self.kept, *self.broken, *self.only_on_cpu]

    def record(self, message: Mapping[str, Any]) -> None:
        """Record a message from the worker."""
        self.trying = message.get("trying", self.trying)
        self.due = message.get("due", self.due)
        self.exempt = message.get("exempt", self.exempt)
        self.untried = message.get("untried", self.untried)
        if "kept" in message:
            self.kept.append(message["kept"])
        self.raised += message.get("raised", [])
        for name in ("broken", "only_on_cpu"):
            getattr(self, name).update(message.get(name, {}))

    def record_crash(self, reason: str) -> bool:
        """Record the loss of the worker process; return whether other contracts can be tested in a new process."""
        again = self.trying not in (IMPORTED, BUILT, *self.broken)
        self.broken.setdefault(self.trying, reason)
        self.raised.append(self.trying)
        self.kept = [name for name in self.kept if name != self.trying]
        return again


@contextmanager
def checking(data: Path, seconds: float) -> Iterator[Callable[[Trial], Verdict]]:
    """Yield a function that tests the contracts of a part in a worker process, each for at most `seconds`."""
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
    """Test the contracts of a part; raise PluginError if no process can be started."""
    result, hangs = Verdict(), 0
    while True:
        begun = time.monotonic()
        try:
            for message in worker.ask({**asdict(trial), "skip": result.done}):
                begun = time.monotonic() if "trying" in message else begun
                result.record(message)
            return result
        except StageFailed as failure:
            if not result.trying:
                raise PluginError(str(failure)) from None
            hangs += time.monotonic() - begun >= seconds
            if not result.record_crash(str(failure)):
                return result
            if hangs == MAX_TIMEOUTS:
                result.left_out = [name for name in result.due if name not in result.done]
                return result
