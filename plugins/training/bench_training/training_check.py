"""Checks `training:` beyond its schema: optimizers, schedules, and their settings."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError, model_validator

from bench_core.config import ModelConfig
from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.suite import Entry
from bench_training.named_classes import BUILT_IN_SCHEDULES, Kind, class_of, tuples
from bench_training.settings import Phase, Schedule, TrainingConfig
from placed_settings import Unreadable, sentence

Way: TypeAlias = tuple[str | int, ...]  #: keys inside `training:`
Report: TypeAlias = Callable[[Way, str], None]

Beta: TypeAlias = Annotated[float, Field(ge=0, lt=1)]  #: decay rate of moments
#: Parameters that the trainer passes itself.
GIVEN = {"params", "optimizer", "lr", "last_epoch", "differentiable", "capturable"}


class Common(BaseModel):
    """Settings shared by Adam, AdamW and SGD, which can be checked without torch."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weight_decay: NonNegativeFloat = 0
    maximize: bool = False
    foreach: bool | None = None
    fused: bool | None = None


class AdamW(Common):
    """Settings of AdamW."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: NonNegativeFloat = 1e-8
    amsgrad: bool = False


class Adam(AdamW):
    """Settings of Adam."""

    decoupled_weight_decay: bool = False


class Sgd(Common):
    """Settings of SGD."""

    momentum: NonNegativeFloat = 0
    dampening: float = 0
    nesterov: bool = False

    @model_validator(mode="after")
    def _allows_nesterov(self) -> Self:
        if self.nesterov and (not self.momentum or self.dampening):
            raise ValueError("`nesterov` needs `momentum` above 0 and `dampening` 0")
        return self


COMMON: Mapping[str, type[Common]] = {"adam": Adam, "adamw": AdamW, "sgd": Sgd}


def check_training(entry: Entry, report: Report) -> None:
    """Report every problem with training settings, with its keys inside `training:`."""
    config = cast(TrainingConfig, entry.training)
    for check in (_optimizers, _schedules, _smoothing, _phases):
        with suppress(Unreadable):
            check(config, entry.config, report)


def _optimizers(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    for keys, optimizer in config.optimizers:
        _settings("optimizer", optimizer.name, optimizer.more, keys, report)
    for number, group in enumerate(config.groups):
        name = (group.optimizer or config.optimizer).name
        with suppress(SuiteError):  # unknown names have been reported above
            _settings("optimizer", name, group.more, ("groups", number), report, whole=False)


def _schedules(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    for keys, several, _ in config.schedules:
        for number, schedule in enumerate(several):
            if schedule.name in BUILT_IN_SCHEDULES:
                _built_in_schedule(schedule, (*keys, number), report)
            else:
                _settings("schedule", schedule.name, schedule.more, (*keys, number), report)


def _built_in_schedule(schedule: Schedule, keys: Way, report: Report) -> None:
    known = BUILT_IN_SCHEDULES[schedule.name]
    for name, value in schedule.more.items():
        if name not in known:
            advice = f"Its settings: {', '.join(known)}." if known else "It has no settings."
            report((*keys, name), f"schedule {schedule.name!r} has no setting {name!r}. {advice}")
        elif not _is_number(value) or not value >= 0 or (schedule.name != "constant" and value >= 1):
            most = "" if schedule.name == "constant" else " and below 1"
            report((*keys, name), f"{name!r} must be a number of at least 0{most} (found {value!r}).")
    if schedule.every == "epoch":
        text = f"`every` applies only to torch schedules; {schedule.name!r} has no `every`. Remove it."
        report((*keys, "every"), text)


def _settings(kind: Kind, name: str, given: Mapping[str, Any], keys: Way, report: Report, whole: bool = True) -> None:
    """Report settings unknown to a class, missing settings, and settings with which the class cannot be built.

    The settings of a weight group are incomplete, so `whole` is false.
    """
    if whole or given:
        for way, text in _problems(kind, name, given, whole):
            report((*keys, *way), text)


def _problems(kind: Kind, name: str, given: Mapping[str, Any], whole: bool) -> Iterator[tuple[Way, str]]:
    what, ours = f"{kind} {name!r}", {key: value for key, value in given.items() if key not in GIVEN}
    for key in given.keys() - ours.keys():
        yield (key,), f"{what}: `{key}` is set by the trainer. Remove it."
    schema = COMMON.get(name.lower()) if kind == "optimizer" else None
    try:
        cls = None if schema else class_of(kind, name)
    except SuiteError as error:
        yield from [(("name",), str(error))] if whole else []
        return
    known = dict.fromkeys(schema.model_fields, False) if schema else _parameters(cls)
    unknown = ours.keys() - known.keys() if None not in known else set()
    for key in unknown:
        yield (key,), f"{what} has no setting {key!r}. {suggestion(key, [*known])}"
    missing = [key for key, is_required in known.items() if is_required and key not in given]
    if schema:
        yield from _misfits(what, schema, {key: value for key, value in ours.items() if key not in unknown})
    elif missing and whole:
        yield (), f"{what} needs {' and '.join(f'`{key}`' for key in missing)}."
    elif whole and not unknown and (reason := _failure(kind, cls, ours)):
        yield (), f"{what} cannot be built with these settings: {reason}"


def _parameters(cls: Any) -> dict[Any, bool]:
    """Return the settings of a class and whether each is required; the key None means that any name is accepted."""
    parameters = [*inspect.signature(cls).parameters.values()][1:]
    return {
        None if each.kind is each.VAR_KEYWORD else each.name: each.default is each.empty
        and each.kind is not each.VAR_KEYWORD
        for each in parameters
        if each.name not in GIVEN
    }


def _misfits(what: str, schema: type[Common], given: Mapping[str, Any]) -> Iterator[tuple[Way, str]]:
    """Yield the errors of settings according to a schema."""
    try:
        schema.model_validate(tuples(given), strict=True)
    except ValidationError as error:
        by_key: dict[Way, list[Any]] = {}
        for detail in error.errors():
            by_key.setdefault(detail["loc"][:1], []).append(detail)
        for keys, errors in by_key.items():
            yield keys, f"{what}: {sentence(errors, schema, errors[0]['loc'])}"


def _failure(kind: Kind, cls: Any, settings: Mapping[str, Any]) -> str:
    """Return why a class cannot be built, or an empty string."""
    from torch import nn, ones, optim

    weights = [nn.Parameter(ones(2, 2))]
    try:
        cls(optim.SGD(weights, 0.1, momentum=0.9) if kind == "schedule" else weights, **tuples(settings))
    except (Exception, SystemExit) as error:  # a class may raise anything for its settings
        return str(error) or type(error).__name__
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _smoothing(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    if config.trains and config.label_smoothing and not model.smooths_labels():
        report(("label_smoothing",), f"{model.name} does not support label smoothing. Set `label_smoothing: 0`.")


def _phases(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    """Report settings of phases that the model does not allow to differ between phases, or does not allow at all."""
    known = [*Phase.model_fields, *sorted(model.by_phase)]
    for number, phase in enumerate(config.phases):
        for key in {*phase.more} - model.by_phase:
            text = f"a phase of {{model}} cannot set {key!r}. {suggestion(key, known)}"
            report(("phases", number, key), text)
        if not {*phase.more} - model.by_phase:
            for keys, text in _phase_misfits(phase, model):
                report(("phases", number, *keys), text)


def _phase_misfits(phase: Phase, model: ModelConfig) -> Iterator[tuple[Way, str]]:
    """Yield the keys and text of each error in the model's settings during a phase."""
    settings = {**{name: getattr(model, name) for name in model.model_fields_set}, **phase.more}
    try:
        type(model).model_validate(settings)
    except ValidationError as error:
        by_key: dict[Way, list[Any]] = {}
        for detail in error.errors():
            by_key.setdefault(detail["loc"][:1], []).append(detail)
        for keys, errors in by_key.items():
            yield (
                keys if keys in {(key,) for key in phase.more} else (),
                sentence(errors, type(model), errors[0]["loc"]),
            )
