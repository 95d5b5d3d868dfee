"""Why stages are not stored: which ingredients of their keys differ, each told at the stage where it enters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_core.errors import StoreError
from bench_core.planning import keys
from bench_core.storage.nearest_artifact import Shelf
from bench_core.storage.recipes import Difference, Made, Recipe, differences, noun, recipe, whole

if TYPE_CHECKING:
    from pathlib import Path

    from bench_core.planning.plan import Plan
    from bench_core.planning.stages import Stage
    from bench_core.storage.recipes import Ingredient, Way
    from bench_core.storage.store import Store

FATES = {
    "failures": "it failed when it was last tried",
    "set-aside": "a damaged one was set aside",
    "unfinished": "it is being made, or was when a run was killed",
}  #: folders of the store, and what they tell of stages by the names of what lies in them
LETTERS = 12  #: of a key, in these names


@dataclass(frozen=True)
class Answer:
    """Why a stage is not stored, or why its key is not the recorded one."""

    stage: Stage
    recorded: str | None = None  # its key in a run
    nearest: str | None = None  # that of the artifact that it was compared with: the recorded one, or the nearest
    here: Sequence[Difference] = ()  # what enters at this stage
    there: Mapping[str, Sequence[Difference]] = field(default_factory=dict)  # what enters in inputs, by their kinds
    follows: Sequence[str] = ()  # kinds of the inputs whose differences were told of before
    fate: Path | None = None  # where the store holds what became of it
    all: frozenset[Difference] = frozenset()

    @property
    def cause(self) -> bool:
        """Return whether something enters here that was not told of before."""
        return bool(self.here or self.there)

    @property
    def reasons(self) -> list[str]:
        """Return the answer in words, a line each."""
        lines = [FATES[self.fate.parent.name]] if self.fate else []
        if self.nearest is None:
            return [*lines, "nothing like it is stored"]
        if self.cause and self.recorded not in (None, self.nearest):
            lines.append("the recorded one is no longer stored; compared with the nearest that is:")
        lines += [one.text for one in self.here]
        for kind, several in self.there.items():
            lines += [one.text if one.what == "input" else f"in its {noun(kind)}: {one.text}" for one in several]
        followed = " and ".join(f"its {noun(kind)}" for kind in self.follows)
        return [*lines, *([f"{followed} changed, see above"] if followed else [])]


def explain(plan: Plan, store: Store, asked: Mapping[str, str | None]) -> list[Answer]:
    """Return why some stages are not stored, inputs first.

    `asked` are their keys, each with the key that a run recorded in its place, or None.
    """
    explanation = Explanation(Origins(plan, store), asked, fates(store))
    for key, stage in plan.stages.items():
        if key in asked:
            explanation.told[key] = explanation.answer(stage)
    return list(explanation.told.values())


def fates(store: Store) -> dict[str, Path]:
    """Return what a store holds of stages that came to nothing, by the beginning of its name."""
    found = {}
    for folder in FATES:
        for path in (store.root / folder).glob("*-*"):
            kind, _, key = path.name.partition("-")
            found[f"{kind}-{key[:LETTERS]}"] = path
    return found


@dataclass
class Origins:
    """Knows what went into every artifact of a plan and of a store, and reads each manifest once."""

    plan: Plan
    store: Store
    known: dict[tuple[str, str], Made | None] = field(default_factory=dict)

    def of(self, kind: str, key: str) -> Made | None:
        """Return what went into an artifact, or None: it is not stored, or its manifest cannot be read."""
        if (kind, key) not in self.known:
            self.known[kind, key] = None  # should a damaged manifest name itself among its inputs
            with suppress(StoreError, KeyError, TypeError, ValueError, AttributeError):  # not ours to complain about
                self.known[kind, key] = self._made(key, self._ingredients(kind, key))
        return self.known[kind, key]

    def _ingredients(self, kind: str, key: str) -> Mapping[str, Any]:
        planned = self.plan.stages.get(key)
        found: Mapping[str, Any] = (
            planned.ingredients if planned else self.store.get(kind, key).manifest["ingredients"]
        )
        return found

    def _made(self, key: str, ingredients: Mapping[str, Any]) -> Made:
        scheme = keys.SCHEME if keys.key_of(ingredients) == key else "another"
        own = {**recipe(ingredients), ("", "scheme", "keys"): whole(scheme)}
        inputs = {role: (kind, made) for role, (kind, made) in ingredients["inputs"].items()}
        upstream: dict[Way, Ingredient] = {}
        for kind, made in inputs.values():
            upstream |= self.all_of(kind, made)
        return Made(key, inputs, own, {**upstream, **own})

    def all_of(self, kind: str, key: str) -> Recipe:
        """Return all that went into an artifact; of one that nothing is known of, its key."""
        found = self.of(kind, key)
        return found.all if found else {(kind,): whole(key)}

    def stored(self, kind: str) -> list[tuple[float, Made]]:
        """Return what went into every stored artifact of a kind, each after the time when it was written."""
        found = []
        for path in (self.store.root / kind).glob("*"):
            there = path.name not in self.plan.stages or self.store.has(kind, path.name)
            if there and (made := self.of(kind, path.name)):
                with suppress(OSError):  # it is being removed
                    found.append((path.stat().st_mtime, made))
        return found


@dataclass
class Explanation:
    """Compares stages with what is stored; each must come after those that it reads."""

    origins: Origins
    asked: Mapping[str, str | None]
    fates: Mapping[str, Path]
    told: dict[str, Answer] = field(default_factory=dict)  # so far, by the keys of stages
    shelves: dict[str, Shelf] = field(default_factory=dict)

    def answer(self, stage: Stage) -> Answer:
        """Return why a stage is not stored."""
        made, recorded = self._planned(stage.key), self.asked[stage.key]
        fate = self.fates.get(f"{stage.kind}-{stage.key[:LETTERS]}")
        fate = None if fate and self.origins.store.has(stage.kind, stage.key) else fate
        other = (recorded and self.origins.of(stage.kind, recorded)) or self._nearest(stage, made)
        if not other:
            return Answer(stage, recorded, fate=fate)
        there, follows, told = self._upstream(made, other)
        here = [one for one in differences(other.own, made.own) if one not in told]
        return Answer(
            stage, recorded, other.key, here, there, follows, fate, frozenset(differences(other.all, made.all))
        )

    def _planned(self, key: str) -> Made:
        made = self.origins.of(self.origins.plan.stages[key].kind, key)
        assert made is not None, "what went into a planned stage is known"
        return made

    def _nearest(self, stage: Stage, made: Made) -> Made | None:
        if stage.kind not in self.shelves:
            asked = [key for key in self.asked if self.origins.plan.stages[key].kind == stage.kind]
            self.shelves[stage.kind] = Shelf(self.origins.stored(stage.kind), map(self._planned, asked))
        compared = [self.told[key].nearest for _, key in stage.inputs.values() if key in self.told]
        related = {key for _, key in stage.inputs.values()}.union(key for key in compared if key)
        return self.shelves[stage.kind].nearest(made, related)

    def _upstream(self, made: Made, other: Made) -> tuple[dict[str, list[Difference]], list[str], set[Difference]]:
        """Return what differs in inputs by their kinds, the kinds of those that were told of, and all of that."""
        changed = {
            (kind, key): differences(self.origins.all_of(*other.inputs[role]), self.origins.all_of(kind, key))
            for role, (kind, key) in made.inputs.items()
            if other.inputs.get(role, (kind, key)) != (kind, key)
        }
        before = {key: self.told[key].all if key in self.told else frozenset() for _, key in changed}
        follows = [kind for (kind, key), found in changed.items() if before[key] and before[key] <= {*found}]
        told = {one for (kind, key) in changed if kind in follows for one in before[key]}
        there: dict[str, list[Difference]] = {}
        for (kind, _), found in changed.items():
            if new := [one for one in found if one not in told]:
                there[kind] = new
                told.update(new)
        return there, follows, told
