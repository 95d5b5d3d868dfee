"""Checks of `claims:`: that every value they ask for exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES
from bench_core.suites.check import needs_scores
from bench_core.suites.expressions import Query, read
from bench_core.suites.grids import gathered
from bench_core.suites.names import Names, listed
from bench_core.suites.partial import Unreadable
from bench_core.suites.schema import Claim


def check_claims(names: Names) -> None:
    """Report every claim that is not a valid expression over values of the suite."""
    _Claims(names).check()


@dataclass
class _Claims:
    """Checks that claims are valid expressions over values of the suite."""

    names: Names

    def check(self) -> None:
        """Report every problem of a claim."""
        self.names.unlike("claims", "claim", self.names.suite.claims)
        self.names.each("claims", self.names.suite.claims, (self._check_claim,))

    def _check_claim(self, names: Names, keys: list[str | int], claim: Claim) -> None:
        self._check_expression(names, [*keys, "assert"], claim.expression)
        for premise, condition in claim.requires.items():
            self._check_expression(names, [*keys, "requires", premise], condition)

    def _check_expression(self, names: Names, keys: list[str | int], text: str) -> None:
        expression = read(text)
        for problem in expression.problems:
            names.problems.add(keys, problem)
        for query in expression.queries:
            with suppress(Unreadable):
                for problem in self._problems(query, keys):
                    names.problems.add(keys, problem)

    def _problems(self, query: Query, keys: list[str | int]) -> list[str]:
        """Return the problems of a query; a cell left out by a profile or `--set skip` is not a problem."""
        names = [("metric", query.metric), *query.axes]
        if unknown := [(axis, name) for axis, name in names if not self._is_known(axis, name)]:
            for axis, name in unknown:
                self.names.note_removed(keys, axis, name)
            return [text for axis, name in unknown for text in self._unknown(axis, name)]
        wanted = dict(query.axes).items()
        cells = [cell for cell in self._cells if wanted <= cell.items() and not self._skipped(cell, query.metric)]
        if not cells:
            left_out = f"{query} has no value: the suite skips every matching cell."
            return [] if self.names.suite.profile or "skip" in self.names.suite.changes else [left_out]
        found = {axis: list(dict.fromkeys(cell[axis] for cell in cells)) for axis in self._axes(query.metric)}
        return [
            f"{query} does not say which {axis}: {listed(several)}. Add one, such as `{axis}={several[0]!r}`."
            for axis, several in found.items()
            if len(several) > 1
        ]

    def _is_known(self, axis: str, name: str) -> bool:
        with suppress(Unreadable):
            return name in self.names.names(axis)
        return True

    def _unknown(self, axis: str, name: str) -> list[str]:
        """Return the message for a name that no cell has."""
        grids, known = self.names.suite.grids, self.names.names(axis)
        if axis == "model" and name in grids:
            one = next(iter(grids[name].combinations), name)
            return [f"model {name!r} is a grid. Name one of its combinations, such as {one!r}."]
        among = [one for choice in self.names.suite.choose for one in choice.decoders.get(name, ())]
        if axis == "decoder" and among:
            return [f"decoder {name!r} is the result of a choice. Name a decoder, such as {among[0]!r}."]
        if name in self.names.whole.get(f"{axis}s", ()):
            return []
        return [f"no {axis} of this suite is called {name!r}. {suggestion(name, gathered(known, grids))}"]

    @cached_property
    def _cells(self) -> list[Mapping[str, str]]:
        names = [self.names.names(axis) or [""] for axis in AXES[:-1]]
        cells: Iterator[Mapping[str, str]] = (dict(zip(AXES, cell, strict=False)) for cell in product(*names))
        return [cell for cell in cells if self.names.fits(cell["model"], cell["decoder"])]

    def _skipped(self, cell: Mapping[str, str], metric: str) -> bool:
        return any(skip.covers(**cell, metric=metric) for skip in self.names.suite.skip)

    def _axes(self, metric: str) -> list[str]:
        """Return the axes that a metric depends on; a likelihood does not depend on the decoder."""
        metrics = self.names.suite.metrics
        scored = metric in metrics and needs_scores(metrics, metric)
        return [axis for axis in AXES[:-1] if not (scored and axis == "decoder")]
