"""YAML files as plain data that remembers where each value stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from bench_core.errors import SuiteError

Keys: TypeAlias = tuple[str | int, ...]  #: the way from the root of a file to a value

MOST_VALUES, MOST_LEVELS = 200_000, 40  # aliases can make a small file endless


@dataclass
class Located:
    """The content of a YAML file: mappings, lists, strings, numbers, booleans and None, with their places."""

    path: str
    data: dict[str, Any]
    places: dict[Keys, str] = field(default_factory=dict)  # "line:column" or "--set", of each value

    def place(self, keys: Sequence[str | int]) -> str:
        """Return `file:line:column` of the value at `keys`, or of the nearest one around it."""
        for end in range(len(keys), 0, -1):
            if tuple(keys[:end]) in self.places:
                return f"{self.path}:{self.places[tuple(keys[:end])]}"
        return f"{self.path}:1:1"

    def overlay(self, other: Mapping[str, Any], origin: Keys) -> None:
        """Lay a mapping over this one, key by key; None takes a mapping away, one with a name or kind replaces it.

        Its values stand under `origin` in the file.
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
                self._replaced(value, (*keys, key), origin)

    def put(self, keys: tuple[str, ...], value: Any, place: str) -> None:
        """Put a value in the place of another, or where there is none."""
        inside = self.data
        for key in keys[:-1]:
            if not isinstance(inside.get(key), dict):
                inside[key] = {}
            inside = inside[key]
        inside[keys[-1]] = value
        for end in range(1, len(keys) + 1):
            self.places[keys[:end]] = place
        self._replaced(value, keys, (), place)

    def _replaced(self, value: Any, keys: Keys, origin: Keys, place: str = "") -> None:
        """Note the places inside a value that was put in whole."""
        inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inside:
            self.places[*keys, key] = place or self.places.get((*origin, *keys, key), "1:1")
            self._replaced(item, (*keys, key), origin, place)


def read(path: Path) -> Located:
    """Read a YAML 1.2 file whose root is a mapping; raise SuiteError with file, line and column."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SuiteError(f"{path}:{line}:1: this is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read ({error.strerror}). Give the path of a suite file.") from None
    return parse(text, str(path))


def parse(text: str, path: str = "<text>") -> Located:
    """Read YAML 1.2 text whose root is a mapping."""
    found = Located(path, {})
    try:
        tree = YAML(typ="rt", pure=True).load(text)
        if not isinstance(tree, CommentedMap):
            raise SuiteError(f"{path}:1:1: expected a mapping such as `suite: NAME`, found {_kind(tree)}.")
        found.data = _Plain(found).mapping(tree, ())
    except DuplicateKeyError as error:
        raise SuiteError(f"{path}:{_mark(error)}: {_duplicate(error)}") from None
    except MarkedYAMLError as error:
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise SuiteError(f"{path}:{_mark(error)}: this is not YAML: {problem}.") from None
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise SuiteError(f"{path}: this is not YAML: {' '.join(str(error).split())}.") from None
    return found


def scalar(text: str) -> Any:
    """Read one value as a suite would, such as `1e-3`, `true`, `[1, 2]` or a word."""
    return parse(f"value: {text}", "--set").data["value"]


def _merges(value: Any) -> bool:
    """Return whether a mapping changes another; one that names a part, or says its kind, declares it anew."""
    return isinstance(value, Mapping) and not any(isinstance(value.get(key), str) for key in ("name", "kind"))


@dataclass
class _Plain:
    """Turns the parser's tree into plain data, noting where each value stands."""

    found: Located
    seen: int = 0

    def mapping(self, tree: CommentedMap, keys: Keys) -> dict[str, Any]:
        return {self.name(key, keys): self.child(tree, key, value, keys) for key, value in tree.items()}

    def name(self, key: Any, keys: Keys) -> str:
        if isinstance(key, (str, int, float)) and not isinstance(key, bool):
            return str(key)
        raise SuiteError(f"{self.found.place(keys)}: a key must be a word, found {key!r}.")

    def child(self, tree: CommentedMap | CommentedSeq, key: Any, value: Any, keys: Keys) -> Any:
        here = (*keys, key if isinstance(tree, CommentedSeq) else str(key))
        try:
            line, column = tree.lc.item(key) if isinstance(tree, CommentedSeq) else tree.lc.key(key)
            self.found.places[here] = f"{line + 1}:{column + 1}"
        except (KeyError, TypeError, AttributeError):  # merged in by `<<`
            pass
        self.seen += 1
        if self.seen > MOST_VALUES or len(here) > MOST_LEVELS:
            raise SuiteError(
                f"{self.found.place(here)}: too many values or levels; is an alias inside its own anchor?"
            )
        return self.value(value, here)

    def value(self, value: Any, keys: Keys) -> Any:
        if isinstance(value, TaggedScalar) or getattr(getattr(value, "tag", None), "value", None):
            raise SuiteError(
                f"{self.found.place(keys)}: tags such as {value.tag.value!r} mean nothing here. Remove it."
            )
        if isinstance(value, CommentedMap):
            return self.mapping(value, keys)
        if isinstance(value, CommentedSeq):
            return [self.child(value, number, item, keys) for number, item in enumerate(value)]
        if value is None or isinstance(value, bool):
            return value
        for kind in (int, float, str):
            if isinstance(value, kind):
                return kind(value)
        raise SuiteError(
            f"{self.found.place(keys)}: {_kind(value)} is not a value for a suite. Quote it if it is text."
        )


def _mark(error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"


def _duplicate(error: DuplicateKeyError) -> str:
    key = str(error.problem).split('"')[1] if '"' in str(error.problem) else "a key"
    return f"the key {key!r} is given twice in one mapping. Keep one."


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
