"""The interface of observers, which receive the events of a run: stages, updates, evaluations, numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias


@dataclass(frozen=True)
class RunStarted:
    """A run has started; the first event."""

    run: str  # suite, profile and time
    suite: str  # label, such as `rnn/clipping-smoke`
    stages: int  # number of stages to compute


@dataclass(frozen=True)
class RunEnded:
    """A run has ended, complete or not; the last event."""

    run: str
    folder: str | None  # folder of its results; None if it has none


@dataclass(frozen=True)
class StageStarted:
    """A stage has started."""

    kind: str  # such as train
    label: str  # such as `words x lstm, seed 0`
    key: str  # cache key of the artifact


@dataclass(frozen=True)
class StageEnded:
    """A stage has ended."""

    kind: str
    label: str
    key: str
    seconds: float  # wall-clock
    failure: str | None = None  # reason for a missing artifact


@dataclass(frozen=True)
class TrainingName:
    """A training run: one seed of one model on one task."""

    label: str = ""  # such as `words x lstm, seed 0`
    key: str = ""  # cache key of the training stage, which vmapped seeds share
    seed: int = 0


@dataclass(frozen=True)
class TrainingEvent:
    """An event of a training run."""

    step: int  # completed updates
    copy: int = field(default=0, kw_only=True)  # index among vmapped seeds
    training: TrainingName = field(default=TrainingName(), kw_only=True)  # set by the run


@dataclass(frozen=True)
class TrainingStarted(TrainingEvent):
    """A training run has started or resumed from a checkpoint; earlier events of later steps are superseded."""

    steps: int  # planned updates


@dataclass(frozen=True)
class Update(TrainingEvent):
    """The trainer has logged one or more updates since the previous event."""

    epoch: int
    lr: float  # learning rate of the last update
    losses: Mapping[str, float]  # `loss` and its components by name, as means per target token since the last event
    gradient_norm: float | None = None  # mean norm before clipping


@dataclass(frozen=True)
class Evaluation(TrainingEvent):
    """A model was evaluated during training."""

    metric: str  # including the split, such as `valid perplexity`
    value: float
    best: bool  # whether this is the best value so far


@dataclass(frozen=True)
class Number:
    """A score of a cell is available: just computed, or stored by an earlier run."""

    cell: Mapping[str, Any]  # name by axis: task, model, decoder, split, hardware, seed
    metric: str
    value: float  # NaN if undefined


#: An event of a run: plain data without tensors
Event: TypeAlias = RunStarted | RunEnded | StageStarted | StageEnded | TrainingStarted | Update | Evaluation | Number
Hear: TypeAlias = Callable[[Event], None]  #: a function that receives an event

EVENTS: Mapping[str, type[Any]] = {
    "run-started": RunStarted,
    "run-ended": RunEnded,
    "stage-started": StageStarted,
    "stage-ended": StageEnded,
    "training-started": TrainingStarted,
    "update": Update,
    "evaluation": Evaluation,
    "number": Number,
}  #: event classes by name in JSON
_NAMES = {of: name for name, of in EVENTS.items()}


class Observer(ABC):
    """Receives the events of a run; built as `Class(config)` when the run starts.

    It is called from its own thread, one event at a time, in the process of `bench run`. An observer that raises is
    disabled with a warning. The run continues without it, and never waits for slow observers.
    """

    @abstractmethod
    def hear(self, event: Event) -> None:
        """Receive an event; events are ordered within a stage, but interleave between concurrent stages."""

    def close(self) -> None:
        """Write pending data; by default does nothing."""


def silent(event: Event) -> None:
    """Ignore an event."""


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON data, starting with its name."""
    return {"event": _NAMES[type(event)], **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Return an event from the JSON data of `event_to_json`."""
    kind = EVENTS[data["event"]]
    values = {field.name: data[field.name] for field in fields(kind)}
    if "training" in values:
        values["training"] = TrainingName(**values["training"])
    return kind(**values)  # type: ignore[no-any-return]
