"""YAML files as plain data that remembers the line and column of each value."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import ConstructorError, DuplicateKeyError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from bench_core.errors import SuiteError

Keys: TypeAlias = tuple[str | int, ...]  #: the way from the root of a file to a value

MOST_VALUES, MOST_LEVELS = 200_000, 40  # aliases can make a small file endless
MOST_BYTES = 2**24  #: of a file
LARGEST = 2**63 - 1  #: whole number, as far from 0
NO_LETTER = re.compile("[\0\ud800-\udfff]")
TOO_MUCH = "too many values or levels (a recursive alias?)"


@dataclass
class Located:
    """The content of a YAML file as plain data, with the place of every value."""

    path: str
    data: dict[str, Any]
    places: dict[Keys, str] = field(default_factory=dict)  # "line:column" or "--set", of each value

    def place(self, keys: Sequence[str | int]) -> str:
        """Return `file:line:column` of the value at `keys`, or of the closest enclosing one."""
        for end in range(len(keys), 0, -1):
            if tuple(keys[:end]) in self.places:
                return f"{self.path}:{self.places[tuple(keys[:end])]}"
        return f"{self.path}:1:1"

    def overlay(self, other: Mapping[str, Any], origin: Keys) -> None:
        """Merge a mapping into this one; None removes a mapping, one with a name or kind replaces it.

        Its values are at `origin` in the file.
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
        """Set a value."""
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
        """Record the places inside a value that was set as a whole."""
        inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inside:
            self.places[*keys, key] = place or self.places.get((*origin, *keys, key), "1:1")
            self._replaced(item, (*keys, key), origin, place)


def read(path: Path) -> Located:
    """Read a YAML 1.2 file whose root is a mapping; raise SuiteError with file, line and column."""
    return parse(content(path), str(path))


def content(path: Path) -> str:
    """Return the text of a file; raise SuiteError if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SuiteError(f"{path}: cannot be read ({reason}). Give the path of a suite file.") from None
    if len(text) > MOST_BYTES:
        raise SuiteError(f"{path}: larger than {MOST_BYTES:,} bytes. Give the path of a suite file.")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SuiteError(f"{path}:{line}:1: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def parse(text: str, path: str = "<text>") -> Located:
    """Read YAML 1.2 text whose root is a mapping."""
    tree = _tree(text, path)
    if not isinstance(tree, CommentedMap):
        raise SuiteError(f"{path}:1:1: expected a mapping such as `suite: NAME`, found {_kind(tree)}.")
    found = Located(path, {})
    found.data = _Plain(found).mapping(tree, ())
    return found


class _Constructor(RoundTripConstructor):
    """Reports the place of an invalid value, such as `!!int x`, or of a recursive alias."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if node in self.recursive_objects:
            raise ConstructorError(None, None, "an alias inside its own anchor", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except MarkedYAMLError:
            raise
        except Exception:  # ValueError, KeyError, what not
            value = f"{node.value[:20]!r}" if isinstance(node.value, str) else "this"
            problem = f"{value} cannot be read as {str(node.tag).rpartition(':')[2]}"
            raise ConstructorError(None, None, problem, node.start_mark) from None


def _tree(text: str, path: str) -> Any:
    """Parse a text; raise SuiteError if it is not YAML."""
    reader = YAML(typ="rt", pure=True)
    reader.max_depth, reader.Constructor = MOST_LEVELS + 1, _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about anchors that are used again, and the like
            return reader.load(text)
    except DuplicateKeyError as error:
        raise SuiteError(f"{path}:{_mark(error)}: {_duplicate(error)}") from None
    except MarkedYAMLError as error:
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        if "maximum depth" in problem:
            raise SuiteError(f"{path}:{_mark(error)}: {TOO_MUCH}") from None
        raise SuiteError(f"{path}:{_mark(error)}: invalid YAML: {problem}.") from None
    except ReaderError as error:
        line, before = text.count("\n", 0, error.position), text.rfind("\n", 0, error.position)
        odd = f"{text[error.position]!r} is an invalid character. Remove it."
        raise SuiteError(f"{path}:{line + 1}:{error.position - before}: invalid YAML: {odd}") from None
    except Exception as error:  # the parser may raise anything, such as RecursionError
        told = " ".join(str(error).split()) or type(error).__name__
        raise SuiteError(f"{path}: invalid YAML: {told}.") from None


def scalar(text: str, origin: str = "--set") -> Any:
    """Parse one value as in a suite, such as `1e-3`, `true`, `[1, 2]` or a word."""
    found = parse(f"value: {text}", origin).data
    if [*found] != ["value"]:
        raise SuiteError(f"{origin}: expected one value, found several keys. Use one `--set` for each.")
    return found["value"]


def _merges(value: Any) -> bool:
    """Return whether a mapping is merged; one that names a part or a kind replaces the old one."""
    return isinstance(value, Mapping) and not any(isinstance(value.get(key), str) for key in ("name", "kind"))


@dataclass
class _Plain:
    """Converts the parser's tree to plain data, and records the place of each value."""

    found: Located
    seen: int = 0

    def mapping(self, tree: CommentedMap, keys: Keys) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in tree.items():
            name = self.name(key, keys)
            if name in found:  # such as 1 and "1"
                raise SuiteError(f"{self.found.place((*keys, name))}: {_twice(name)}")
            found[name] = self.child(tree, key, value, keys)
        return found

    def name(self, key: Any, keys: Keys) -> str:
        if isinstance(key, (str, int, float)) and not isinstance(key, bool):
            return str(self.value(key, keys))
        raise SuiteError(f"{self.found.place(keys)}: expected a string as a key, found {key!r}.")

    def child(self, tree: CommentedMap | CommentedSeq, key: Any, value: Any, keys: Keys) -> Any:
        here = (*keys, key if isinstance(tree, CommentedSeq) else str(key))
        try:
            line, column = tree.lc.item(key) if isinstance(tree, CommentedSeq) else tree.lc.key(key)
            self.found.places[here] = f"{line + 1}:{column + 1}"
        except (KeyError, TypeError, AttributeError):  # merged in by `<<`
            pass
        self.seen += 1
        if self.seen > MOST_VALUES or len(here) > MOST_LEVELS:
            raise SuiteError(f"{self.found.place(here)}: {TOO_MUCH}")
        return self.value(value, here)

    def value(self, value: Any, keys: Keys) -> Any:
        if isinstance(value, TaggedScalar) or getattr(getattr(value, "tag", None), "value", None):
            raise SuiteError(
                f"{self.found.place(keys)}: tags such as {value.tag.value!r} are not supported. Remove it."
            )
        if isinstance(value, CommentedMap):
            return self.mapping(value, keys)
        if isinstance(value, CommentedSeq):
            return [self.child(value, number, item, keys) for number, item in enumerate(value)]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and abs(value) > LARGEST:
            raise SuiteError(f"{self.found.place(keys)}: an integer may be at most {LARGEST:,}.")
        if isinstance(value, str):
            self.check_text(value, keys)
        for kind in (int, float, str):
            if isinstance(value, kind):
                return kind(value)
        raise SuiteError(f"{self.found.place(keys)}: {_kind(value)} is not a valid value. Quote it if it is text.")

    def check_text(self, text: str, keys: Keys) -> None:
        """Reject characters that no file and no file name can contain."""
        if odd := NO_LETTER.search(text):
            raise SuiteError(f"{self.found.place(keys)}: {odd[0]!r} is an invalid character. Remove it.")


def _mark(error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"


def _duplicate(error: DuplicateKeyError) -> str:
    key = str(error.problem).split('"')[1] if '"' in str(error.problem) else "a key"
    return _twice(key)


def _twice(key: str) -> str:
    return f"the key {key!r} appears twice in one mapping. Keep one."


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def as_yaml(data: Any) -> str:
    """Return plain data as YAML text; keys keep their order."""
    from io import StringIO

    from ruamel.yaml import YAML

    text = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style, writer.width, writer.sort_base_mapping_type_on_output = False, 10_000, False  # type: ignore[assignment]
    writer.dump(data, text)
    return text.getvalue()
