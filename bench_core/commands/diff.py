"""`bench diff RUN A B`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from bench_core.commands import options

if TYPE_CHECKING:
    from bench_core.reporting.contrasts import Contrast, Couple
    from bench_core.reporting.evidence import Bucket, Evidence, Example, Shelf
    from bench_core.results import CellResult, Run


class Lengths(click.ParamType[tuple[int, ...]]):
    """Lengths that grow, such as 10,20,40."""

    name = "LENGTHS"
    pattern: ClassVar[re.Pattern[str]] = re.compile(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        found = tuple(map(int, value.split(","))) if self.pattern.fullmatch(value) else ()
        if not found or [*found] != sorted(set(found)):
            self.fail(f"{value!r} is no list of lengths that grow, such as 10,20,40.", param, ctx)
        return found


@dataclass(frozen=True)
class Difference:
    """All that is told of two cells."""

    sides: tuple[Mapping[str, Any], Mapping[str, Any]]  # the axes of A and of B, all seeds as a list
    contrasts: Sequence[Contrast]
    permutations: Mapping[str, float] = field(default_factory=dict)  # p-value by metric
    wins: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    buckets: Mapping[str, Sequence[Bucket]] = field(default_factory=dict)
    by: str = ""  # the metric by which examples were chosen
    examples: Sequence[Example] = ()
    notes: Sequence[str] = ()


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("a")
@click.argument("b")
@options.store
@click.option("--draws", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Of permutations.")
@click.option("--buckets", type=Lengths(), help="Lengths of references that end buckets [default: quartiles].")
@click.option("--examples", type=click.IntRange(0), default=5, show_default=True, help="How many are shown.")
@click.option("--by", metavar="METRIC", help="What examples must differ in [default: the first metric of outputs].")
@options.as_json
def command(
    run: Path,
    a: str,
    b: str,
    store: Path,
    draws: int,
    buckets: tuple[int, ...] | None,
    examples: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Compare cells A and B of RUN, such as `model=lstm,decoder=greedy` and `model=lstm,decoder=beam`.

    Axes that have one name may be left out, and names may be cut short; without a seed, all seeds are compared.
    """
    from bench_core.reporting.contrasts import contrasts, couples_of, one_sided
    from bench_core.reporting.evidence import Shelf
    from bench_core.results import read_run
    from bench_core.store import Store

    found = read_run(run)
    sides = seeds_of(found, a), seeds_of(found, b)
    couples = couples_of(*sides)
    compared = contrasts(found, couples)
    _check_metrics(compared, by, sides)
    told = Difference(_axes(couples), compared, notes=[*_lone(one_sided(couples, compared)), *_seeds(sides, couples)])
    told = looked_into(told, Shelf(Store(store)), draws, buckets or (), examples, by)
    click.echo(json.dumps(plain(run, told), indent=1, ensure_ascii=False) if as_json else text(told, draws))


def seeds_of(run: Run, filters: str) -> list[CellResult]:
    """Return the seeds of the one cell that passes every `axis=name`; raise SuiteError if there is none, or more."""
    from bench_core.commands.show import chosen
    from bench_core.errors import SuiteError
    from bench_core.reporting.order import name_on, ordered
    from bench_core.schema import AXES, Axis

    cells = ordered(run)

    def names_on(axis: Axis) -> list[str]:
        return list(dict.fromkeys(name_on(one, axis) or "none" for one in cells))

    for word in re.split(r"[,\s]+(?=\w+=)", filters.strip(", ")):
        given, equals, name = word.partition("=")
        if not equals:
            raise SuiteError(f"{word!r} does not choose a cell. Write AXIS=NAME, such as model=lstm.")
        axis: Axis = chosen("axis", given, list(AXES))  # type: ignore[assignment]
        name = chosen(axis, name, names_on(axis))
        cells = [one for one in cells if (name_on(one, axis) or "none") == name]
    open_axes = [f"{axis} ({', '.join(names)})" for axis in AXES[:-1] if len(names := names_on(axis)) > 1]
    if open_axes:
        raise SuiteError(f"several cells match {filters!r}. Choose by {', '.join(open_axes)}.")
    return cells


def _check_metrics(compared: Sequence[Contrast], by: str | None, sides: Sequence[Sequence[CellResult]]) -> None:
    """Raise SuiteError where there is nothing to compare, or not that by which examples are to be chosen."""
    from bench_core.errors import SuiteError
    from bench_core.registry import suggestion
    from bench_core.reporting.order import cell_name

    names = [one.metric for one in compared]
    if not names:
        states = "; ".join(
            f"{cell_name(one.cell)} is {one.status}" + (f" ({one.reason})" if one.reason else "")
            for side in sides
            for one in side
        )
        raise SuiteError(f"no metric has a number in both cells: {states}.")
    if by is not None and by not in names:
        raise SuiteError(f"no metric that both cells have is called {by!r}. {suggestion(by, names)}")


def _axes(couples: Sequence[Couple]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    ours, theirs = (
        {**couples[0][side].cell, "seed": [couple[side].cell.get("seed") for couple in couples]} for side in (0, 1)
    )
    return ours, theirs


def _lone(names: Sequence[str]) -> list[str]:
    return [f"Only one of both cells has {', '.join(names)}."] if names else []


def _seeds(sides: tuple[Sequence[CellResult], Sequence[CellResult]], couples: Sequence[Couple]) -> list[str]:
    """Say which seeds are left out, since only one of both cells has them."""
    left = [len(side) - len(couples) for side in sides]
    return [f"Seeds that only one of both has are left out: {sum(left)}."] if any(left) else []


def looked_into(
    told: Difference, shelf: Shelf, draws: int, edges: Sequence[int], examples: int, by: str | None
) -> Difference:
    """Add what the examples tell, as far as the store has them; say why where it has not."""
    from bench_core.reporting.evidence import Texts, tried

    known: dict[str, Evidence] = {}
    reasons: dict[str, list[str]] = {}
    for one in told.contrasts:
        found = tried(shelf, one) if one.paired else None
        if isinstance(found, str):
            reasons.setdefault(found, []).append(one.metric)
        elif found is not None:
            known[one.metric] = found
    notes = [
        f"From the run alone, without its examples: {', '.join(names)} ({why})" for why, names in reasons.items()
    ]
    blocks = {name: f"blocks of {one.block} examples" for name, one in known.items() if one.block > 1}
    notes += _by_reason("examples continue each other, and are exchanged in", blocks)
    chosen = by or _telling(known)
    return replace(
        told,
        permutations={name: one.p_value(draws) for name, one in known.items()},
        wins={name: won for name, one in known.items() if (won := one.wins())},
        buckets={
            name: several
            for name, one in known.items()
            if len(several := one.buckets(edges)) > 1 or (edges and several)
        },
        by=chosen if chosen in known else "",
        examples=known[chosen].apart(Texts(shelf), examples) if examples and chosen in known else (),
        notes=[*told.notes, *notes],
    )


def _telling(known: Mapping[str, Evidence]) -> str:
    """Return the first metric of outputs that says which way is better; or the first of them, or of all."""
    ranked = sorted(known, key=lambda name: (_of_likelihood(known[name]), not known[name].metric.better))
    return ranked[0] if ranked else ""


def _of_likelihood(one: Evidence) -> bool:
    return bool(one.contrast.number.kind)


def plain(run: Path, told: Difference) -> Any:
    """Return a difference as JSON data."""
    from bench_core.reporting.report import json_data

    return json_data(
        {
            "run": str(run),
            "a": told.sides[0],
            "b": told.sides[1],
            "metrics": [_as_json(told, one) for one in told.contrasts],
            "buckets": [
                {"metric": name, **_lettered(vars(bucket))}
                for name, found in told.buckets.items()
                for bucket in found
            ],
            "examples": [_example_as_json(told.by, one) for one in told.examples],
            "notes": [*told.notes],
        }
    )


def _as_json(told: Difference, one: Contrast) -> dict[str, Any]:
    won = told.wins.get(one.metric)
    return {
        "metric": one.metric,
        "unit": one.number.unit,
        "better": one.number.better,
        "signature": one.number.signature,
        "seeds": one.ours.n,
        "examples": one.number.examples,
        "a": one.ours.mean,
        "b": one.theirs.mean,
        "difference": one.difference,
        "interval": one.interval,
        "p_bootstrap": one.p,
        "p_sacrebleu": one.koehn,
        "p_permutation": told.permutations.get(one.metric),
        "wins": dict(zip(("a", "ties", "b"), won, strict=True)) if won else None,
        "note": _why(one),
    }


def _lettered(values: Mapping[str, Any]) -> dict[str, Any]:
    names = {"ours": "a", "theirs": "b"}
    return {names.get(name, name): value for name, value in values.items()}


def _example_as_json(by: str, one: Example) -> dict[str, Any]:
    from bench_core.reporting.evidence import cut, marked

    about = {"metric": by, "id": one.id, "seed": one.seed, "a": one.ours, "b": one.theirs}
    if one.outputs is None:
        return about
    ours, theirs = (output.texts[0] for output in one.outputs)
    given = {"prompt": one.outputs[0].prompt, "references": one.outputs[0].references}
    return {**about, **given, "outputs": [ours, theirs], "marked": marked(cut(ours), cut(theirs))}


def _why(one: Contrast) -> str:
    return one.unlike or one.unpaired or one.untested


def text(told: Difference, draws: int) -> str:
    """Return a difference for a terminal."""
    from tabulate import tabulate

    from bench_core.reporting.markup import visible

    lines = [f"{letter}: {visible(_name(side))}" for letter, side in zip("AB", told.sides, strict=True)]
    headings = [
        "metric", "A", "B", "A - B", "95 % interval",
        "p (bootstrap)", "as sacrebleu", "p (permutation)", "win/tie/loss",
    ]  # fmt: skip
    rows = [_row(told, one) for one in told.contrasts]
    lines += ["", tabulate(rows, headings, disable_numparse=True), *map(visible, _footnotes(told, draws))]
    if told.buckets:
        headings = ["by length of the reference", "tokens", "examples", "A", "B", "A - B"]
        lines += ["", tabulate(_bucket_rows(told), headings, disable_numparse=True)]
    for one in told.examples:
        lines += ["", *map(visible, _example(told, one))]
    return "\n".join(lines)


def _name(side: Mapping[str, Any]) -> str:
    from bench_core.reporting.order import cell_name

    seeds = ", ".join(map(str, side["seed"]))
    axes = {axis: name for axis, name in side.items() if axis != "seed"}
    return f"{cell_name(axes)}, seed{'s' if len(side['seed']) > 1 else ''} {seeds}"


def _row(told: Difference, one: Contrast) -> list[str]:
    from bench_core.reporting.markup import rounded, summarized, visible

    digits = one.number.digits
    arrow = {1: " ↑", -1: " ↓"}.get(one.number.better, "")
    unit = f", {one.number.unit}" if one.number.unit else ""
    ends = [rounded(end, digits) for end in one.interval or ()]
    chances = [_chance(p) for p in (one.p, one.koehn, told.permutations.get(one.metric))]
    won = "/".join(f"{count:,}" for count in told.wins.get(one.metric, ()))
    return [
        visible(f"{one.metric}{unit}{arrow}"),
        summarized(one.ours, digits),
        summarized(one.theirs, digits),
        _signed(one.difference, digits),
        f"[{', '.join(ends)}]" if ends else "",
        *chances,
        won,
    ]


def _signed(value: float | None, digits: int) -> str:
    from bench_core.reporting.markup import rounded

    if value is None:
        return "–"
    found = rounded(value, digits)
    return f"+{found}" if value > 0 and found.strip("0.") else found


def _chance(p: float | None) -> str:
    """Return a p-value with three digits after the point, or two that count where it is smaller."""
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.001 or p == 0 else f"{p:.1e}"


def _footnotes(told: Difference, draws: int) -> list[str]:
    tested = [one for one in told.contrasts if one.p is not None]
    several = any(one.ours.n > 1 for one in tested)
    notes = [
        *_by_reason("not compared by pairs:", {one.metric: one.unlike or one.unpaired for one in told.contrasts}),
        *_by_reason("no paired bootstrap:", {one.metric: one.untested for one in told.contrasts}),
    ]
    if tested:
        over = (
            "examples nested in seeds" if several else "examples; another training is not in it, as there is one seed"
        )
        notes.append(f"Paired bootstrap over {over}: to either side, and one-sided as sacrebleu counts it.")
    if told.permutations:
        at_once = ", in all seeds at once: of these trainings, not of others" if several else ""
        notes.append(f"Paired permutation test: {draws:,} exchanges of examples between A and B{at_once}.")
    if told.wins:
        notes.append(
            "Win/tie/loss: examples for which A is better, neither, B; where no way is better, A's is higher."
        )
    if len(tested) > 1:
        notes.append(f"Each p-value is of one comparison, not corrected for the {len(tested)} that are made here.")
    return [*notes, *told.notes]


def _by_reason(what: str, reasons: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with all the metrics that it holds for."""
    found = {why: [name for name in reasons if reasons[name] == why] for why in reasons.values() if why}
    return [f"{', '.join(names)}: {what} {why}." for why, names in found.items()]


def _bucket_rows(told: Difference) -> list[list[str]]:
    from bench_core.reporting.markup import rounded, visible

    digits = {one.metric: one.number.digits for one in told.contrasts}
    return [
        [
            visible(name),
            str(one.first) if one.first == one.last else f"{one.first:,} to {one.last:,}",
            f"{one.examples:,}",
            rounded(one.ours, digits[name]),
            rounded(one.theirs, digits[name]),
            _signed(one.ours - one.theirs, digits[name]),
        ]
        for name, found in told.buckets.items()
        for one in found
    ]


def _example(told: Difference, one: Example) -> list[str]:
    from bench_core.reporting.evidence import cut, marked
    from bench_core.reporting.markup import rounded

    digits = next(found.number.digits for found in told.contrasts if found.metric == told.by)
    scores = f"{told.by} {rounded(one.ours, digits)} and {rounded(one.theirs, digits)}"
    lines = [f"example {one.id}, seed {one.seed}: {scores}"]
    if one.outputs is None:
        return lines
    first = one.outputs[0]
    ours, theirs = (cut(output.texts[0]) for output in one.outputs)
    given = {"prompt": cut(first.prompt), "reference": cut(first.references[0]) if first.references else ""}
    found = {**given, "A": ours, "B": theirs, "A to B": marked(ours, theirs)}
    return [*lines, *(f"  {name}: {words}" for name, words in found.items() if words or name in "AB")]
