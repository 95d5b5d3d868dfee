"""The axes of the evaluation matrix: task, model, decoder, split, hardware, seed."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator

Axis: TypeAlias = Literal["task", "model", "decoder", "split", "hardware", "seed"]
AXES: tuple[Axis, ...] = get_args(Axis)
TRAINING_AXES: tuple[Axis, ...] = ("task", "model", "hardware")  #: what tells trainings apart, besides seeds


def as_list(value: Any) -> Any:
    """Return a single name as a list of one."""
    return [value] if isinstance(value, str) else value


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
Axes: TypeAlias = Annotated[tuple[Axis, ...], BeforeValidator(as_list, json_schema_input_type=Axis | list[Axis])]

#: The part of a suite that holds the names on an axis, and those of metrics.
SECTIONS: Mapping[str, str] = {"task": "tasks", "model": "models", "decoder": "decoders", "metric": "metrics"}
