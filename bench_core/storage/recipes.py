"""What artifacts are made of, ingredient by ingredient, and what tells two of them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from bench_core.planning.path_settings import MARKED

Way: TypeAlias = tuple[str, ...]  #: stage, sort and name, as in `("train", "setting", "training", "lr")`

#: Settings that all stages of a cell share, and their sorts.
SHARED = {"seed": "seed", "device": "hardware", "precision": "hardware", "threads": "hardware"}

#: What the stages that read an artifact call it.
INPUTS = {"prepare": "task", "together": "training", "train": "training", "decode": "outputs", "score": "scores"}

#: Kinds whose settings are those of another, so that what differs in both is told once.
TAKEN_FOR = {"together": "train"}


class Ingredient(NamedTuple):
    """What went into an artifact, as JSON."""

    text: str
    mark: str  # what two are told apart by: of a mapping or list its sort alone, what is in it stands below it


Recipe: TypeAlias = Mapping[Way, Ingredient]  #: ingredients by their ways; what is in another comes after it

KNOWN = Ingredient("null", "known")  #: of a stage, above its settings; where none are known, its key stands there


@dataclass(frozen=True)
class Made:
    """What went into an artifact, planned or stored."""

    key: str
    inputs: Mapping[str, tuple[str, str]]  # role -> kind and key
    own: Recipe  # of its stage alone
    all: Recipe  # with that of everything that it was made from


@dataclass(frozen=True)
class Difference:
    """An ingredient that two recipes do not share, as JSON; None where one of them has none."""

    way: Way
    before: str | None
    now: str | None

    @property
    def what(self) -> str:
        """Return its sort: setting, data, code, library, seed, hardware, scheme (of keys) or input."""
        return self.way[1] if len(self.way) > 1 else "input"

    @property
    def name(self) -> str:
        """Return its name among those of its sort, such as `training.lr`."""
        return ".".join(self.way[2:]) or noun(self.way[0])

    @property
    def text(self) -> str:
        """Return it in words, such as `training.lr: 0.1 -> 0.2`."""
        match self.what:
            case "input":
                gone = self._became(" that is no longer stored")
                return f"made from {self._became('another', 'some', 'no')} {self.name}{gone}"
            case "scheme":
                return "the scheme of keys changed"
            case "code":
                return f"code of {self.name} {self._became('changed', 'takes part now', 'no longer takes part')}"
            case "data":
                return f"data {self.name}: {self._became('other content', 'read now', 'no longer read')}"
        if self._is_file(self.before) and self._is_file(self.now):
            return f"{self.name}: other content"
        separator = " " if self.what == "library" else ": "
        return f"{self.name}{separator}{shown(self.before)} -> {shown(self.now)}"

    def _is_file(self, text: str | None) -> bool:
        return text is not None and MARKED.fullmatch(str(json.loads(text))) is not None

    def _became(self, other: str, new: str = "", gone: str = "") -> str:
        return new if self.before is None else gone if self.now is None else other


def noun(kind: str) -> str:
    """Return what the stages that read an artifact call it, such as `training`."""
    return INPUTS.get(kind, kind)


def shown(text: str | None, longest: int = 60) -> str:
    """Return JSON as a suite would say it: words without quotes, and of what has a name that alone."""
    if text is None:
        return "(none)"
    value = json.loads(text)
    value = (_declared(value) or value) if isinstance(value, Mapping) else value
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return words if len(words) <= longest else f"{words[: longest - 3]}..."


def recipe(ingredients: Mapping[str, Any]) -> dict[Way, Ingredient]:
    """Return the ingredients of a stage, but for its inputs and the scheme of its key."""
    kind = TAKEN_FOR.get(str(ingredients["kind"]), str(ingredients["kind"]))
    found: dict[Way, Ingredient] = {(kind,): KNOWN}
    for name, value in ingredients["settings"].items():
        if name in SHARED:
            found["", SHARED[name], name] = whole(value)
        elif name in ("data", "files") and isinstance(value, Mapping):  # digests
            found.update(((kind, "data", str(file)), whole(digest)) for file, digest in value.items())
        elif name == "initial":
            found.update([((kind, "data", "initial weights"), whole(value))] if value else [])
        else:
            found.update(_flat((kind, "setting", name), value))
    for sort, section in (("code", "code"), ("library", "libraries")):
        found.update((("", sort, name), whole(value)) for name, value in ingredients[section].items())
    return found


def whole(value: Any) -> Ingredient:
    """Return a value as one ingredient."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return Ingredient(text, text)


def _flat(way: Way, value: Any) -> Iterator[tuple[Way, Ingredient]]:
    """Yield a value, then what is in it; one that declares itself by a name or kind is another if that differs."""
    several = isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value)
    if not several and not isinstance(value, Mapping):
        yield way, whole(value)
        return
    yield way, Ingredient(whole(value).text, f"list of {len(value)}" if several else f"mapping {_declared(value)}")
    for name, item in enumerate(value) if several else value.items():
        yield from _flat((*way, str(name)), item)


def _declared(value: Mapping[str, Any]) -> str:
    return next((value[key] for key in ("name", "kind") if isinstance(value.get(key), str)), "")


def differences(before: Recipe, now: Recipe) -> list[Difference]:
    """Return what differs between two recipes; where something is another thing, nothing of what is in it."""
    found: dict[Way, Difference] = {}
    partial = lacks_stages(before)
    for way in dict.fromkeys([*now, *before]):
        one, other = before.get(way), now.get(way)
        differs = (one and one.mark) != (other and other.mark) and not (partial and may_be_in(before, way))
        if differs and not any(way[:end] in found for end in range(1, len(way))):
            found[way] = Difference(way, one and one.text, other and other.text)
    return list(found.values())


def lacks_stages(one: Recipe) -> bool:
    """Return whether something that an artifact was made from is not known."""
    return any(len(way) == 1 and ingredient.mark != KNOWN.mark for way, ingredient in one.items())


def may_be_in(one: Recipe, way: Way) -> bool:
    """Return whether an ingredient that a recipe lacks may be of one of the stages that it lacks."""
    return way not in one and way[:1] not in one
