"""Checks of `training:` that need more than its schema: optimizers, schedules, and their settings."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError, model_validator

from bench_core.config import ModelConfig
from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.suite import Entry
from bench_training.named_classes import OWN, Sort, class_of, tuples
from bench_training.settings import Phase, Schedule, TrainingConfig
from placed_settings import Unreadable, sentence

Way: TypeAlias = tuple[str | int, ...]  #: keys inside of `training:`
Report: TypeAlias = Callable[[Way, str], None]

Beta: TypeAlias = Annotated[float, Field(ge=0, lt=1)]  #: a decay rate of moments
#: Parameters that the trainer gives.
GIVEN = {"params", "optimizer", "lr", "last_epoch", "differentiable", "capturable"}


class Common(BaseModel):
    """Settings that Adam, AdamW and SGD share; theirs are checked without torch."""

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
    def _can_look_ahead(self) -> Self:
        if self.nesterov and (not self.momentum or self.dampening):
            raise ValueError("`nesterov` needs `momentum` above 0, and no `dampening`")
        return self


COMMON: Mapping[str, type[Common]] = {"adam": Adam, "adamw": AdamW, "sgd": Sgd}


def check_training(entry: Entry, report: Report) -> None:
    """Report every problem of one training, each with its keys inside of `training:`."""
    config = cast(TrainingConfig, entry.training)
    for check in (_optimizers, _schedules, _smoothing, _phases):
        with suppress(Unreadable):
            check(config, entry.config, report)


def _optimizers(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    for keys, one in config.optimizers:
        _settings("optimizer", one.name, one.more, keys, report)
    for number, group in enumerate(config.groups):
        name = (group.optimizer or config.optimizer).name
        with suppress(SuiteError):  # of a name, which is reported above
            _settings("optimizer", name, group.more, ("groups", number), report, whole=False)


def _schedules(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    for keys, several, _ in config.schedules:
        for number, one in enumerate(several):
            if one.name in OWN:
                _own_schedule(one, (*keys, number), report)
            else:
                _settings("schedule", one.name, one.more, (*keys, number), report)


def _own_schedule(one: Schedule, keys: Way, report: Report) -> None:
    known = OWN[one.name]
    for name, value in one.more.items():
        if name not in known:
            what = f"It has {', '.join(known)}." if known else "It has none."
            report((*keys, name), f"schedule {one.name!r} has no setting {name!r}. {what}")
        elif not _is_number(value) or not value >= 0 or (one.name != "constant" and value >= 1):
            most = "" if one.name == "constant" else ", below 1"
            report((*keys, name), f"{name!r} must be a number from 0{most} (found {value!r}).")
    if one.every == "epoch":
        report((*keys, "every"), f"`every` is for schedules of torch; {one.name!r} follows updates or evaluations.")


def _settings(sort: Sort, name: str, given: Mapping[str, Any], keys: Way, report: Report, whole: bool = True) -> None:
    """Report settings that a class does not have, that are missing, or with which it cannot be built.

    Those of a group of weights are not the `whole`.
    """
    if whole or given:
        for way, text in _problems(sort, name, given, whole):
            report((*keys, *way), text)


def _problems(sort: Sort, name: str, given: Mapping[str, Any], whole: bool) -> Iterator[tuple[Way, str]]:
    what, ours = f"{sort} {name!r}", {one: value for one, value in given.items() if one not in GIVEN}
    for one in given.keys() - ours.keys():
        yield (one,), f"{what}: `{one}` is given by the training; leave it out."
    schema = COMMON.get(name.lower()) if sort == "optimizer" else None
    try:
        found = None if schema else class_of(sort, name)
    except SuiteError as error:
        yield from [(("name",), str(error))] if whole else []
        return
    known = dict.fromkeys(schema.model_fields, False) if schema else _parameters(found)
    unknown = ours.keys() - known.keys() if None not in known else set()
    for one in unknown:
        yield (one,), f"{what} has no setting {one!r}. {suggestion(one, [*known])}"
    missing = [one for one, is_needed in known.items() if is_needed and one not in given]
    if schema:
        yield from _misfits(what, schema, {one: value for one, value in ours.items() if one not in unknown})
    elif missing and whole:
        yield (), f"{what} needs {' and '.join(f'`{one}`' for one in missing)}."
    elif whole and not unknown and (reason := _failure(sort, found, ours)):
        yield (), f"{what} cannot be built with these settings: {reason}"


def _parameters(found: Any) -> dict[Any, bool]:
    """Return the settings of a class, each with whether it is required; None stands for any others."""
    parameters = [*inspect.signature(found).parameters.values()][1:]
    return {
        None if one.kind is one.VAR_KEYWORD else one.name: one.default is one.empty
        and one.kind is not one.VAR_KEYWORD
        for one in parameters
        if one.name not in GIVEN
    }


def _misfits(what: str, schema: type[Common], given: Mapping[str, Any]) -> Iterator[tuple[Way, str]]:
    """Yield what the schema of common settings says of given ones."""
    try:
        schema.model_validate(tuples(given), strict=True)
    except ValidationError as error:
        by_key: dict[Way, list[Any]] = {}
        for one in error.errors():
            by_key.setdefault(one["loc"][:1], []).append(one)
        for keys, errors in by_key.items():
            yield keys, f"{what}: {sentence(errors, schema, errors[0]['loc'])}"


def _failure(sort: Sort, found: Any, settings: Mapping[str, Any]) -> str:
    """Return why a class cannot be built for some weights; empty if it can."""
    from torch import nn, ones, optim

    weights = [nn.Parameter(ones(2, 2))]
    try:
        found(optim.SGD(weights, 0.1, momentum=0.9) if sort == "schedule" else weights, **tuples(settings))
    except (Exception, SystemExit) as error:  # whatever a class raises for its settings
        return str(error) or type(error).__name__
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _smoothing(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    if config.trains and config.label_smoothing and not model.smooths_labels():
        text = f"{model.name} does not smooth labels. Set `label_smoothing: 0` for it."
        report(("label_smoothing",), text)


def _phases(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    """Report settings of phases that the model does not change by phase."""
    known = [*Phase.model_fields, *sorted(model.by_phase)]
    for number, phase in enumerate(config.phases):
        for key in {*phase.more} - model.by_phase:
            text = f"a phase of {{model}} cannot set {key!r}. {suggestion(key, known)}"
            report(("phases", number, key), text)
