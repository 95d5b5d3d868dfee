"""Collects the problems of a suite, to report all of them at once: file, line, column, finding, remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.suites.yaml_source import Located

T = TypeVar("T", bound=BaseModel)

LONGEST, MOST = 600, 100  #: characters of what is wrong with one value, and such values that are told


@dataclass
class Problems:
    """The problems of a suite, collected before they are reported."""

    source: Located
    found: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)  # what was found, whichever combination of a grid it was found in

    def add(self, keys: Sequence[str | int], text: str, combination: str = "") -> None:
        """Report a problem at `keys`; a problem that several combinations of a grid share is reported once."""
        line = f"{self.source.place(keys)}: {text if len(text) <= LONGEST else f'{text[:LONGEST]} …'}"
        if line not in self.told:
            self.told.add(line)
            self.found.append(f"{line} (In {combination}.)" if combination else line)

    def parsed(self, schema: type[T], data: Any, keys: Sequence[str | int], combination: str = "") -> T | None:
        """Return `data` as `schema`, or None after reporting every problem.

        `combination` is named if it is invalid as a whole although each setting is valid.
        """
        try:
            return schema.model_validate(data)
        except ValidationError as error:
            told: set[tuple[str | int, ...]] = set()
            for one in error.errors(include_url=False):
                whole = combination if not one["loc"] else ""
                way = self._known([*keys, *(["grid"] if whole else one["loc"])])
                if tuple(way) not in told or one["type"] == "missing":  # the other shapes of a value do not matter
                    self.add(way, _sentence(dict(one), schema, way), whole)
                told.add(tuple(way))
            return None

    def _known(self, way: list[str | int]) -> list[str | int]:
        """Remove the end of a path that is not a key of the file, such as the tried alternative of a union."""
        return next((way[:end] for end in range(len(way), 0, -1) if tuple(way[:end]) in self.source.places), [])

    def error(self) -> SuiteError:
        """Return all problems as one error, in the order of the file."""
        lines = sorted(self.found, key=_by_line)
        count = [f"{len(lines):,} problems{f', the first {MOST} shown' if len(lines) > MOST else ''}."]
        return SuiteError("\n".join([*lines[:MOST], *(count if len(lines) > 1 else [])]))


def _by_line(message: str) -> tuple[int, str]:
    numbers = [word for word in message.split(":")[1:3] if word.isdigit()]
    return (int(numbers[0]) if numbers else 0), message


def _sentence(error: dict[str, Any], schema: type[BaseModel], way: Sequence[str | int]) -> str:
    """Describe a validation error in terms of the suite."""
    loc = error["loc"] or ("",)
    if error["type"] == "extra_forbidden":
        return f"unknown key {loc[-1]!r}. {suggestion(str(loc[-1]), _fields(schema, loc[:-1]))}"
    if error["type"] == "missing":
        return f"the key {loc[-1]!r} is missing."
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    found = error.get("input")
    shown = f" (found {found!r})" if isinstance(found, (str, int, float, bool, type(None), list)) else ""
    where = f"{way[-1]!r}: " if way and isinstance(way[-1], str) else ""
    return f"{where}{text[:1].lower() + text[1:].rstrip('.')}{shown if len(shown) < 80 else ''}."


def _fields(schema: type[BaseModel], way: Iterable[str | int]) -> list[str]:
    """Return the keys allowed at `way` in `schema`."""
    for step in way:
        if isinstance(step, str) and step in schema.model_fields:
            schema = _inner(schema.model_fields[step].annotation) or schema
    return [field.alias or name for name, field in schema.model_fields.items()]


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for item in get_args(annotation) if (found := _inner(item))), None)
