"""The axes of the evaluation matrix: task, model, decoder, split, hardware, seed."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator

Axis: TypeAlias = Literal["task", "model", "decoder", "split", "hardware", "seed"]
AXES: tuple[Axis, ...] = get_args(Axis)
TRAINING_AXES: tuple[Axis, ...] = ("task", "model", "hardware")  #: axes that distinguish training runs, besides seeds


def as_list(value: Any) -> Any:
    """Wrap a single name in a list."""
    return [value] if isinstance(value, str) else value


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
Axes: TypeAlias = Annotated[tuple[Axis, ...], BeforeValidator(as_list, json_schema_input_type=Axis | list[Axis])]

#: Axis (or "metric") -> the section of a suite with its names.
SECTIONS: Mapping[str, str] = {"task": "tasks", "model": "models", "decoder": "decoders", "metric": "metrics"}
