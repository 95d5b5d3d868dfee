"""Example-by-example comparison of two cells, from the artifacts in the store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from math import fsum, isclose, isfinite, isnan
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_core.data import Prediction, TaskInfo
from bench_core.errors import BenchError, PluginError
from bench_core.runs.provenance import recorded_part
from bench_core.runs.results import CellResult
from bench_core.storage.predictions import References, read_lines, read_predictions
from bench_reports.content.contrasts import Contrast, Pair
from bench_reports.content.sorting import seed_of
from bench_reports.statistics.permutation import Parts, permutation_p_value

if TYPE_CHECKING:
    from bench_core.storage.store import Store

Scores: TypeAlias = list[list[float]]  # [seeds, examples]


@dataclass(frozen=True)
class Bucket:
    """The examples whose references have `first` to `last` tokens, with the scores of both cells."""

    first: int
    last: int
    examples: int
    ours: float
    theirs: float


@dataclass(frozen=True)
class ScoredExample:
    """One example with the outputs and scores of both cells."""

    id: int
    seed: int
    ours: float
    theirs: float
    outputs: tuple[Prediction, Prediction] | None = None  # None if nothing was decoded


@dataclass(frozen=True)
class ExampleEvidence:
    """The stored parts of a metric for the examples of two cells, seed by seed."""

    contrast: Contrast
    metric: Any
    parts: Sequence[tuple[Parts, Parts]]  # by seed
    ids: Sequence[int]
    lengths: Sequence[int]  # tokens of the references, including EOS
    block: int

    def p_value(self, draws: int) -> float:
        """Return the p-value of the paired permutation test."""
        return permutation_p_value(self.metric, self.parts, draws, self.block)

    def wins(self) -> tuple[int, int, int] | None:
        """Return the numbers of examples on which A is better, both are equal, and B is better, by means over seeds.

        If the metric has no direction, the higher number counts as better. None if examples have no single number.
        """
        every = (part for pair in self.parts for parts in pair for part in parts)
        if any(type(part) not in (int, float) for part in every):
            return None
        sign = self.metric.better or 1
        pairs = zip(*(map(fmean, zip(*scores, strict=True)) for scores in self._alone()), strict=True)
        signs = [0 if isclose(ours, theirs, rel_tol=1e-12) else sign * (ours - theirs) for ours, theirs in pairs]
        return sum(gain > 0 for gain in signs), sum(gain == 0 for gain in signs), sum(gain < 0 for gain in signs)

    def buckets(self, edges: Sequence[int] = ()) -> list[Bucket]:
        """Return both cells' scores in buckets of reference length with upper `edges`, by default quartiles."""
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

    def apart(self, stored: StoredEvidence, number: int) -> list[ScoredExample]:
        """Return the examples whose scores differ most, by mean over seeds.

        Among ties, examples with different outputs come first. Each example has the seed with the largest difference.
        Examples with equal scores and equal outputs are left out.
        """
        ours, theirs = self._alone()
        ranked = []
        for place, example in enumerate(self.ids):
            distances = (a[place] - b[place] for a, b in zip(ours, theirs, strict=True))
            by_seed = [value if isfinite(value) else 0.0 for value in distances]
            seed = max(range(len(by_seed)), key=lambda index: abs(by_seed[index]))
            pair = self.contrast.pairs[seed]
            outputs = stored.outputs(pair, example)
            differ = outputs is not None and outputs[0].texts[0] != outputs[1].texts[0]
            distance = abs(fsum(by_seed))
            if distance or differ:
                scored = ScoredExample(example, seed_of(pair[0]), ours[seed][place], theirs[seed][place], outputs)
                ranked.append(((-distance, not differ, example), scored))
        return [scored for _, scored in sorted(ranked, key=lambda pair: pair[0])[:number]]

    def _alone(self) -> list[Scores]:
        """Return the per-example scores of A and of B, [seeds, examples] each."""
        sides = zip(*self.parts, strict=True)
        return [[[float(self.metric.combine([part])) for part in parts] for parts in side] for side in sides]


@dataclass
class StoredEvidence:
    """A reader of the stored artifacts behind the numbers of a run; each is read once."""

    store: Store
    read: dict[str, Sequence[Prediction]] = field(default_factory=dict)
    decoded: dict[str, Mapping[int, int]] = field(default_factory=dict)  # indices of examples, by key and id

    def evidence(self, contrast: Contrast) -> ExampleEvidence:
        """Return the stored evidence for a contrast; raise BenchError if it is missing or from different code."""
        name = contrast.metric
        key = f"measure/{name}"
        pairs = [[self.measurement(cell.artifacts.get(key, "none")) for cell in pair] for pair in contrast.pairs]
        metric, predictions = pairs[0][0][:2]
        parts = [(ours[2], theirs[2]) for ours, theirs in pairs]
        for pair, both in zip(contrast.pairs, parts, strict=True):
            for cell, stored in zip(pair, both, strict=True):
                _check_score(metric, stored, float(cell.numbers[name].value or 0))
        ids = [prediction.id for prediction in predictions]
        lengths = [prediction.target_tokens for prediction in predictions]
        if any([prediction.id for prediction in seen[1]] != ids for pair in pairs for seen in pair):
            raise PluginError("the stored examples differ")
        block = max(cell.numbers[name].block for pair in contrast.pairs for cell in pair)
        return ExampleEvidence(contrast, metric, parts, ids, lengths, block)

    def measurement(self, key: str) -> tuple[Any, Sequence[Prediction], Sequence[Any]]:
        """Return the metric with the settings of the run, the predictions that it scored, and its stored parts."""
        artifact = self.store.get("measure", key)
        ingredients = artifact.manifest["ingredients"]
        predictions = self.predictions(*ingredients["inputs"]["predictions"])
        info = TaskInfo(**self.store.find(*ingredients["inputs"]["task"]).json("task_info.json"))
        config = recorded_part("metric", ingredients)
        metric = config.load()(config).prepare(info, References(predictions))
        return metric, predictions, read_lines(artifact.file("parts.jsonl.gz"))

    def predictions(self, kind: str, key: str) -> Sequence[Prediction]:
        """Return stored predictions."""
        if key not in self.read:
            self.read[key] = read_predictions(self.store.get(kind, key).file("predictions.jsonl.gz"))
        return self.read[key]

    def outputs(self, pair: Pair, example: int) -> tuple[Prediction, Prediction] | None:
        """Return the outputs of both cells for an example; None if they are not stored."""
        ours, theirs = (self._output(cell, example) for cell in pair)
        return (ours, theirs) if ours and theirs and ours.texts and theirs.texts else None

    def _output(self, cell: CellResult, example: int) -> Prediction | None:
        key = cell.artifacts.get("decode", "")
        if key not in self.decoded:
            available = key and self.store.has("decode", key)
            predictions = self.predictions("decode", key) if available else ()
            self.decoded[key] = {prediction.id: place for place, prediction in enumerate(predictions)}
        place = self.decoded[key].get(example)
        return None if place is None else self.read[key][place]


def read_evidence(stored: StoredEvidence, contrast: Contrast) -> ExampleEvidence | str:
    """Return the stored evidence for a contrast, or the reason why it cannot be used."""
    try:
        return stored.evidence(contrast)
    except BenchError as error:
        return str(error)
    except Exception as error:  # whatever a metric of a plugin raises
        return f"{contrast.metric} cannot read its stored parts: {error}"


def _check_score(metric: Any, parts: Parts, value: float) -> None:
    """Raise PluginError unless the combined parts give the number of the run."""
    score = float(metric.combine(parts))
    if not isclose(score, value, rel_tol=1e-6, abs_tol=1e-9) and not (isnan(score) and isnan(value)):
        raise PluginError(
            f"the installed metric computes {score} from its stored parts, but the run has {value}: its code has "
            "changed. Run the suite again."
        )


def quartiles(lengths: Sequence[int]) -> list[int]:
    """Return the quartiles: at least a quarter, half and three quarters of the lengths do not exceed them."""
    ordered = sorted(lengths)
    return [ordered[max(0, -(-len(ordered) * quarter // 4) - 1)] for quarter in (1, 2, 3)]


def mark_changes(ours: str, theirs: str) -> str:
    """Return the differences of two texts inline: deletions as `[-a-]`, insertions as `{+b+}`.

    Texts are compared by words, or by characters if neither has spaces and they are not ASCII.
    """
    blank = " " if f"{ours}{theirs}".isascii() or any(len(text.split()) > 1 for text in (ours, theirs)) else ""
    old, new = (text.split() if blank else [*text] for text in (ours, theirs))
    return blank.join(_mark_spans(old, new, blank))


def _mark_spans(old: Sequence[str], new: Sequence[str], blank: str) -> Iterator[str]:
    for kind, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield blank.join(old[start:end])
            continue
        deleted = f"[-{blank.join(old[start:end])}-]" if end > start else ""
        inserted = f"{{+{blank.join(new[first:last])}+}}" if last > first else ""
        yield deleted + inserted
