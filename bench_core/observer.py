"""The interface of observers, which hear of a run while it is under way: stages, updates, evaluations, numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias


@dataclass(frozen=True)
class RunStarted:
    """A run starts; the first event."""

    run: str  # its name: suite, profile and time
    suite: str  # its label, such as `rnn/clipping-smoke`
    stages: int  # how many are to be computed


@dataclass(frozen=True)
class RunEnded:
    """A run has ended, whether its cells are done or not; the last event."""

    run: str
    folder: str | None  # where its results are; None if it was given up without any


@dataclass(frozen=True)
class StageStarted:
    """A stage starts."""

    kind: str  # such as train
    label: str  # such as `words x lstm, seed 0`
    key: str  # of its artifact


@dataclass(frozen=True)
class StageEnded:
    """A stage has ended."""

    kind: str
    label: str
    key: str
    seconds: float  # wall-clock
    failure: str | None = None  # why there is no artifact


@dataclass(frozen=True)
class TrainingName:
    """A training: one seed of one model on one task."""

    label: str = ""  # such as `words x lstm, seed 0`
    key: str = ""  # of the stage that trains it, perhaps together with other seeds
    seed: int = 0


@dataclass(frozen=True)
class TrainingEvent:
    """Something that happens in a training."""

    step: int  # updates that are done
    copy: int = field(default=0, kw_only=True)  # its place among the seeds that are trained together
    training: TrainingName = field(default=TrainingName(), kw_only=True)  # which the run fills in


@dataclass(frozen=True)
class TrainingStarted(TrainingEvent):
    """A training starts, or goes on from a checkpoint: what was heard of later steps is void."""

    steps: int  # planned in all


@dataclass(frozen=True)
class Update(TrainingEvent):
    """The trainer has read its log: one update, or several since the last event."""

    epoch: int
    lr: float  # learning rate of the last update
    losses: Mapping[str, float]  # mean per target token since the last event: `loss`, and parts of it by name
    gradient_norm: float | None = None  # mean, before clipping


@dataclass(frozen=True)
class Evaluation(TrainingEvent):
    """A model in training was evaluated."""

    metric: str  # with its split, such as `valid perplexity`
    value: float
    best: bool  # whether it is the best so far


@dataclass(frozen=True)
class Number:
    """A metric of a cell is known: just computed, or stored before the run."""

    cell: Mapping[str, Any]  # its name on each axis: task, model, decoder, split, hardware, seed
    metric: str
    value: float  # NaN where it is not defined


Event: TypeAlias = (
    RunStarted | RunEnded | StageStarted | StageEnded | TrainingStarted | Update | Evaluation | Number
)  #: what an observer hears: plain data, no tensors
Hear: TypeAlias = Callable[[Event], None]  #: hears of an event

EVENTS: Mapping[str, type[Any]] = {
    "run-started": RunStarted,
    "run-ended": RunEnded,
    "stage-started": StageStarted,
    "stage-ended": StageEnded,
    "training-started": TrainingStarted,
    "update": Update,
    "evaluation": Evaluation,
    "number": Number,
}  #: the events, by their names in JSON
_NAMES = {of: name for name, of in EVENTS.items()}


class Observer(ABC):
    """Hears of a run; built as `Class(config)` when the run starts.

    It is called from a thread of its own, one event at a time, in the process that was started as `bench run`. An
    observer that raises is switched off with a warning, and the run goes on; so it does past one that is too slow.
    """

    @abstractmethod
    def hear(self, event: Event) -> None:
        """Take an event; those of one stage are in order, those of concurrent stages interleave."""

    def close(self) -> None:
        """Write what is not yet written; by default nothing."""


def silent(event: Event) -> None:
    """Hear of an event, and do nothing."""


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON data, its name first."""
    return {"event": _NAMES[type(event)], **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Return the event of `event_to_json`."""
    kind = EVENTS[data["event"]]
    values = {one.name: data[one.name] for one in fields(kind)}
    if "training" in values:
        values["training"] = TrainingName(**values["training"])
    found: Event = kind(**values)
    return found
