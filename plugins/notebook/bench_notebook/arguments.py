"""The arguments of `evaluate` as a suite: the data that a file would hold, and the argument that each value is of."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from bench_core.config import Config
from bench_core.errors import SuiteError
from bench_core.suites.grids import spelled
from bench_notebook.adhoc_parts import INTERFACES, AdHocParts, name_of, numbered
from placed_settings import MOST_LEVELS, NO_LETTER, Keys, Located

SUITE = "notebook"  #: what the suite is called
AS_WRITTEN = "as-written"  #: the decoder of functions of prompts
ADVICE: Mapping[str, str] = {
    "task": "the name of an installed task, its settings, a Config, or a Task",
    "model": "the name of an installed model, its settings, a Config, a class that is a Model, a module of one, or a "
    "function of a list of prompts that returns a text for each",
    "decoder": "the name of an installed decoder, its settings, a Config, or a Decoder",
    "metric": "the name of an installed metric, its settings, a Config, a Metric, or a function of an output and its "
    "references that returns a number",
}
LONGEST = 60  # characters of a value that is shown


@dataclass
class Arguments(Located):
    """The data of a suite that was never in a file; a place is an argument, such as `evaluate(decoders[1].width)`."""

    names: dict[Keys, str] = field(default_factory=dict)  # section and name of a part -> what was given for it

    def place(self, keys: Sequence[str | int]) -> str:
        """Return the argument that holds the value at `keys`."""
        way = tuple(keys)
        first = self.names.get(way[:2])
        rest = way[1:] if first is None else way[2:] if way[2:] != ("name",) else ()
        inside = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in rest)
        return f"{self.path}({first or (way[0] if way else '')}{inside})"


@dataclass
class Reader:
    """Reads the arguments of a call, and collects what is wrong with them."""

    adhoc: AdHocParts
    source: Arguments = field(default_factory=lambda: Arguments("evaluate", {}))

    def one_of(self, kind: str, single: Any, several: Any) -> None:
        """Read the parts of a kind that are given by either of two arguments, one at least."""
        if (single is None) == (several is None):
            self._wrong(kind, f"give either `{kind}` or `{kind}s`{'' if single is None else ', not both'}.")
        else:
            argument, given = (kind, single) if several is None else (f"{kind}s", several)
            known = len(self.source.problems)
            self.parts(kind, argument, given)
            if not self.source.data.get(f"{kind}s") and known == len(self.source.problems):
                self._wrong(argument, f"give at least one {kind}.")
        if not self.source.data.get(f"{kind}s"):
            self.put(f"{kind}s", {})
            self.source.unread.add((f"{kind}s",))  # nothing more is said of it

    def parts(self, kind: str, argument: str, given: Any) -> None:
        """Read one part, several of a list, or a mapping of names to parts, into the section of their kind."""
        entries: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for place, name, part in self._several(kind, argument, given):
            if (entry := self._entry(kind, part, place)) is not None:
                entries[place] = name or self._name(part, entry), entry
        section: dict[str, Any] = {}
        for place, name in _apart(entries).items():
            section[name] = entries[place][1]
            self.source.names[f"{kind}s", name] = place
        self.put(f"{kind}s", section)

    def add_decoder_of_functions(self) -> None:
        """Add the decoder that functions of prompts need, if models are such."""
        if entry := self.adhoc.decoder_of_functions():
            known = self.source.data.get("decoders") or {}
            name = next(one for one in numbered(AS_WRITTEN) if one not in known)
            self.source.data["decoders"] = {**known, name: entry}
            self.source.names["decoders", name] = "models"

    def _several(self, kind: str, argument: str, given: Any) -> Iterator[tuple[str, str, Any]]:
        """Yield the place of each part, its name if it is given, and the part."""
        if isinstance(given, Mapping) and not isinstance(given.get("name"), str):
            yield from ((f"{argument}[{name!r}]", str(name), part) for name, part in given.items())
        elif isinstance(given, list | tuple) and not _is_data(kind, given):
            yield from ((f"{argument}[{place}]", "", part) for place, part in enumerate(given))
        else:
            yield argument, "", given

    def put(self, name: str, value: Any) -> None:
        """Read plain data into a section of the suite; None is none."""
        if value is not None:
            try:
                self.source.put((name,), plain(value), "")
            except SuiteError as error:
                self._wrong(name, str(error))

    def _entry(self, kind: str, given: Any, place: str) -> dict[str, Any] | None:
        """Return the settings of a part as a suite has them; None after reporting why there are none."""
        try:
            entry: dict[str, Any] = plain(self._part(kind, given))
            return entry
        except SuiteError as error:
            self._wrong(place, str(error))
            return None

    def _part(self, kind: str, given: Any) -> Any:
        """Return the settings of a part, after adding it if no distribution provides it."""
        interface, base = INTERFACES[kind]
        if isinstance(given, str):
            return {"name": given}
        if isinstance(given, Mapping):
            return given
        if isinstance(given, base):
            return self.adhoc.config(kind, given)
        if isinstance(given, type) and issubclass(given, base):
            return {"name": self.adhoc.config_class(kind, given)}
        if isinstance(given, type) and issubclass(given, interface):
            return {"name": self.adhoc.part_class(kind, given)}
        if isinstance(given, interface):
            return self._built(kind, given)
        if callable(given) and kind == "metric" and not isinstance(given, type | Config):
            return {"name": self.adhoc.function(given)}
        if callable(given) and kind == "model" and not isinstance(given, type | Config) and not _is_module(given):
            return {"name": self.adhoc.text_function(given)}
        raise SuiteError(f"expected {ADVICE[kind]}; found {_found(given)}.{_hint(kind, given)}")

    def _built(self, kind: str, given: Any) -> dict[str, Any]:
        """Return the settings of a part that is an object."""
        if kind != "model":
            return self.adhoc.instance(kind, given)
        from torch import nn

        if not isinstance(given, nn.Module):
            raise SuiteError(f"{type(given).__name__} is a Model without weights. Inherit torch.nn.Module as well.")
        return self.adhoc.module(given)

    def _name(self, given: Any, entry: Mapping[str, Any]) -> str:
        """Return what a part is called in the suite that was given without a name."""
        if isinstance(given, str | Mapping | Config):
            return str(entry.get("name"))
        is_built = isinstance(given, tuple(one for one, _ in INTERFACES.values()))
        return name_of(type(given) if is_built else given)

    def _wrong(self, place: str, text: str) -> None:
        self.source.problems.append(f"{self.source.path}({place}): {text}")


def plain(value: Any) -> Any:
    """Return settings as the plain data that a suite file can hold; raise SuiteError if they are anything else."""
    try:
        text = json.dumps(value, default=_as_data)
    except (TypeError, ValueError, RecursionError) as error:
        raise SuiteError(f"settings are plain data, as in a suite file ({error}).") from None
    found = json.loads(text)
    for one, depth in _walked(found):
        if depth > MOST_LEVELS:
            raise SuiteError(f"settings have at most {MOST_LEVELS} levels.")
        if isinstance(one, str) and (odd := NO_LETTER.search(one)):
            raise SuiteError(f"{odd[0]!r} is an invalid character. Remove it.")
    return found


def _as_data(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does; raise TypeError for others."""
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
    if hasattr(value, "item") and not getattr(value, "shape", True):  # a number of numpy
        return value.item()
    raise TypeError(f"found {_found(value)}")


def _walked(value: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Yield all values inside of data, keys too, each with its depth."""
    yield value, depth
    if isinstance(value, dict):
        yield from ((key, depth) for key in value)
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walked(one, depth + 1)


def _apart(entries: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return the name of each entry by its place; those of one name are told apart by settings, else by number."""
    found: dict[str, str] = {}
    for place, (name, entry) in entries.items():
        alike = [other for known, other in entries.values() if known == name]
        own = {key: one for key, one in entry.items() if any(other.get(key) != one for other in alike)}
        own = {key: one for key, one in own.items() if key not in ("name", "weights", "training")}
        named = f"{name}/{spelled(own, '/')}" if own else name
        found[place] = next(one for one in numbered(named) if one not in found.values())
    return found


def _is_data(kind: str, given: Sequence[Any]) -> bool:
    """Return whether a list is one task, by its examples, rather than several tasks."""
    examples = (isinstance(one, tuple | list) or (isinstance(one, Mapping) and "name" not in one) for one in given)
    return kind == "task" and bool(given) and all(examples)


def _found(given: Any) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}"
    text = repr(given) if isinstance(given, bool | int | float | str | bytes | type(None)) else ""
    return text if text and len(text) <= LONGEST else f"an object of the class {type(given).__name__}"


def _hint(kind: str, given: Any) -> str:
    """Return what is known of a value that is no part."""
    for other, (interface, base) in INTERFACES.items():
        of_kind = (interface, base)
        if isinstance(given, of_kind) or (isinstance(given, type) and issubclass(given, of_kind)):
            return f" That is a {other}: give it as `{other}s`."
    if kind == "task" and isinstance(given, list | tuple):
        return " Examples in memory are no task yet: write them to a file of JSON lines."
    if kind == "model" and _is_module(given):
        return " It is a module: inherit from bench_core.kit.LanguageModel, or from another Model, as well."
    return ""


def _is_module(given: Any) -> bool:
    return hasattr(given, "state_dict")
