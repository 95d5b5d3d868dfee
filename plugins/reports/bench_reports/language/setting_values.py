"""Axes and settings by which figures arrange cells, such as `model`, `decoder.width` or `training.lr`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench_core.suites.axes import AXES, Axis

MISSING = object()  #: the value of a setting that a suite does not give
WITH_SETTINGS: tuple[Axis, ...] = ("task", "model", "decoder")


class Side(NamedTuple):
    """An axis of the matrix, or a setting of the parts on it."""

    axis: Axis
    setting: str | None = None  # such as `width`, or `training.lr` of a model

    def __str__(self) -> str:
        """Return the setting, or else the axis."""
        return self.axis if self.setting is None else self.setting.removeprefix("training.")


def side_of(text: str) -> Side | None:
    """Return what a text such as `model`, `decoder.width` or `training.lr` names; None if no axis, and no setting."""
    axis, dot, setting = text.partition(".")
    if axis == "training" and setting:
        return Side("model", text)
    for known in AXES[:-1] if not dot else WITH_SETTINGS if setting else ():
        if axis == known:
            return Side(known, setting if dot else None)
    return None


def setting_value(
    section: Mapping[str, Any],
    name: str,
    setting: str,
    task: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> Any:
    """Return the value of a setting of a part, as a suite gives it for a task; MISSING if it gives none.

    `section` is that of the suite with all parts of a kind, `training` its training of all models.
    """
    entry = section.get(name)
    changes = _inside(entry, ["by_task", task]) if task is not None else MISSING
    ways: list[tuple[Any, list[str]]] = [(changes, setting.split(".")), (entry, setting.split("."))]
    if setting.startswith("training."):
        ways.append((training, setting.split(".")[1:]))
    found = (_inside(settings, keys) for settings, keys in ways)
    return next((value for value in found if value is not MISSING), MISSING)


def _inside(settings: Any, keys: list[str]) -> Any:
    for key in keys:
        if not isinstance(settings, Mapping) or key not in settings:
            return MISSING
        settings = settings[key]
    return settings
