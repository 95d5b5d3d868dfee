"""Collects problems with settings to report all of them at once: file, line, column, finding, remedy."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isabstract
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from placed_settings.partial import objections, partial
from placed_settings.value_messages import EXPECTED, ErrorDetails, sentence
from placed_settings.yaml_files import Keys, Located

T = TypeVar("T", bound=BaseModel)

#: Maps keys inside settings to keys in the file; None if problems are reported elsewhere.
Places: TypeAlias = Callable[[Keys], "Keys | None"]

MAX_CHARACTERS, MAX_PROBLEMS = 600, 100  #: characters per problem, and problems per listing
PLACE = re.compile(r":(\d+):(\d+): ")
SHAPES = {*EXPECTED, "literal_error", "enum"}  # errors of values with a wrong type or choice


@dataclass
class Problems:
    """Problems with settings, collected before they are reported."""

    source: Located
    messages: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)  # all problems so far, without the combination of a grid
    removed: set[tuple[str, str]] = field(default_factory=set)  # (axis, name) of entries removed by `--set`
    notes: list[str] = field(default_factory=list)  # places where the file uses removed names

    def __post_init__(self) -> None:
        for problem in self.source.problems:
            self.note(problem)

    def add(self, keys: Sequence[str | int], text: str, combination: str = "") -> None:
        """Report a problem at `keys`; a problem shared by several combinations of a grid is reported once.

        Values that could not be read have already been reported; further problems inside them are ignored.
        """
        if not any(tuple(keys[:end]) in self.source.unread for end in range(1, len(keys) + 1)):
            self.note(f"{self.source.place(keys)}: {text}", combination)

    def note(self, line: str, combination: str = "") -> None:
        """Report a problem whose text includes its place."""
        line = line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]} …"
        if line not in self.told:
            self.told.add(line)
            self.messages.append(f"{line} (In {combination}.)" if combination else line)

    def parsed(
        self, schema: type[T], data: Any, keys: Sequence[str | int], combination: str = "",
        places: Places | None = None, known: Container[str] = (),
    ) -> T:  # fmt: skip
        """Validate `data` with `schema` and report all problems; invalid settings of the result are unreadable.

        `combination` is mentioned if it is invalid as a whole although each setting is valid. `places` maps problems
        to keys in the file, by default inside `keys`; model-level problems in `known` are not reported.
        """
        try:
            return schema.model_validate(data)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        places = places or (lambda inside: (*keys, *inside))
        inner = {
            name: self._inner(kind, data[name], _inside(places, name))
            for name, kind in _inner_mappings(schema, data, errors)
        }
        errors = [details for details in errors if not details["loc"] or details["loc"][0] not in inner]
        names = {field.alias or name: name for name, field in schema.model_fields.items()}
        invalid = {names.get(str(details["loc"][0]), "") for details in errors if details["loc"]} - {""}
        settings = partial(schema, data, invalid | {*inner})
        vars(settings).update(inner)
        whole = dict.fromkeys(objections(schema, settings))
        errors = [details for details in errors if details["loc"] or details["msg"].partition(", ")[2] not in whole]
        errors += [
            {"type": "value_error", "loc": (), "msg": text, "input": {}} for text in whole if text not in known
        ]
        self._report(errors, schema, places, combination)
        return settings

    def _inner(self, schema: type[BaseModel], data: Any, places: Places) -> Any:
        """Return a nested mapping, or a tuple of the mappings in a list, each validated by `parsed`."""
        if isinstance(data, Mapping):
            return self.parsed(schema, data, (), places=places)
        return tuple(
            self.parsed(schema, item, (), places=_inside(places, number)) for number, item in enumerate(data)
        )

    def _report(
        self, errors: Iterable[ErrorDetails], schema: type[BaseModel], places: Places, combination: str
    ) -> None:
        """Report errors: one for all alternative types of a value, none for a value with errors inside."""
        groups: dict[tuple[Keys, str], list[ErrorDetails]] = {}
        for details in errors:
            keys = places(details["loc"])
            if keys is not None:
                way = self._keys_in_file((*keys, "grid") if combination and not details["loc"] else keys)
                apart = "" if details["type"] in SHAPES else repr((details["type"], details["loc"], details["msg"]))
                groups.setdefault((way, apart), []).append(details)
        for (way, apart), alternatives in groups.items():
            others = [other for other, distinct in groups if len(other) > len(way) or (distinct and not apart)]
            if apart or not any(other[: len(way)] == way for other in others):
                self.add(way, sentence(alternatives, schema, way), "" if alternatives[0]["loc"] else combination)

    def _keys_in_file(self, keys: Keys) -> Keys:
        """Return the key path of a value, omitting keys that are not in the file, such as alternatives of a union."""
        way: Keys = ()
        for key in keys:
            way = (*way, key) if (*way, key) in self.source.places else way
        return way

    def text(self) -> str:
        """Return all problems as one text, in the order of the file."""
        return "\n".join(listing(self.messages))


def listing(problems: Iterable[str]) -> list[str]:
    """Return the first problems in the order of the file, and the total number if there are several."""
    lines = sorted(problems, key=_by_place)
    count = f"{len(lines):,} problems{f', the first {MAX_PROBLEMS} shown' if len(lines) > MAX_PROBLEMS else ''}."
    return [*lines[:MAX_PROBLEMS], *([count] if len(lines) > 1 else [])]


def _by_place(line: str) -> tuple[int, int, str]:
    place = PLACE.search(line)
    return (int(place[1]), int(place[2]), line) if place else (0, 0, line)


def _inside(places: Places, name: str | int) -> Places:
    return lambda inside: places((name, *inside))


def _inner_mappings(
    schema: type[BaseModel], data: Any, errors: Iterable[ErrorDetails]
) -> list[tuple[str, type[BaseModel]]]:
    """Return name and schema of the mappings, or lists of mappings, of a single schema, that have nested errors."""
    wrong = {str(details["loc"][0]) for details in errors if len(details["loc"]) > 1}
    nested = []
    for name, field_info in schema.model_fields.items():
        kinds = [
            kind
            for kind in get_args(field_info.annotation) or (field_info.annotation,)
            if kind not in (NoneType, ...)
        ]
        shape = list if get_origin(field_info.annotation) in (list, tuple) else Mapping
        is_nested = len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
        is_nested = is_nested and not isabstract(kinds[0])  # a validator chooses the schema
        if is_nested and name in wrong and isinstance(data.get(name), shape):
            nested.append((name, kinds[0]))
    return nested
