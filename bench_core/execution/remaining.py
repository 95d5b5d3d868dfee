"""How long a run will still take: from stages of the same kind, in this run and before it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

LEAST = 0.01  #: share of a stage that must be done before its own pace counts


@dataclass
class Running:
    """A stage under way."""

    kind: str
    begun: float  # seconds, of the caller's clock
    share: float = 0.0  # done

    def pace(self, now: float) -> float | None:
        """Return the seconds that all of it takes at its pace so far."""
        return (now - self.begun) / self.share if self.share >= LEAST else None


@dataclass
class Remaining:
    """The stages that a run has yet to end, and what is known of how long such stages take."""

    kinds: Iterable[str]  # of all stages to do, one entry each
    side_by_side: int = 1  # stages that run at a time
    typical: Mapping[str, float] = field(default_factory=dict)  # seconds of a stage of each kind, from earlier runs
    waiting: Counter[str] = field(init=False)
    running: dict[str, Running] = field(default_factory=dict)
    ended: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.waiting = Counter(self.kinds)

    def begin(self, key: str, kind: str, now: float) -> None:
        """Note that a stage begins."""
        self.waiting[kind] -= 1
        self.running[key] = Running(kind, now)

    def tell(self, key: str, share: float) -> None:
        """Note which share of a stage is done."""
        if key in self.running:
            self.running[key].share = share

    def end(self, key: str, now: float) -> None:
        """Note that a stage is over."""
        stage = self.running.pop(key, None)
        if stage:
            self.ended[stage.kind].append(now - stage.begun)

    def left(self, now: float) -> tuple[float, bool] | None:
        """Return the seconds that are left and whether they are all; None where nothing is known or waits."""
        rest = self._under_way(now)
        waiting = {kind: (number, self._expected(kind, now)) for kind, number in self.waiting.items() if number > 0}
        total = sum(rest) + sum(number * seconds for number, seconds in waiting.values() if seconds)
        if not waiting or not total:
            return None
        known = all(seconds is not None for _, seconds in waiting.values())
        return max([total / max(1, self.side_by_side), *rest]), known

    def _under_way(self, now: float) -> list[float]:
        """Return the seconds that are left of each stage under way, where its own pace or its kind tells."""
        found = []
        for stage in self.running.values():
            whole = stage.pace(now) or self._expected(stage.kind, now)
            found.append(max(0.0, whole - (now - stage.begun)) if whole else 0.0)
        return found

    def _expected(self, kind: str, now: float) -> float | None:
        """Return the seconds of a stage of a kind: this run's, at this run's pace, or those of earlier runs."""
        if self.ended[kind]:
            return median(self.ended[kind])
        paces = [pace for stage in self.running.values() if stage.kind == kind and (pace := stage.pace(now))]
        return median(paces) if paces else self.typical.get(kind)
