"""Converts the arguments of `evaluate` to the data of a suite file, and records which argument each value is from."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from bench_core.config import Config
from bench_core.errors import SuiteError
from bench_core.suites.grids import spelled
from bench_notebook.adhoc_parts import INTERFACES, AdHocParts, name_candidates, name_of
from placed_settings import MOST_LEVELS, NO_LETTER, Keys, Located

SUITE = "notebook"  #: the name of the suite
AS_WRITTEN = "as-written"  #: the name of the decoder for prompt functions
ADVICE: Mapping[str, str] = {
    "task": "the name of an installed task, its settings, a Config, or a Task",
    "model": "the name of an installed model, its settings, a Config, a Model class, a Model that is a module, or a "
    "function that returns a text for each prompt of a list",
    "decoder": "the name of an installed decoder, its settings, a Config, or a Decoder",
    "metric": "the name of an installed metric, its settings, a Config, a Metric, or a function of an output and its "
    "references that returns a number",
}
MAX_QUOTED_CHARACTERS = 60  #: maximum length of values quoted in messages


@dataclass
class Arguments(Located):
    """The data of a suite without a file; messages name arguments, such as `evaluate(decoders[1].width)`."""

    names: dict[Keys, str] = field(default_factory=dict)  # section and name of a part -> its argument

    def place(self, keys: Sequence[str | int]) -> str:
        """Return the argument of the value at `keys`."""
        path = tuple(keys)
        first = self.names.get(path[:2])
        inner = path[1:] if first is None else path[2:] if path[2:] != ("name",) else ()
        inside = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in inner)
        return f"{self.path}({first or (path[0] if path else '')}{inside})"


@dataclass
class ArgumentReader:
    """Reads the arguments of a call and collects their problems."""

    adhoc: AdHocParts
    source: Arguments = field(default_factory=lambda: Arguments("evaluate", {}))

    def either(self, kind: str, single: Any, several: Any) -> None:
        """Read at least one part of a kind, from exactly one of two arguments."""
        if (single is None) == (several is None):
            self._wrong(kind, f"pass either `{kind}` or `{kind}s`{'' if single is None else ', not both'}.")
        else:
            argument, value = (kind, single) if several is None else (f"{kind}s", several)
            known = len(self.source.problems)
            self.parts(kind, argument, value)
            if not self.source.data.get(f"{kind}s") and known == len(self.source.problems):
                self._wrong(argument, f"pass at least one {kind}.")
        if not self.source.data.get(f"{kind}s"):
            self.put(f"{kind}s", {})
            self.source.unread.add((f"{kind}s",))  # already reported

    def parts(self, kind: str, argument: str, value: Any) -> None:
        """Read a part, a list of parts, or a mapping of names to parts into the section of their kind."""
        entries: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for place, name, part in self._several(kind, argument, value):
            if (entry := self._entry(kind, part, place)) is not None:
                entries[place] = name or self._name(part, entry), entry
        section: dict[str, Any] = {}
        for place, name in _unique_names(entries).items():
            section[name] = entries[place][1]
            self.source.names[f"{kind}s", name] = place
        self.put(f"{kind}s", section)

    def add_decoder_of_functions(self) -> None:
        """Add the decoder for prompt functions if any model is a prompt function."""
        if entry := self.adhoc.decoder_of_functions():
            known = self.source.data.get("decoders") or {}
            name = next(candidate for candidate in name_candidates(AS_WRITTEN) if candidate not in known)
            self.source.data["decoders"] = {**known, name: entry}
            self.source.names["decoders", name] = "models"

    def _several(self, kind: str, argument: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        """Yield the place of each part, its name (empty by default), and the part."""
        if isinstance(value, Mapping) and not isinstance(value.get("name"), str):
            yield from ((f"{argument}[{name!r}]", str(name), part) for name, part in value.items())
        elif isinstance(value, list | tuple) and not _is_data(kind, value):
            yield from ((f"{argument}[{place}]", "", part) for place, part in enumerate(value))
        else:
            yield argument, "", value

    def put(self, name: str, value: Any) -> None:
        """Read a value as plain data into a section of the suite, unless the value is None."""
        if value is not None:
            try:
                self.source.put((name,), plain(value), "")
            except SuiteError as error:
                self._wrong(name, str(error))

    def _entry(self, kind: str, value: Any, place: str) -> dict[str, Any] | None:
        """Return the settings of a part as in a suite, or None after reporting a problem."""
        try:
            entry: dict[str, Any] = plain(self._part(kind, value))
            return entry
        except SuiteError as error:
            self._wrong(place, str(error))
            return None

    def _part(self, kind: str, value: Any) -> Any:
        """Return the settings of a part, registering it first if it is not installed."""
        interface, base = INTERFACES[kind]
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping):
            return value
        if isinstance(value, base):
            return self.adhoc.config(kind, value)
        if isinstance(value, type) and issubclass(value, base):
            return {"name": self.adhoc.config_class(kind, value)}
        if isinstance(value, type) and issubclass(value, interface):
            return {"name": self.adhoc.part_class(kind, value)}
        if isinstance(value, interface):
            return self._object_settings(kind, value)
        if callable(value) and kind == "metric" and not isinstance(value, type | Config):
            return {"name": self.adhoc.function(value)}
        if callable(value) and kind == "model" and not isinstance(value, type | Config) and not _is_module(value):
            return {"name": self.adhoc.text_function(value)}
        raise SuiteError(f"expected {ADVICE[kind]}; found {_description(value)}.{_hint(kind, value)}")

    def _object_settings(self, kind: str, value: Any) -> dict[str, Any]:
        """Return the settings of a part passed as an object."""
        if kind != "model":
            return self.adhoc.instance(kind, value)
        from torch import nn

        if not isinstance(value, nn.Module):
            raise SuiteError(
                f"{type(value).__name__} is a Model without weights. Inherit from torch.nn.Module as well."
            )
        return self.adhoc.module(value)

    def _name(self, value: Any, entry: Mapping[str, Any]) -> str:
        """Return the suite name of a part passed without a name."""
        if isinstance(value, str | Mapping | Config):
            return str(entry.get("name"))
        is_built = isinstance(value, tuple(interface for interface, _ in INTERFACES.values()))
        return name_of(type(value) if is_built else value)

    def _wrong(self, place: str, text: str) -> None:
        self.source.problems.append(f"{self.source.path}({place}): {text}")


def plain(value: Any) -> Any:
    """Convert settings to the plain data of suite files; raise SuiteError if that is impossible."""
    try:
        text = json.dumps(value, default=_as_data)
    except (TypeError, ValueError, RecursionError) as error:
        raise SuiteError(f"settings must be plain data, as in a suite file ({error}).") from None
    data = json.loads(text)
    for item, depth in _nested_values(data):
        if depth > MOST_LEVELS:
            raise SuiteError(f"settings are nested more than {MOST_LEVELS} levels deep.")
        if isinstance(item, str) and (odd := NO_LETTER.search(item)):
            raise SuiteError(f"{odd[0]!r} is an invalid character. Remove it.")
    return data


def _as_data(value: Any) -> Any:
    """Convert a value that JSON does not support; raise TypeError if that is impossible."""
    if isinstance(value, Config):
        return {"name": value.name, **value.model_dump(mode="json")}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range | set | frozenset):
        return sorted(value)
    if hasattr(value, "item") and not getattr(value, "shape", True):  # a NumPy scalar
        return value.item()
    raise TypeError(f"found {_description(value)}")


def _nested_values(value: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Yield all values and keys in nested data with their depths."""
    yield value, depth
    if isinstance(value, dict):
        yield from ((key, depth) for key in value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nested_values(item, depth + 1)


def _unique_names(entries: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return a unique name for each entry, by place; settings, then numbers, disambiguate duplicates."""
    names: dict[str, str] = {}
    for place, (name, entry) in entries.items():
        namesakes = [other for known, other in entries.values() if known == name]
        distinct = {key: value for key, value in entry.items() if any(other.get(key) != value for other in namesakes)}
        distinct = {key: value for key, value in distinct.items() if key not in ("name", "weights", "training")}
        base = f"{name}/{spelled(distinct, '/')}" if distinct else name
        names[place] = next(candidate for candidate in name_candidates(base) if candidate not in names.values())
    return names


def _is_data(kind: str, value: Sequence[Any]) -> bool:
    """Return whether a list holds the examples of a task rather than several tasks."""
    examples = (
        isinstance(example, tuple | list) or (isinstance(example, Mapping) and "name" not in example)
        for example in value
    )
    return kind == "task" and bool(value) and all(examples)


def _description(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value) if isinstance(value, bool | int | float | str | bytes | type(None)) else ""
    return text if text and len(text) <= MAX_QUOTED_CHARACTERS else f"an object of the class {type(value).__name__}"


def _hint(kind: str, value: Any) -> str:
    """Return advice on a value that is not a part."""
    for other, (interface, base) in INTERFACES.items():
        of_kind = (interface, base)
        if isinstance(value, of_kind) or (isinstance(value, type) and issubclass(value, of_kind)):
            return f" That is a {other}: pass it as `{other}s`."
    if kind == "task" and isinstance(value, list | tuple):
        return " Examples in memory are not a task: write them to a JSON lines file."
    if kind == "model" and _is_module(value):
        return " It is a module: also inherit from bench_core.kit.LanguageModel or another Model."
    return ""


def _is_module(value: Any) -> bool:
    return hasattr(value, "state_dict")
