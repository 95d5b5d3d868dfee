"""The training loop: phases, updates, evaluations, and checkpoint selection."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from bench_core.computing.evaluating import evaluating
from bench_core.data import Batch, Purpose
from bench_core.errors import Fault, SuiteError, TrainingError
from bench_core.model import Training
from bench_core.observer import Evaluation, Hear, TrainingStarted, Update, silent
from bench_core.random_numbers import Rng
from bench_core.task import Size, Task
from bench_training.averaging import WeightAverage
from bench_training.batch_size import BatchSizeSearch
from bench_training.batch_stream import pin, read_ahead, share_of, with_last
from bench_training.checkpoint import Checkpoints
from bench_training.clipping import clip_gradients
from bench_training.compilation import CompiledLoss, LossFunction
from bench_training.data_parallel import ALONE, DataParallel
from bench_training.evaluation import Selection
from bench_training.log import READ_EVERY, Average, DivergenceMonitor
from bench_training.optimizers import check_groups, optimizers, set_peak
from bench_training.precision import Precision
from bench_training.reset import reset_modules
from bench_training.resuming import Resumable, TrainingProgress
from bench_training.schedules import LearningRates
from bench_training.settings import Phase, TrainingConfig
from bench_training.training_length import updates_of
from bench_training.update import BatchLoss, Gradient


@dataclass
class Trainer(Resumable):
    """Trains a model on a task; `run` loads the best weights into the model and returns the history."""

    model: Any  # both an nn.Module and a Model
    task: Task
    config: TrainingConfig
    rng: Rng
    device: torch.device
    selection: Selection
    precision: str = "fp32"
    tell: Callable[[str, float], None] = lambda text, share: None
    checkpoints: Checkpoints | None = None
    stop: Selection | None = None  # the metric of `config.stop`
    warn: Callable[[str], None] = lambda text: None
    group: DataParallel = ALONE  # the processes that share each batch
    hear: Hear = silent  # receives the start, evaluations, and mean losses every READ_EVERY updates

    def __post_init__(self) -> None:
        check_groups(self.model, self.config)
        self.progress = TrainingProgress()
        self.arithmetic = Precision(self.precision, self.device)
        self.average = WeightAverage(self.config.average) if self.config.average else None
        self.size = Size(1 if self.config.batch_size == "auto" else self.config.batch_size, self.config.batch_unit)
        self.task_lock = Lock()  # held while reading the task, also by evaluations
        self.memory, self.best = [], {}
        self.losses, self.heard, self.divergence = Average(), Average(), DivergenceMonitor()
        self.optimizers = self.common_optimizers = optimizers(self.model, self.config, self.device)

    def run(self) -> list[dict[str, Any]]:
        """Train in phases, each starting from the best weights of the previous phase.

        Resumes from the last checkpoint, if there is one; the result is bit-identical to uninterrupted training. At
        the time limit, raises Stopped after writing a checkpoint.
        """
        phases, state = self.config.phases or (Phase(),), self._last_checkpoint()
        self.begin(state and state["progress"])
        progress = self.progress
        self._hear_of_start()
        self.common_rates = self._learning_rates(self.config.schedule, self.config.warmup, sum(progress.planned))
        with self.arithmetic.matrix_products():
            for number in range(progress.phase, len(phases)):
                if state is None:
                    self._begin(phases[number], number)
                self._use(phases[number], progress.planned[number])
                if state is not None:
                    self._restore(state)
                    state = None
                self._phase(phases[number], progress.first + progress.planned[number])
                self.model.load_state_dict(self.best)
        return progress.history

    def begin(self, progress: Mapping[str, Any] | None = None) -> None:
        """Plan the updates of each phase, or resume from the progress in a checkpoint."""
        if progress is not None:
            self.progress = type(self.progress)(**progress)
        elif self.config.batch_size == "auto":
            if self.group.number > 1:
                raise SuiteError("`batch_size: auto` is not supported on several devices. Set a number.")
            self.progress.batch_size = self._search_batch_size().run()
        if self.progress.batch_size:
            self.size = Size(self.progress.batch_size, self.config.batch_unit)
        if progress is None:
            self._plan()

    def _search_batch_size(self) -> BatchSizeSearch:
        rng, unit = self.rng.fork("order").fork(0), self.config.batch_unit
        return BatchSizeSearch(
            self.model, self.device, lambda size: self.task.batches("train", Purpose.TRAIN, Size(size, unit), rng),
            lambda batch: self._gradient(batch, self._training({}), []),
        )  # fmt: skip

    def _plan(self) -> None:
        """Compute the number of updates of each phase."""
        if any(each.epochs or each.every == "epoch" for _, several, _ in self.config.schedules for each in several):
            self._batches()
        self.progress.planned = [
            updates_of(vars(self.config), vars(phase), self._batches) for phase in self.config.phases or (Phase(),)
        ]

    def _begin(self, phase: Phase, number: int) -> None:
        progress = self.progress
        reset_modules(self.model, phase.reset, self.common_optimizers)
        progress.phase, progress.first = number, progress.step
        progress.best, progress.stale, progress.stop_best, progress.stop_stale = None, 0, None, 0
        self.best = {}
        if self.average is not None:
            self.average.restart()

    def _use(self, phase: Phase, updates: int) -> None:
        """Set up the optimizer, peak rates and schedule of a phase."""
        choice, self.optimizers = phase.optimizer, self.common_optimizers
        if choice:
            self.optimizers = optimizers(self.model, self.config, self.device, choice)
        for optimizer in self.optimizers:
            set_peak(optimizer, phase.lr or self.config.lr)
        self.rates = self.common_rates
        if phase.own_schedule:
            self.rates = self._learning_rates(phase.schedule or self.config.schedule, phase.warmup or 0, updates)
        elif choice:
            rates = self._learning_rates(self.config.schedule, self.config.warmup, self.common_rates.total)
            rates.scale, self.rates = self.common_rates.scale, rates
        self.rates.begin()

    def _learning_rates(self, schedules: Any, warmup: int, total: int) -> LearningRates:
        return LearningRates(self.optimizers, schedules, warmup, total, max(1, self.progress.epoch_length))

    def _phase(self, phase: Phase, end: int) -> None:
        """Perform updates until the end of the phase, or until patience is exhausted."""
        settings, every, progress = phase.more, self.config.evaluate_every, self.progress
        while progress.step < end and not self._is_out_of_patience():
            before = progress.step
            for batch, last in with_last(self._batches_of_epoch()):
                self._update(batch, phase, settings)
                progress.batch += 1
                if last:
                    progress.epoch, progress.batch = progress.epoch + 1, 0
                self._tell()
                if progress.step % READ_EVERY == 0:
                    self._hear_of_losses()
                if progress.step == end or (progress.step % every == 0 if every else last):
                    self._evaluate()
                self._save_if_due()
                if progress.step == end or self._is_out_of_patience():
                    break
            if progress.step == before:
                raise TrainingError("the training split has no batches. Is it empty?")
        if progress.batch:  # the phase ended within an epoch; the next phase begins a new epoch
            progress.epoch, progress.batch = progress.epoch + 1, 0
        if not self.best:  # no updates: evaluate the current weights
            self._evaluate()

    def _batches_of_epoch(self) -> Iterator[Batch]:
        """Yield the remaining batches of the epoch; read ahead for a GPU."""
        remaining = islice(self._epoch(self.progress.epoch), self.progress.batch, None)
        return read_ahead(remaining, pin, self.task_lock) if self.device.type == "cuda" else remaining

    def _epoch(self, number: int) -> Iterator[Batch]:
        return self.task.batches("train", Purpose.TRAIN, self.size, self.rng.fork("order").fork(number))

    def _update(self, batch: Batch, phase: Phase, settings: Mapping[str, Any]) -> None:
        """Perform one update."""
        self.model.train()
        self.rates.set(self.progress.step + 1 - (self.progress.first if phase.own_schedule else 0))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        share = share_of(batch, self.group.rank, self.group.number)
        result = self._gradient(share, self._training(settings), self.memory if batch.continues else [])
        self.memory = result.memory
        self.arithmetic.unscale(self.optimizers)
        norm = self._clip()
        self.divergence.record(self.progress.step + 1, result.loss, norm, self.arithmetic.scaler is not None)
        if self.device.type == "cpu" or (self.progress.step + 1) % READ_EVERY == 0:
            self._check()
        self._step()
        self.progress.step += 1
        if self.average is not None:
            self.average.add_update(self.model, self.progress.step - self.progress.first)
        self.losses.add(result.loss, norm, result.terms)

    @cached_property
    def gradient(self) -> Gradient:
        """Computes losses of the model, possibly compiled, and their gradients."""
        plain: LossFunction = lambda batch, training: self.model.loss(batch, training)  # noqa: E731
        loss = CompiledLoss(self.model, self.warn) if self.config.compile else plain
        return Gradient(self.model, loss, self.arithmetic, self.device, self.config.accumulate, self.group)

    def _gradient(self, batch: Batch | None, training: Training, memory: list[Any]) -> BatchLoss:
        return self.gradient.of(batch, training, memory)

    def _check(self) -> None:
        self.arithmetic.check()
        (failure,) = self.divergence.failures()
        if failure:
            path = self.checkpoints.weights if self.checkpoints else None
            advice: Fault = f" To start from the last good weights, set `initial: {path}`." if path else ""
            raise TrainingError(f"{failure}{advice}")

    def _step(self) -> None:
        self.arithmetic.step(self.optimizers)

    def _training(self, settings: Mapping[str, Any]) -> Training:
        step, total, epoch = self.progress.step, max(1, sum(self.progress.planned)), self.progress.epoch
        return Training(
            step, total, epoch, self.config.epochs or max(1, epoch + 1), self.rng.fork("loss").fork(step), None,
            settings, self.config.label_smoothing, progress=self.progress.share_of_phase,
        )  # fmt: skip

    def _clip(self) -> Tensor:
        """Clip the gradient; return its norm before clipping."""
        return clip_gradients([*self.model.parameters()], self.config.clip)

    def _evaluate(self) -> None:
        """Evaluate the weights, keep them if they are the best so far, and extend the history."""
        self._check()
        progress = self.progress
        if self.average is not None:
            self.average.add_evaluation(self.model)
        value, stop = self._evaluation_values()
        improved = self._improves(value, progress.best)
        if improved or not self.best:
            progress.best, progress.stale = value if improved else None, 0
            self.best = self._weights()
        else:
            progress.stale += 1
            self.rates.worse(progress.step - (progress.first if self.rates is not self.common_rates else 0))
        self._note_stop(stop)
        progress.history.append({**self._entry(value, improved, stop), **self.group.combine(self.losses).values()})
        self._hear_of_losses()
        self.losses, self.heard = Average(), Average()
        self._hear_of_evaluation(progress.history[-1])
        self._tell(f", {self.selection.name} {value:.4g}")

    def _evaluation_values(self) -> tuple[float, float | None]:
        """Return the selection value and the early-stopping value (or None), for averaged weights if configured."""
        judges = [self.selection, *([] if self.stop is None else [self.stop])]
        values = [0.0] * len(judges)
        if self.group.rank == 0:
            values = self._with_average(lambda: [self._score(judge) for judge in judges])
        value, *stop = self.group.numbers(values)
        return value, stop[0] if stop else None

    def _score(self, selection: Selection) -> float:
        with self.task_lock, evaluating(self.model):
            return selection.judge(self.model)

    def _with_average(self, work: Callable[[], Any]) -> Any:
        if self.average is None or not self.average.mean:
            return work()
        with self.average.in_place(self.model):
            return work()

    def _weights(self) -> dict[str, Tensor]:
        """Return a copy of the evaluated weights."""
        weights: dict[str, Tensor] = self._with_average(
            lambda: {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        )
        return weights

    def _note_stop(self, value: float | None) -> None:
        """Record whether the early-stopping metric improved."""
        if value is None or self.stop is None or self.config.stop is None:
            return
        best, progress = self.progress.stop_best, self.progress
        gain = math.inf if best is None else (value - best) * self.stop.better
        if not math.isnan(value) and gain > self.config.stop.change:
            progress.stop_best, progress.stop_stale = value, 0
        else:
            progress.stop_stale += 1

    def _improves(self, value: float, best: float | None) -> bool:
        return not math.isnan(value) and (best is None or (value - best) * self.selection.better > 0)

    def _entry(self, value: float, improved: bool, stop: float | None = None) -> dict[str, Any]:
        """Return the history entry of an evaluation, without losses."""
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            self.selection.name: value,
            **({} if self.stop is None else {self.stop.name: stop}),
            "best": improved,
        }

    def _tell(self, more: str = "") -> None:
        total = sum(self.progress.planned)
        self.tell(f"step {self.progress.step:,} of {total:,}{more}", self.progress.step / max(1, total))

    def _hear_of_start(self) -> None:
        self.hear(TrainingStarted(self.progress.step, sum(self.progress.planned)))

    def _hear_of_losses(self) -> None:
        """Report the mean losses since the last report; waits for the device."""
        if self.hear is silent:
            return
        means, self.heard = self.losses.since(self.heard).means(), self.losses.copy()
        if means:
            self._hear_of_means(means)

    def _hear_of_means(self, means: Mapping[str, Tensor], copy: int = 0) -> None:
        values = {name: float(mean) for name, mean in means.items()}
        norm, lr = values.pop("gradient_norm", None), self.optimizers[0].param_groups[0]["lr"]
        self.hear(Update(self.progress.step, self.progress.epoch, lr, values, norm, copy=copy))

    def _hear_of_evaluation(self, entry: Mapping[str, Any], copy: int = 0) -> None:
        name = self.selection.name
        self.hear(Evaluation(entry["step"], name, entry[name], entry["best"], copy=copy))
        if self.stop is not None:
            name = self.stop.name
            self.hear(Evaluation(entry["step"], name, entry[name], self.progress.stop_stale == 0, copy=copy))

    def _is_out_of_patience(self) -> bool:
        config, progress = self.config, self.progress
        if config.stop is not None and progress.stop_stale >= config.stop.patience:
            return True
        return config.patience is not None and progress.stale >= config.patience

    def _batches(self) -> int:
        """Return the number of batches in an epoch, counted at the first call."""
        if not self.progress.epoch_length:
            self.progress.epoch_length = max(1, sum(1 for _ in self._epoch(0)))
        return self.progress.epoch_length
