"""Check `claims:`: whether every value exists, and whether every claim can be tested."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import inf, isfinite

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, TRAINING_AXES
from bench_core.suites.check import needs_scores
from bench_core.suites.grids import gathered
from bench_core.suites.names import Names, join_names
from bench_reports.language.claim_proofs import truth
from bench_reports.language.expressions import QUANTIFIER, Query, Term, read
from bench_reports.language.figure_schema import TRAINING_COSTS
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim
from bench_reports.language.table_names import grids_of
from placed_settings import Unreadable


def check_claims(names: Names) -> None:
    """Report every claim that is not a valid expression over values of the suite."""
    claims = language(names.suite).claims
    names.unlike("claims", "claim", claims)
    names.each("claims", claims, (_Claims(names).check,))


@dataclass
class _Claims:
    """Checks that claims are valid expressions over values of the suite."""

    names: Names

    def check(self, names: Names, keys: list[str | int], claim: Claim) -> None:
        """Report every problem with a claim."""
        self._check_expression([*keys, "assert"], claim.expression)
        for premise, condition in claim.requires.items():
            self._check_expression([*keys, "requires", premise], condition)

    def _check_expression(self, keys: list[str | int], text: str) -> None:
        names, expression = self.names, read(text)
        for problem in expression.problems:
            names.problems.add(keys, problem)
        before = len(names.problems.messages)
        named: dict[Query, Query] = {}
        for query in expression.queries:
            with suppress(Unreadable):
                problem, named[query] = self._resolve(query)
                for text in [problem] if problem else self._problems(named[query], keys):
                    names.problems.add(keys, text)
        if expression.term is None or len(names.problems.messages) > before or len(named) < len(expression.queries):
            return
        for check in (self._without_range, self._equalities, self._quantifiers):
            with suppress(Unreadable):
                for problem in check(expression.term, named):
                    names.problems.add(keys, problem)
        if len(names.problems.messages) == before:
            for problem in self._constants(self._normalize(expression.term, named)):
                names.problems.add(keys, problem)

    def _without_range(self, term: Term, named: Mapping[Query, Query]) -> Iterator[str]:
        """Yield a problem for each metric without declared bounds."""
        for metric in dict.fromkeys(query.metric for query in named):
            config = self.names.suite.metrics.get(metric)
            if config is not None and config.bounds() is None:
                yield (
                    f"metric {metric!r} declares no bounds, so a claim about it cannot be checked. "
                    f"Make `bounds` of {type(config).__name__} return the lowest and the highest possible score."
                )

    def _equalities(self, term: Term, named: Mapping[Query, Query]) -> Iterator[str]:
        """Yield a problem for each == or != between measured numbers; only counts can be equal."""
        for comparison in term.walk():
            queries = [part.query for part in comparison.walk() if part.query]
            if comparison.operation in ("==", "!=") and not all(self._is_count(query.metric) for query in queries):
                left, right = comparison.parts
                sides = [part for part in comparison.parts if part.operation != "number" or part.number]
                difference = str(sides[0]) if len(sides) == 1 else f"abs({left} - {right})"
                bound = f"{difference} {'<' if comparison.operation == '==' else '>'} 1"
                yield (
                    f"`{left} {comparison.operation} {right}`: no test can show that measured numbers are equal, and "
                    f"a difference may be negligible. Claim a bound, such as `{bound}`."
                )

    def _is_count(self, metric: str) -> bool:
        config = self.names.suite.metrics.get(metric)
        return metric not in TRAINING_COSTS and (config is None or config.is_count())

    def _quantifiers(self, term: Term, named: Mapping[Query, Query]) -> Iterator[str]:
        """Yield a problem for each quantifier over a single training run, or over values of different runs."""
        for quantifier in term.walk():
            if quantifier.operation == QUANTIFIER:
                queries = dict.fromkeys(part.query for part in quantifier.walk() if part.query)
                cells = {query: matches[0] for query in queries if (matches := self._matching(named[query]))}
                trainings = {query: tuple(cell[axis] for axis in TRAINING_AXES) for query, cell in cells.items()}
                first = next(iter(trainings), None)  # None if a profile excludes all of them
                other = next((query for query in trainings if trainings[query] != trainings[first or query]), None)
                if first and other:
                    yield (
                        f"{QUANTIFIER} compares values of the same weights, but {first} and {other} come from "
                        f"different training runs ({_unlike(trainings[first], trainings[other])}). "
                        f"To compare training runs, omit {QUANTIFIER}."
                    )
                elif first:
                    yield from self._one_training(quantifier, cells[first])

    def _one_training(self, term: Term, cell: Mapping[str, str]) -> Iterator[str]:
        """Yield a problem if a model is untrained, or has one seed that neither a profile nor `--seeds` set."""
        suite, model = self.names.suite, cell["model"]
        entry = suite.models[model].at(cell["task"])
        fewer = suite.profile is not None or any(argument.startswith("seeds=") for argument in suite.asked)
        if not entry.training.trains:
            yield f"`{term}`: model {model!r} is not trained, so it has no training runs. Omit {QUANTIFIER}."
        elif len(entry.config.seeds(suite.seeds)) < 2 and not fewer:
            yield f"`{term}`: {QUANTIFIER} over a single training run has no effect. Set `seeds: 3`, or omit it."

    def _constants(self, term: Term) -> Iterator[str]:
        """Yield a problem if a claim is true, or false, for all scores within the bounds of its metrics."""
        bounds = dict.fromkeys(TRAINING_COSTS, (0.0, inf))
        bounds |= {name: limits for name, config in self.names.suite.metrics.items() if (limits := config.bounds())}
        metrics = dict.fromkeys(node.query.metric for node in term.walk() if node.query)
        known = tuple((name, bounds[name]) for name in metrics if name in bounds)
        answer = _truth(term, known)
        if answer is not None:
            ranges = ", ".join(f"{name} {_range(*limits)}" for name, limits in known)
            yield (
                f"this is {str(answer).lower()} for all scores within the bounds of its metrics ({ranges}). Claim "
                "something that measurements could either support or refute."
            )

    def _normalize(self, term: Term, named: Mapping[Query, Query]) -> Term:
        """Return an expression in which equal cells have equal axes."""
        cells = self._matching(named[term.query]) if term.query else []
        if not cells or not term.query:
            return replace(term, parts=tuple(self._normalize(part, named) for part in term.parts))
        axes = [(axis, cells[0][axis]) for axis in AXES[:-1] if axis in self._axes(term.query.metric)]
        return replace(term, query=Query(term.query.metric, tuple(axes), term.query.chosen))

    def _resolve(self, query: Query) -> tuple[str, Query]:
        """Return the problem, if any, with a query that uses `chosen`, and the query with a possible chosen name."""
        if not query.chosen:
            return "", query
        choices = {entry.id: entry for entry in language(self.names.suite).choose if hasattr(entry, "id")}
        if query.chosen not in choices:
            hint = suggestion(query.chosen, [*choices], "Known, from `choose:`")
            return f"no choice of this suite is called {query.chosen!r}. {hint}", query
        choice, axes = choices[query.chosen], dict(query.axes)
        results = grids_of(choice, self.names.suite.grids)
        name = axes.get(choice.axis, next(iter(results)) if len(results) == 1 else "")
        if name not in results:
            what = f"{query} does not say which" if not name else f"choice {choice.id!r} has no result {name!r}"
            return (
                f"{what}: the results are {join_names([*results])}. Write `{choice.axis}={next(iter(results))!r}`.",
                query,
            )
        if choice.axis == "decoder" and "decoder" not in self._axes(query.metric):
            return f"{query}: a likelihood does not depend on the decoder. Leave out `chosen`.", query
        unknown = any(not self._exists(axis, name) for axis, name in query.axes if axis != choice.axis)
        for combination in results[name].combinations:
            concrete = {**axes, choice.axis: combination}
            place = {axis: concrete[axis] for axis in (*TRAINING_AXES, choice.axis) if axis in concrete}
            if unknown or self._matching(Query(choice.by, tuple({**place, "split": choice.split}.items()))):
                return "", Query(query.metric, tuple(concrete.items()))
        where = ", ".join(f"{axis} {axes[axis]!r}" for axis in TRAINING_AXES if axis in axes) or "this suite"
        return f"choice {choice.id!r} does not cover {where}: no cell has its {choice.by} on {choice.split}.", query

    def _problems(self, query: Query, keys: list[str | int]) -> list[str]:
        """Return the problems with a query; a cell excluded by a profile or `--set skip` is not a problem."""
        names = [("metric", query.metric), *query.axes]
        if unknown := [(axis, name) for axis, name in names if not self._exists(axis, name)]:
            for axis, name in unknown:
                self.names.note_removed(keys, axis, name)
            return [text for axis, name in unknown for text in self._unknown_name(axis, name)]
        cells = self._matching(query)
        if not cells:
            left_out = f"{query} has no value: the suite skips every matching cell."
            return [] if self.names.suite.profile or "skip" in self.names.suite.changes else [left_out]
        models = self.names.suite.models
        together = (models[cell["model"]].at(cell["task"]).training.vmap_seeds for cell in cells)
        if query.metric in TRAINING_COSTS and any(together):
            text = "vmapped seeds share one training cost, which cannot be tested. Leave `vmap_seeds` out."
            return [f"{query}: {text}"]
        values = {axis: list(dict.fromkeys(cell[axis] for cell in cells)) for axis in self._axes(query.metric)}
        return [
            f"{query} does not say which {axis}: {join_names(several)}. Add one, such as `{axis}={several[0]!r}`."
            for axis, several in values.items()
            if len(several) > 1
        ]

    def _exists(self, axis: str, name: str) -> bool:
        with suppress(Unreadable):
            return name in (*self.names.names(axis), *(TRAINING_COSTS if axis == "metric" else ()))
        return True

    def _unknown_name(self, axis: str, name: str) -> list[str]:
        """Return the problems with a name that no cell has."""
        grids, known = self.names.suite.grids, self.names.names(axis)
        if name.startswith("cost."):
            return [f"no training cost is called {name!r}. {suggestion(name, [*TRAINING_COSTS])}"]
        if axis == "model" and name in grids:
            combination = next(iter(grids[name].combinations), name)
            return [f"model {name!r} is a grid. Name one of its combinations, such as {combination!r}."]
        among = [decoder for choice in language(self.names.suite).choose for decoder in choice.decoders.get(name, ())]
        if axis == "decoder" and among:
            return [f"decoder {name!r} is the result of a choice. Name a decoder, such as {among[0]!r}."]
        if name in self.names.whole.get(f"{axis}s", ()):
            return []
        return [f"no {axis} of this suite is called {name!r}. {suggestion(name, gathered(known, grids))}"]

    def _matching(self, query: Query) -> list[Mapping[str, str]]:
        """Return the cells that have the value of a query, without their seeds."""
        wanted, skips = dict(query.axes).items(), self.names.suite.skip
        cells = (cell for cell in self._cells if wanted <= cell.items())
        return [cell for cell in cells if not any(skip.covers(**cell, metric=query.metric) for skip in skips)]

    @cached_property
    def _cells(self) -> list[Mapping[str, str]]:
        names = [self.names.names(axis) or [""] for axis in AXES[:-1]]
        cells: Iterator[Mapping[str, str]] = (dict(zip(AXES, cell, strict=False)) for cell in product(*names))
        return [cell for cell in cells if self.names.fits(cell["model"], cell["decoder"])]

    def _axes(self, metric: str) -> list[str]:
        """Return the axes that a metric depends on; a likelihood does not depend on the decoder."""
        if metric in TRAINING_COSTS:
            return [*TRAINING_AXES]
        metrics = self.names.suite.metrics
        scored = metric in metrics and needs_scores(metrics, metric)
        return [axis for axis in AXES[:-1] if not (scored and axis == "decoder")]


@lru_cache(maxsize=1024)  # profiles of a suite share claims
def _truth(term: Term, bounds: tuple[tuple[str, tuple[float, float]], ...]) -> bool | None:
    return truth(term, dict(bounds))


def _unlike(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """Return the names in which two training runs differ."""
    pairs = zip(TRAINING_AXES, ours, theirs, strict=True)
    return "; ".join(f"{axis} {name!r} and {other!r}" for axis, name, other in pairs if name != other)


def _range(low: float, high: float) -> str:
    ends = [*([f"from {low:g}"] if isfinite(low) else []), *([f"to {high:g}"] if isfinite(high) else [])]
    return " ".join(ends)
