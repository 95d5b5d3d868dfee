"""Checks of `training:` that need more than its schema: optimizers, schedules, and their settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from bench_core.config import ModelConfig
from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.named_classes import OWN, Sort, Target, target
from bench_core.suites.partial import Unreadable
from bench_core.suites.signatures import NOTHING, Parameter, Signature, has_method, signature, source_of
from bench_core.suites.suite import Entry
from bench_core.suites.training import Optimizer, Schedule, TrainingConfig

Way: TypeAlias = tuple[str | int, ...]  #: keys inside of `training:`
Report: TypeAlias = Callable[[Way, str], None]

#: Parameters that the trainer gives.
GIVEN = {"params", "optimizer", "lr", "last_epoch", "differentiable", "capturable"}


def check_training(entry: Entry, report: Report) -> None:
    """Report every problem of one training, each with its keys inside of `training:`."""
    config = entry.training
    for check in (_optimizers, _groups, _schedules):
        with suppress(Unreadable):
            check(config, report)
    with suppress(Unreadable):
        _smoothing(config, entry.config, report)


def _optimizers(config: TrainingConfig, report: Report) -> None:
    for keys, one in config.optimizers:
        found = _signature("optimizer", one.name, keys, report)
        if found is not None:
            _settings(f"optimizer {one.name!r}", one.more, found, keys, report)


def _groups(config: TrainingConfig, report: Report) -> None:
    for number, group in enumerate(config.groups):
        one = group.optimizer or config.optimizer
        found = _signature("optimizer", one.name, (), lambda keys, text: None)
        if found is not None:
            _settings(f"optimizer {one.name!r}", group.more, found, ("groups", number), report, required=False)


def _schedules(config: TrainingConfig, report: Report) -> None:
    for keys, several, _ in config.schedules:
        for number, one in enumerate(several):
            _schedule(one, (*keys, number), report)


def _schedule(one: Schedule, keys: Way, report: Report) -> None:
    if one.name in OWN:
        _own_schedule(one, keys, report)
        return
    found = _signature("schedule", one.name, keys, report)
    if found is not None:
        _settings(f"schedule {one.name!r}", one.more, found, keys, report)


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


def _signature(sort: Sort, name: str, keys: Way, report: Report) -> Signature | None:
    """Return the signature of a class by its name; None if it is not known, after reporting why."""
    try:
        found = target(sort, name)
        _check_exists(sort, name, found)
    except SuiteError as error:
        report((*keys, "name"), str(error))
        return None
    return signature(*found)


def _check_exists(sort: Sort, name: str, found: Target) -> None:
    """Raise SuiteError for a class `package.module:Class` that does not exist, or needs a closure."""
    if ":" not in name:
        return
    tree = source_of(found.module)
    if tree is None or not found.name:
        raise SuiteError(f"{sort} {name!r}: there is no module {found.module!r} with a class {found.name!r} here.")
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    if found.name not in defined | imported:
        raise SuiteError(
            f"{sort} {name!r}: {found.module} has no {found.name}. {suggestion(found.name, sorted(defined))}"
        )
    if has_method(*found, "step") is False:
        raise SuiteError(f"{sort} {name!r} has no method `step`.")


def _settings(
    what: str, given: Mapping[str, Any], found: Signature, keys: Way, report: Report, required: bool = True
) -> None:
    """Report settings that a constructor does not have, that have another type, or that are missing."""
    known = {name: one for name, one in found.parameters.items() if name not in GIVEN}
    for name, value in given.items():
        if name in GIVEN:
            report((*keys, name), f"{what}: `{name}` is given by the training; leave it out.")
        elif name not in known:
            if not found.more:
                report((*keys, name), f"{what} has no setting {name!r}. {suggestion(name, [*known])}")
        elif expected := misfit(value, known[name]):
            report((*keys, name), f"{what}: {name!r} must be {expected} (found {value!r}).")
    missing = [name for name, one in known.items() if one.default is NOTHING and name not in given]
    if missing and required:
        report(keys, f"{what} needs {' and '.join(f'`{name}`' for name in missing)}.")


def misfit(value: Any, parameter: Parameter) -> str:
    """Return what a value should be, by the annotation of a parameter; the empty string if it is that, or unknown."""
    kinds = [kind.strip() for kind in _alternatives(parameter.annotation)]
    tests = [(words, test) for kind in kinds for words, test in _tests(kind)]
    if not kinds or len({*kinds} - {"Tensor"}) > len(tests) or any(test(value) for _, test in tests):
        return ""
    return " or ".join(dict.fromkeys(words for words, _ in tests))


def _alternatives(annotation: str) -> Iterator[str]:
    """Yield the members of a union, which may have brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(annotation):
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "|" and depth == 0:
            yield annotation[start:place]
            start = place + 1
    if annotation:
        yield annotation[start:]


def _tests(kind: str) -> Iterator[tuple[str, Callable[[Any], bool]]]:
    """Yield how a type is said, and whether a value has it; nothing for a type that is not known here."""
    plain: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "float": ("a number", _is_number),
        "int": ("a whole number", lambda value: type(value) is int),
        "bool": ("true or false", lambda value: type(value) is bool),
        "str": ("text", lambda value: isinstance(value, str)),
        "None": ("null", lambda value: value is None),
    }
    if kind in plain:
        yield plain[kind]
    elif inside := re.fullmatch(r"(tuple|list|Iterable)\[(.*)\]", kind):
        yield _listed(*inside.groups())
    elif inside := re.fullmatch(r"Literal\[(.*)\]", kind):
        values = ast.literal_eval(f"({inside[1]},)")
        yield f"one of {', '.join(map(str, values))}", lambda value: value in values


def _listed(kind: str, inside: str) -> tuple[str, Callable[[Any], bool]]:
    """Return the test of a list, of a fixed length if it is a tuple."""
    members = [one.strip() for one in re.split(r",\s*(?![^\[]*\])", inside)]
    length = len(members) if kind == "tuple" and "..." not in members else None
    each = [Parameter(members[0])] * 1 if length is None else [Parameter(one) for one in members]

    def test(value: Any) -> bool:
        if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
            return False
        several = each * len(value) if length is None else each
        return not any(misfit(one, parameter) for one, parameter in zip(value, several, strict=True))

    return f"a list of {'numbers' if length is None else f'{length} numbers'}", test


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _smoothing(config: TrainingConfig, model: ModelConfig, report: Report) -> None:
    if config.trains and config.label_smoothing and not model.smooths_labels():
        text = f"{model.name} does not smooth labels. Set `label_smoothing: 0` for it."
        report(("label_smoothing",), text)


def custom_targets(config: TrainingConfig) -> Iterator[tuple[str, str]]:
    """Yield the classes outside of torch that a training names, as `module:Class`, each with what it is."""
    for _, optimizer in config.optimizers:
        yield from _custom("optimizer", optimizer)
    for _, several, _ in config.schedules:
        for schedule in several:
            yield from _custom("schedule", schedule)


def _custom(sort: Sort, one: Optimizer | Schedule) -> Iterator[tuple[str, str]]:
    if ":" in one.name:
        yield f"{sort} {one.name}", one.name
