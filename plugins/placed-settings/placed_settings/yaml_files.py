"""Reads YAML files as plain data with the line and column of each value."""

import re
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from placed_settings.errors import SettingsError
from placed_settings.yaml_messages import explain

Keys: TypeAlias = tuple[str | int, ...]  #: path from the root of a file to a value

MAX_VALUES, MOST_LEVELS = 200_000, 40  # aliases can expand a small file endlessly
MAX_FILE_BYTES = 2**24
MAX_INTEGER = 2**63 - 1  #: maximum absolute value of integers
NO_LETTER = re.compile("[\0\ud800-\udfff]")
STANDARD = "tag:yaml.org,2002:"
SCALARS = ("str", "int", "float", "bool", "null", "timestamp")
MERGE, MAPPING, SEQUENCE = f"{STANDARD}merge", f"{STANDARD}map", f"{STANDARD}seq"
TOO_MUCH = "too many values or levels (a recursive alias?)"


@dataclass
class Located:
    """The content of a YAML file as plain data, with the place of every value."""

    path: str
    data: dict[str, Any]
    places: dict[Keys, str] = field(default_factory=dict)  # "line:column" of each value, or another origin
    problems: list[str] = field(default_factory=list)  # messages with places of values that cannot be read
    unread: set[Keys] = field(default_factory=set)  # keys of values that cannot be read

    def place(self, keys: Sequence[str | int]) -> str:
        """Return `file:line:column` of the value at `keys`, or of the closest enclosing value.

        A list with one item may be written as that item.
        """
        known: Keys = ()
        for key in keys:
            if key != 0 or (*known, key) in self.places:
                known = (*known, key)
        for end in range(len(known), 0, -1):
            if known[:end] in self.places:
                return f"{self.path}:{self.places[known[:end]]}"
        return f"{self.path}:1:1"

    def overlay(self, other: Mapping[str, Any], origin: Keys) -> None:
        """Merge a mapping into this file; None removes a mapping, and a mapping with a name or kind replaces it.

        The values of `other` are at `origin` in the file.
        """
        self._overlay(self.data, other, (), origin)

    def _overlay(self, below: dict[str, Any], above: Mapping[str, Any], keys: Keys, origin: Keys) -> None:
        for key, value in above.items():
            self.places[*keys, key] = self.places.get((*origin, *keys, key), "1:1")
            if value is None and isinstance(below.get(key), dict):
                del below[key]
            elif _merges(value) and isinstance(below.get(key), dict):
                self._overlay(below[key], value, (*keys, key), origin)
            else:
                below[key] = value
                self._record_places(value, (*keys, key), origin)

    def put(self, keys: tuple[str, ...], value: Any, place: str) -> None:
        """Set the value at `keys`; `place` is its origin."""
        inside = self.data
        for key in keys[:-1]:
            if not isinstance(inside.get(key), dict):
                inside[key] = {}
            inside = inside[key]
        inside[keys[-1]] = value
        for end in range(1, len(keys) + 1):
            self.places[keys[:end]] = place
        self._record_places(value, keys, (), place)

    def remove(self, keys: Keys) -> None:
        """Remove a value of a mapping, or an item of a list that is a section of the file."""
        inside: Any = self.data
        for key in keys[:-1]:
            inside = inside[key]
        del inside[keys[-1]]
        number = keys[-1]
        if isinstance(number, int):  # later items move up
            section = keys[:-1]
            kept = {path: place for path, place in self.places.items() if path[: len(keys)] != keys}
            self.places = {_move_up(path, section, number): place for path, place in kept.items()}

    def _record_places(self, value: Any, keys: Keys, origin: Keys, place: str = "") -> None:
        """Record the places inside a value that was set as a whole."""
        inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inside:
            self.places[*keys, key] = place or self.places.get((*origin, *keys, key), "1:1")
            self._record_places(item, (*keys, key), origin, place)


def _move_up(keys: Keys, section: Keys, number: int) -> Keys:
    """Return the key path of a value, adjusted for the removal of item `number` from the list at `section`."""
    place = keys[len(section)] if len(keys) > len(section) and keys[: len(section)] == section else None
    behind = isinstance(place, int) and place > number
    return (*section, place - 1, *keys[len(section) + 1 :]) if isinstance(place, int) and behind else keys


def read(path: Path, tolerant: bool = False) -> Located:
    """Read a YAML 1.2 file whose root is a mapping; raise SettingsError with file, line and column.

    If `tolerant`, unreadable values are None and listed in `problems`; the file still must be YAML.
    """
    return parse(content(path), str(path), tolerant)


def content(path: Path) -> str:
    """Return the text of a file; raise SettingsError if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{path}: cannot be read ({reason}). Give the path of a YAML file.") from None
    if len(text) > MAX_FILE_BYTES:
        raise SettingsError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes. Give the path of a YAML file.")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}:1: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def parse(text: str, path: str = "<text>", tolerant: bool = False) -> Located:
    """Read YAML 1.2 text whose root is a mapping, like `read`."""
    try:
        parsed = _parse(text)
    except SettingsError as error:
        raise SettingsError(f"{path}{error}") from None
    problems = [f"{path}{problem}" for problem in parsed.problems]
    if problems and not tolerant:
        raise SettingsError("\n".join(problems))
    return Located(path, deepcopy(parsed.data), {**parsed.places}, problems, {*parsed.unread})  # callers modify it


@lru_cache(maxsize=64)  # files are read repeatedly
def _parse(text: str) -> Located:
    """Read YAML and record problems with values; raise SettingsError if it is not YAML or not a mapping.

    Problems and messages omit the path of the file.
    """
    reader = YAML(typ="safe", pure=True)
    root = _root(reader, text)
    if not isinstance(root, MappingNode):
        kind = "nothing" if root is None else "a list" if isinstance(root, SequenceNode) else "a value"
        raise SettingsError(f":1:1: expected a mapping such as `KEY: VALUE`, found {kind}.")
    nodes = _Nodes(Located("", {}), reader.constructor)
    nodes.located.data = nodes.mapping(root, ())
    return nodes.located


def _root(reader: YAML, text: str) -> Any:
    """Parse a text into a tree of nodes; raise SettingsError, without the path, if it is not YAML."""
    reader.max_depth = MOST_LEVELS + 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. on reused anchors
            return reader.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{_place(mark)}" if mark else ""
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise SettingsError(f"{place}: {TOO_MUCH if 'maximum depth' in problem else explain(error)}") from None
    except ReaderError as error:
        line, before = text.count("\n", 0, error.position), text.rfind("\n", 0, error.position)
        message = f"{text[error.position]!r} is an invalid character. Remove it."
        raise SettingsError(f":{line + 1}:{error.position - before}: invalid YAML: {message}") from None
    except Exception as error:  # the parser may raise anything, such as RecursionError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SettingsError(f": invalid YAML: {reason}.") from None


def scalar(text: str, origin: str) -> Any:
    """Return one value, such as `1e-3`, `true`, `[1, 2]` or a word; errors start with `origin`, such as `--set`."""
    data = parse(f"value: {text}", origin).data
    if [*data] != ["value"]:
        raise SettingsError(f"{origin}: expected one value, found several keys. Give one value.")
    return data["value"]


def _merges(value: Any) -> bool:
    """Return whether a mapping is merged; mappings with a name or kind replace the old value instead."""
    return isinstance(value, Mapping) and not any(isinstance(value.get(key), str) for key in ("name", "kind"))


@dataclass
class _Nodes:
    """Converts YAML nodes to plain data and records the place of each value."""

    located: Located
    scalars: Any  # constructor of scalars
    around: tuple[Any, ...] = ()  # nodes that contain the current node
    seen: int = 0

    def mapping(self, node: Any, keys: Keys) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, value in self.items(node):
            name = self.name(key, keys)
            if name in entries:  # such as 1 and "1"
                self.note(key, f"the key {name!r} appears twice in one mapping. Keep one.")
            elif name is not None:
                entries[name] = self.child(value, (*keys, name), key)
        return entries

    def items(self, node: Any) -> list[tuple[Any, Any]]:
        """Return the items of a mapping, followed by items merged with `<<`; its own keys take precedence."""
        pairs = [(key, value) for key, value in node.value if key.tag != MERGE]
        merged = [value for key, value in node.value if key.tag == MERGE]
        for mapping in (
            part for value in merged for part in (value.value if isinstance(value, SequenceNode) else [value])
        ):
            if not isinstance(mapping, MappingNode) or mapping in (node, *self.around):
                problem = (
                    "an alias inside its own anchor" if isinstance(mapping, MappingNode) else "<< merges mappings"
                )
                raise self.error(mapping, f"invalid YAML: {problem}.")
            known = {key.value for key, _ in pairs}
            pairs += [(key, value) for key, value in self.items(mapping) if key.value not in known]
        return pairs

    def name(self, node: Any, keys: Keys) -> str | None:
        """Return a key as text, or None if it is invalid."""
        known = len(self.located.problems)
        value = self.scalar(node) if isinstance(node, ScalarNode) else [] if isinstance(node, SequenceNode) else {}
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        if known == len(self.located.problems):
            self.note(node, f"expected text as a key, found {value!r}. Quote it.", keys)
        return None

    def child(self, node: Any, keys: Keys, place: Any) -> Any:
        self.located.places[keys] = _place(place.start_mark)
        self.seen += 1
        if node in self.around:
            raise self.error(node, "invalid YAML: an alias inside its own anchor.")
        if self.seen > MAX_VALUES or len(keys) > MOST_LEVELS:
            raise self.error(place, TOO_MUCH)
        if isinstance(node, ScalarNode):
            return self.scalar(node, keys)
        if node.tag not in (MAPPING, SEQUENCE):
            return self.note(node, f"tags such as {node.tag!r} are not supported. Remove the tag.", keys)
        self.around = (*self.around, node)
        if isinstance(node, MappingNode):
            content: Any = self.mapping(node, keys)
        else:
            content = [self.child(item, (*keys, number), item) for number, item in enumerate(node.value)]
        self.around = self.around[:-1]
        return content

    def scalar(self, node: Any, keys: Keys | None = None) -> Any:
        """Return the value of a scalar; None after recording a problem."""
        kind = str(node.tag).removeprefix(STANDARD)
        if kind not in SCALARS:
            return self.note(node, f"tags such as {node.tag!r} are not supported. Remove the tag.", keys)
        try:
            value = self.scalars.construct_object(node)
        except Exception:  # ValueError, KeyError, ...
            return self.note(node, f"invalid YAML: {node.value[:20]!r} cannot be read as {kind}.", keys)
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            return self.note(node, f"integers must be at most {MAX_INTEGER:,}.", keys)
        if isinstance(value, str) and (odd := NO_LETTER.search(value)):
            return self.note(node, f"{odd[0]!r} is an invalid character. Remove it.", keys)
        if value is not None and not isinstance(value, bool | int | float | str):
            return self.note(node, f"a {type(value).__name__} is not a valid value. Quote it if it is text.", keys)
        return value

    def note(self, node: Any, text: str, keys: Keys | None = None) -> None:
        """Record a value that cannot be read."""
        self.located.problems.append(str(self.error(node, text)))
        if keys:
            self.located.unread.add(keys)

    def error(self, node: Any, text: str) -> SettingsError:
        return SettingsError(f"{self.located.path}:{_place(node.start_mark)}: {text}")


def _place(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


def as_yaml(data: Any) -> str:
    """Return plain data as YAML text, with keys in their original order."""
    from io import StringIO

    text = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style, writer.width, writer.sort_base_mapping_type_on_output = False, 10_000, False  # type: ignore[assignment]
    writer.dump(data, text)
    return text.getvalue()
