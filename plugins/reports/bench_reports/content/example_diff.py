"""Compares two cells example by example, from the artifacts in the store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from math import fsum, isclose, isfinite, isnan
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.data import Outcome, TaskInfo
from bench_core.errors import BenchError, PluginError
from bench_core.runs.provenance import recorded_part
from bench_core.runs.results import CellResult
from bench_core.storage.outcomes import References, read_lines, read_outcomes
from bench_reports.content.contrasts import Contrast, Pair
from bench_reports.content.sorting import seed_of
from bench_reports.statistics.permutation import Parts, permutation_p_value

if TYPE_CHECKING:
    from bench_core.storage.store import Store

Scores: TypeAlias = list[list[float]]  # by seed, of each example alone


@dataclass(frozen=True)
class Bucket:
    """The examples whose references have from `first` to `last` tokens, and both scores of them."""

    first: int
    last: int
    examples: int
    ours: float
    theirs: float


@dataclass(frozen=True)
class Example:
    """One example, what both cells make of it, and how that scores."""

    id: int
    seed: int
    ours: float
    theirs: float
    outputs: tuple[Outcome, Outcome] | None = None  # None where nothing is decoded


@dataclass(frozen=True)
class Evidence:
    """What a metric kept of the examples of two cells, seed by seed."""

    contrast: Contrast
    metric: Any
    parts: Sequence[tuple[Parts, Parts]]  # by seed
    ids: Sequence[int]
    lengths: Sequence[int]  # tokens of the references, stop included
    block: int

    def p_value(self, draws: int) -> float:
        """Return the p-value of the paired permutation test."""
        return permutation_p_value(self.metric, self.parts, draws, self.block)

    def wins(self) -> tuple[int, int, int] | None:
        """Return for how many examples A is better, both are equal, and B is better; means over seeds.

        Where neither way is better, for how many A's number is the higher. None if an example has no single number.
        """
        every = (part for pair in self.parts for parts in pair for part in parts)
        if any(type(part) not in (int, float) for part in every):
            return None
        sign = self.metric.better or 1
        pairs = zip(*(map(fmean, zip(*scores, strict=True)) for scores in self._alone()), strict=True)
        found = [0 if isclose(one, other, rel_tol=1e-12) else sign * (one - other) for one, other in pairs]
        return sum(one > 0 for one in found), sum(one == 0 for one in found), sum(one < 0 for one in found)

    def buckets(self, edges: Sequence[int] = ()) -> list[Bucket]:
        """Return both scores by the length of references: up to each edge, and above; by default, quartiles."""
        ends = sorted(dict.fromkeys([*(edges or quartiles(self.lengths)), max(self.lengths)]))
        places: list[list[int]] = [[] for _ in range(len(ends) + 1)]
        for place, length in enumerate(self.lengths):
            places[bisect_left(ends, length)].append(place)
        return [self._bucket(inside) for inside in places if inside]

    def _bucket(self, places: Sequence[int]) -> Bucket:
        lengths = [self.lengths[place] for place in places]
        scores = [
            [float(self.metric.combine([parts[place] for place in places])) for parts in pair] for pair in self.parts
        ]
        ours, theirs = map(fmean, zip(*scores, strict=True))
        return Bucket(min(lengths), max(lengths), len(places), ours, theirs)

    def apart(self, stored: StoredExamples, number: int) -> list[Example]:
        """Return the examples whose scores, each alone, are farthest apart in the mean over seeds.

        Of those alike, first those whose outputs differ; of each, the seed in which its scores are farthest apart.
        Examples with equal scores and equal outputs are left out.
        """
        ours, theirs = self._alone()
        found = []
        for place, example in enumerate(self.ids):
            by_seed = [_distance(one[place], other[place]) for one, other in zip(ours, theirs, strict=True)]
            seed = max(range(len(by_seed)), key=lambda one: abs(by_seed[one]))
            pair = self.contrast.pairs[seed]
            outputs = stored.outputs(pair, example)
            differ = outputs is not None and outputs[0].texts[0] != outputs[1].texts[0]
            distance = abs(fsum(by_seed))
            if distance or differ:
                one = Example(example, seed_of(pair[0]), ours[seed][place], theirs[seed][place], outputs)
                found.append(((-distance, not differ, example), one))
        return [one for _, one in sorted(found, key=lambda pair: pair[0])[:number]]

    def _alone(self) -> list[Scores]:
        """Return the score of each example by itself, of A and of B, by seed."""
        sides = zip(*self.parts, strict=True)
        return [[[float(self.metric.combine([part])) for part in parts] for parts in side] for side in sides]


@dataclass
class StoredExamples:
    """Reads from the store what is behind the numbers of a run, each artifact once."""

    store: Store
    read: dict[str, Sequence[Outcome]] = field(default_factory=dict)
    decoded: dict[str, Mapping[int, int]] = field(default_factory=dict)  # the places of examples

    def evidence(self, contrast: Contrast) -> Evidence:
        """Return what is stored of a metric of two cells; raise BenchError where it is not, or is of other code."""
        name = contrast.metric
        pairs = [[self._measured(one, name) for one in pair] for pair in contrast.pairs]
        metric, outcomes = pairs[0][0][:2]
        parts = [(ours[2], theirs[2]) for ours, theirs in pairs]
        for pair, both in zip(contrast.pairs, parts, strict=True):
            for cell, own in zip(pair, both, strict=True):
                _check_score(metric, own, float(cell.numbers[name].value or 0))
        ids, lengths = [one.id for one in outcomes], [one.target_tokens for one in outcomes]
        if any([one.id for one in seen[1]] != ids for pair in pairs for seen in pair):
            raise PluginError("they are of different examples, by what is stored")
        block = max(one.numbers[name].block for pair in contrast.pairs for one in pair)
        return Evidence(contrast, metric, parts, ids, lengths, block)

    def _measured(self, cell: CellResult, name: str) -> tuple[Any, Sequence[Outcome], Sequence[Any]]:
        """Return the metric as it was, the outcomes that it saw, and what it kept."""
        artifact = self.store.get("measure", cell.artifacts.get(f"measure/{name}", "none"))
        ingredients = artifact.manifest["ingredients"]
        outcomes = self.outcomes(*ingredients["inputs"]["outcomes"])
        facts = TaskInfo(**self.store.kept(*ingredients["inputs"]["task"]).json("facts.json"))
        config = recorded_part("metric", ingredients)
        metric = config.load()(config)
        metric = metric.prepare(facts, References(outcomes))
        return metric, outcomes, read_lines(artifact.file("parts.jsonl.gz"))

    def outcomes(self, kind: str, key: str) -> Sequence[Outcome]:
        """Return stored outcomes."""
        if key not in self.read:
            self.read[key] = read_outcomes(self.store.get(kind, key).file("outcomes.jsonl.gz"))
        return self.read[key]

    def outputs(self, pair: Pair, example: int) -> tuple[Outcome, Outcome] | None:
        """Return what both cells made of an example, or None where that is not stored."""
        ours, theirs = (self._decoded(one, example) for one in pair)
        return (ours, theirs) if ours and theirs and ours.texts and theirs.texts else None

    def _decoded(self, cell: CellResult, example: int) -> Outcome | None:
        key = cell.artifacts.get("decode", "")
        if key not in self.decoded:
            there = key and self.store.has("decode", key)
            found = self.outcomes("decode", key) if there else ()
            self.decoded[key] = {one.id: place for place, one in enumerate(found)}
        place = self.decoded[key].get(example)
        return None if place is None else self.read[key][place]


def tried(stored: StoredExamples, contrast: Contrast) -> Evidence | str:
    """Return what is stored of a metric of two cells, or why it cannot be used."""
    try:
        return stored.evidence(contrast)
    except BenchError as error:
        return str(error)
    except Exception as error:  # whatever a metric of a plugin raises
        return f"{contrast.metric} cannot read what it kept: {error}"


def _check_score(metric: Any, parts: Parts, value: float) -> None:
    """Raise PluginError unless a metric makes of its parts the number that the run has."""
    found = float(metric.combine(parts))
    if not isclose(found, value, rel_tol=1e-6, abs_tol=1e-9) and not (isnan(found) and isnan(value)):
        raise PluginError(
            f"the installed metric makes {found} of what it kept, and the run says {value}: its code has changed. "
            "Run the suite again."
        )


def quartiles(lengths: Sequence[int]) -> list[int]:
    """Return the three lengths up to which a quarter, half and three quarters of all are, if not a little more."""
    ordered = sorted(lengths)
    return [ordered[max(0, -(-len(ordered) * quarter // 4) - 1)] for quarter in (1, 2, 3)]


def marked(ours: str, theirs: str) -> str:
    """Return two texts as one: what only the first has as `[-a-]`, what only the second has as `{+b+}`.

    By words, or by characters where neither text has any blank and they are not ASCII.
    """
    blank = " " if f"{ours}{theirs}".isascii() or any(len(text.split()) > 1 for text in (ours, theirs)) else ""
    one, other = (text.split() if blank else [*text] for text in (ours, theirs))
    return blank.join(_marked(one, other, blank))


def _marked(one: Sequence[str], other: Sequence[str], blank: str) -> Iterator[str]:
    for kind, start, end, first, last in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind == "equal":
            yield blank.join(one[start:end])
            continue
        gone = f"[-{blank.join(one[start:end])}-]" if end > start else ""
        come = f"{{+{blank.join(other[first:last])}+}}" if last > first else ""
        yield gone + come


def _distance(one: float, other: float) -> float:
    """Return how far apart two scores are; 0 where that is undefined."""
    return one - other if isfinite(one - other) else 0.0
