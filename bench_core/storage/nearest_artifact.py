"""Which stored artifact is the nearest to one that is not stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bench_core.registry import IN_SUITES
from bench_core.storage.recipes import Made, Recipe, Way, lacks_stages, may_be_in

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Shelf:
    """Stored artifacts of one kind, laid out so that the nearest to any is found at once, among thousands."""

    def __init__(self, stored: Sequence[tuple[float, Made]], asked: Iterable[Made]) -> None:
        """Lay out artifacts, each after the time when it was written, for what is to be asked."""
        self.stored = stored
        self.places = {made.key: place for place, (_, made) in enumerate(stored)}
        ways = dict.fromkeys(way for made in (*(made for _, made in stored), *asked) for way in made.all)
        self.rows = {way: row for row, way in enumerate(ways)}
        self.above = [self._above(way) for way in ways]
        self.settings = [row for way, row in self.rows.items() if way[1:2] == ("setting",)]
        self.parts = [row for way, row in self.rows.items() if way[1:] in {("setting", kind) for kind in IN_SUITES}]
        self.marks: dict[str, int] = {}  # numbers of marks; 0 stands for none
        self.table = np.zeros((len(ways), len(stored)), dtype=np.int32)  # [ways, artifacts]
        for place, (_, made) in enumerate(stored):
            self.table[:, place] = self._column(made.all)
        self.unknown = np.zeros(self.table.shape, dtype=np.bool_)  # whether they have it is not known
        for place, (_, made) in enumerate(stored):
            if lacks_stages(made.all):
                self.unknown[:, place] = [may_be_in(made.all, way) for way in ways]

    def _above(self, way: Way) -> list[int]:
        """Return the rows of all that a way lies in."""
        return [self.rows[way[:end]] for end in range(1, len(way)) if way[:end] in self.rows]

    def _column(self, recipe: Recipe) -> NDArray[np.int32]:
        column = np.zeros(len(self.rows), dtype=np.int32)
        for way, ingredient in recipe.items():
            column[self.rows[way]] = self.marks.setdefault(ingredient.mark, len(self.marks) + 1)
        return column

    def nearest(self, made: Made, related: Collection[str] = ()) -> Made | None:
        """Return the artifact, other than this one, that differs in the fewest ingredients.

        Those of the same parts come first; of several, one made from `related`, then one with the same settings, be
        it by other code, then the one written last.
        """
        if len(self.places) == (made.key in self.places):
            return None
        differs = self._differing(made.all)
        settings = differs[self.settings].sum(0)
        ranks = differs.sum(0) + len(self.rows) * differs[self.parts].sum(0)
        if made.key in self.places:
            ranks[self.places[made.key]] = ranks.max() + 1

        def preferred(place: int) -> tuple[int, int, float]:
            written, one = self.stored[place]
            return sum(key in related for _, key in one.inputs.values()), -int(settings[place]), written

        return self.stored[max(np.flatnonzero(ranks == ranks.min()).tolist(), key=preferred)][1]

    def _differing(self, recipe: Recipe) -> NDArray[np.bool_]:
        """Return which ingredients of each artifact `differences` would tell [ways, artifacts]."""
        different: NDArray[np.bool_] = (self.table != self._column(recipe)[:, None]) & ~self.unknown
        told = different.copy()
        several = set(np.flatnonzero(different.any(1)).tolist())
        for row in several:
            for above in several.intersection(self.above[row]):
                told[row] &= ~different[above]
        return told
