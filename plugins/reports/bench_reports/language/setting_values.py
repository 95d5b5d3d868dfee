"""Axes and settings that figures use to arrange cells, such as `model`, `decoder.width` or `training.lr`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench_core.suites.axes import AXES, Axis

MISSING = object()  #: stands for a setting that the suite does not set
WITH_SETTINGS: tuple[Axis, ...] = ("task", "model", "decoder")


class AxisOrSetting(NamedTuple):
    """An axis of the matrix, or a setting of the parts on it."""

    axis: Axis
    setting: str | None = None  # such as `width`, or `training.lr` of a model

    def __str__(self) -> str:
        """Return the setting, or else the axis."""
        return self.axis if self.setting is None else self.setting.removeprefix("training.")


def side_of(text: str) -> AxisOrSetting | None:
    """Return the axis or setting that a text such as `model`, `decoder.width` or `training.lr` names, or None."""
    axis, dot, setting = text.partition(".")
    if axis == "training" and setting:
        return AxisOrSetting("model", text)
    for known in AXES[:-1] if not dot else WITH_SETTINGS if setting else ():
        if axis == known:
            return AxisOrSetting(known, setting if dot else None)
    return None


def setting_value(
    section: Mapping[str, Any],
    name: str,
    setting: str,
    task: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> Any:
    """Return the value of a setting of a part for a task; MISSING if the suite does not set it.

    `section` is the section of the suite with all parts of a kind, `training` its training settings for all models.
    """
    entry = section.get(name)
    changes = _inside(entry, ["by_task", task]) if task is not None else MISSING
    ways: list[tuple[Any, list[str]]] = [(changes, setting.split(".")), (entry, setting.split("."))]
    if setting.startswith("training."):
        ways.append((training, setting.split(".")[1:]))
    values = (_inside(settings, keys) for settings, keys in ways)
    return next((value for value in values if value is not MISSING), MISSING)


def _inside(settings: Any, keys: list[str]) -> Any:
    for key in keys:
        if not isinstance(settings, Mapping) or key not in settings:
            return MISSING
        settings = settings[key]
    return settings
