"""Calibrates the training stages of a plan: prepares their tasks and times some updates of each on this device."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bench_core.execution.executor import Executor
from bench_core.execution.failures import StageFailed
from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import Plan
from bench_core.planning.stages import Stage, StageRequest
from bench_core.storage.store import Store
from bench_core.suites.suite import Suite
from bench_upkeep.cost_estimates import CostEstimates

PHASE_SECONDS = 3.0  #: time for timed updates of each phase

Tell = Callable[[str], None]


@dataclass
class Calibrating:
    """Calibrates, on this machine, the training stages of a plan that have no calibration yet."""

    suite: Suite
    plan: Plan
    store: Store
    executor: Executor
    estimates: CostEstimates
    tell: Tell = lambda text: None
    seconds: float = PHASE_SECONDS
    failures: dict[str, str] = field(default_factory=dict)  # key of a stage -> error message

    def run(self, stages: Iterable[Stage]) -> None:
        """Calibrate the training stages in `stages`, once for stages of equal speed; errors are in `failures`."""
        trainings = [stage for stage in stages if stage.about.forecast and not stage.is_extracted]
        check_devices(self.suite, trainings)
        failed: dict[str, str] = {}  # speed key -> error message
        with self.store.in_use():
            for stage in trainings:
                speed = self.estimates.keys.of_speed(stage)
                if speed not in failed and not self.estimates.is_calibrated(stage):
                    failed[speed] = self._calibrate(stage, speed) or ""
                if failed.get(speed):
                    self.failures[stage.key] = failed[speed]

    def _calibrate(self, stage: Stage, speed: str) -> str | None:
        """Calibrate a training stage after preparing its inputs; return an error message or None."""
        for input_stage in self._input_stages(stage):
            if not self.store.is_stored(input_stage):
                key = self.estimates.keys.of_record(input_stage)
                if failure := self._perform(StageRequest(input_stage, cost_key=key), f"prepare {input_stage.label}"):
                    return failure
        request = StageRequest(stage, calibrate=self.seconds, cost_key=speed)
        return self._perform(request, f"calibrate {stage.label.rpartition(', ')[0]}")

    def _input_stages(self, stage: Stage) -> Iterator[Stage]:
        """Yield the input stages of a stage in topological order."""
        for _, key in stage.inputs.values():
            yield from self._input_stages(self.plan.stages[key])
            yield self.plan.stages[key]

    def _perform(self, request: StageRequest, what: str) -> str | None:
        """Perform a request; return its error message or None."""
        self.tell(what)
        try:
            self.executor.submit(request, lambda text, share: None).result()
        except StageFailed as failure:
            if not failure.expected:
                self.store.log_failure(request.stage.kind, request.stage.key, failure.details)
            return str(failure)
        return None
