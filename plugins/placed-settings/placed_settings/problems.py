"""Collects the problems of settings, to report all of them at once: file, line, column, finding, remedy."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from placed_settings.partial import objections, partial
from placed_settings.value_messages import EXPECTED, ErrorDetails, sentence
from placed_settings.yaml_files import Keys, Located

T = TypeVar("T", bound=BaseModel)

#: Maps the keys to a value inside of settings to its keys in the file; None if its problems are reported elsewhere.
Places: TypeAlias = Callable[[Keys], "Keys | None"]

LONGEST, MOST = 600, 100  #: characters of the description of a problem, and problems that are listed
PLACE = re.compile(r":(\d+):(\d+): ")
SHAPES = {*EXPECTED, "literal_error", "enum"}  # errors of a value that has none of the shapes it may have


@dataclass
class Problems:
    """The problems of settings, collected before they are reported."""

    source: Located
    found: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)  # problems, whichever combination of a grid they were found in
    removed: set[tuple[str, str]] = field(default_factory=set)  # axis and name of what `--set` removes
    notes: list[str] = field(default_factory=list)  # where the file names these

    def __post_init__(self) -> None:
        for problem in self.source.problems:
            self.note(problem)

    def add(self, keys: Sequence[str | int], text: str, combination: str = "") -> None:
        """Report a problem at `keys`; a problem that several combinations of a grid share is reported once.

        Values that could not be read, and have been reported as such, have no other problems.
        """
        if not any(tuple(keys[:end]) in self.source.unread for end in range(1, len(keys) + 1)):
            self.note(f"{self.source.place(keys)}: {text}", combination)

    def note(self, line: str, combination: str = "") -> None:
        """Report a problem, given with its place."""
        line = line if len(line) <= LONGEST else f"{line[:LONGEST]} …"
        if line not in self.told:
            self.told.add(line)
            self.found.append(f"{line} (In {combination}.)" if combination else line)

    def parsed(
        self, schema: type[T], data: Any, keys: Sequence[str | int], combination: str = "",
        places: Places | None = None, known: Container[str] = (),
    ) -> T:  # fmt: skip
        """Return `data` as `schema`, after reporting every problem; invalid settings of the result are unreadable.

        `combination` is named if it is invalid as a whole although each setting is valid. `places` says where
        problems are reported, by default inside of `keys`; what is wrong with the whole and in `known` is not.
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
        errors = [one for one in errors if not one["loc"] or one["loc"][0] not in inner]
        names = {field.alias or name: name for name, field in schema.model_fields.items()}
        invalid = {names.get(str(one["loc"][0]), "") for one in errors if one["loc"]} - {""}
        found = partial(schema, data, invalid | {*inner})
        vars(found).update(inner)
        whole = dict.fromkeys(objections(schema, found))
        errors = [one for one in errors if one["loc"] or one["msg"].partition(", ")[2] not in whole]
        errors += [
            {"type": "value_error", "loc": (), "msg": text, "input": {}} for text in whole if text not in known
        ]
        self._report(errors, schema, places, combination)
        return found

    def _inner(self, schema: type[BaseModel], data: Any, places: Places) -> Any:
        """Return a mapping inside of settings, or a list of such, as `parsed` does."""
        if isinstance(data, Mapping):
            return self.parsed(schema, data, (), places=places)
        return tuple(self.parsed(schema, one, (), places=_inside(places, number)) for number, one in enumerate(data))

    def _report(
        self, errors: Iterable[ErrorDetails], schema: type[BaseModel], places: Places, combination: str
    ) -> None:
        """Report errors: all shapes that a value may have as one, none of a value with an error inside."""
        groups: dict[tuple[Keys, str], list[ErrorDetails]] = {}
        for one in errors:
            keys = places(one["loc"])
            if keys is not None:
                way = self._known((*keys, "grid") if combination and not one["loc"] else keys)
                apart = "" if one["type"] in SHAPES else repr((one["type"], one["loc"], one["msg"]))
                groups.setdefault((way, apart), []).append(one)
        for (way, apart), several in groups.items():
            others = [other for other, distinct in groups if len(other) > len(way) or (distinct and not apart)]
            if apart or not any(other[: len(way)] == way for other in others):
                self.add(way, sentence(several, schema, way), "" if several[0]["loc"] else combination)

    def _known(self, keys: Keys) -> Keys:
        """Return the keys that lead to a value in the file, without others such as the alternative of a union."""
        way: Keys = ()
        for key in keys:
            way = (*way, key) if (*way, key) in self.source.places else way
        return way

    def text(self) -> str:
        """Return all problems as one text, in the order of the file."""
        return "\n".join(listing(self.found))


def listing(found: Iterable[str]) -> list[str]:
    """Return the first problems in the order of the file, and their number if there are several."""
    lines = sorted(found, key=_by_place)
    count = f"{len(lines):,} problems{f', the first {MOST} shown' if len(lines) > MOST else ''}."
    return [*lines[:MOST], *([count] if len(lines) > 1 else [])]


def _by_place(line: str) -> tuple[int, int, str]:
    place = PLACE.search(line)
    return (int(place[1]), int(place[2]), line) if place else (0, 0, line)


def _inside(places: Places, name: str | int) -> Places:
    return lambda inside: places((name, *inside))


def _inner_mappings(
    schema: type[BaseModel], data: Any, errors: Iterable[ErrorDetails]
) -> list[tuple[str, type[BaseModel]]]:
    """Return the settings with errors inside that are mappings of one kind, or lists of such, with their classes."""
    wrong = {str(one["loc"][0]) for one in errors if len(one["loc"]) > 1}
    found = []
    for name, one in schema.model_fields.items():
        kinds = [kind for kind in get_args(one.annotation) or (one.annotation,) if kind not in (NoneType, ...)]
        shape = list if get_origin(one.annotation) in (list, tuple) else Mapping
        is_one = len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
        if is_one and name in wrong and isinstance(data.get(name), shape):
            found.append((name, kinds[0]))
    return found
