"""Calibrates the trainings of a plan: prepares their tasks, and times some updates of each on this device."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bench_core.execution.executor import Executor
from bench_core.execution.failures import StageFailed
from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import Plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.storage.store import Store
from bench_core.suites.suite import Suite
from bench_upkeep.predictions import Predictions

SECONDS = 3.0  #: for which updates of each phase are timed

Tell = Callable[[str], None]


@dataclass
class Calibrating:
    """The calibration of those trainings of a plan that have none yet, by an executor on this machine."""

    suite: Suite
    plan: Plan
    store: Store
    executor: Executor
    predictions: Predictions
    tell: Tell = lambda text: None
    seconds: float = SECONDS
    failures: dict[str, str] = field(default_factory=dict)  # key of a stage -> why it could not be measured

    def run(self, stages: Iterable[Stage]) -> None:
        """Calibrate the trainings among `stages`, those that are equally fast once; what fails is in `failures`."""
        trainings = [one for one in stages if one.about.forecast and not one.is_taken]
        check_devices(self.suite, trainings)
        failed: dict[str, str] = {}  # by key of the speed
        with self.store.in_use():
            for stage in trainings:
                speed = self.predictions.keys.of_speed(stage)
                if speed not in failed and not self.predictions.is_calibrated(stage):
                    failed[speed] = self._calibrate(stage, speed) or ""
                if failed.get(speed):
                    self.failures[stage.key] = failed[speed]

    def _calibrate(self, stage: Stage, speed: str) -> str | None:
        """Measure a training, after all that it reads is prepared; return why this is impossible, or None."""
        for one in self._read_by(stage):
            if not self.store.is_stored(one):
                key = self.predictions.keys.of_record(one)
                if failure := self._performed(StageRequest(one, cost_key=key), f"prepare {one.label}"):
                    return failure
        request = StageRequest(stage, calibrate=self.seconds, cost_key=speed)
        return self._performed(request, f"calibrate {stage.label.rpartition(', ')[0]}")

    def _read_by(self, stage: Stage) -> Iterator[Stage]:
        """Yield the stages whose artifacts a stage reads, each after those that it reads itself."""
        for _, key in stage.inputs.values():
            yield from self._read_by(self.plan.stages[key])
            yield self.plan.stages[key]

    def _performed(self, request: StageRequest, what: str) -> str | None:
        """Perform a request; return its failure, or None."""
        self.tell(what)
        try:
            self.executor.submit(request, lambda text, share: None).result()
        except StageFailed as failure:
            if not failure.expected:
                self.store.log_failure(request.stage.kind, request.stage.key, failure.details)
            return str(failure)
        return None
