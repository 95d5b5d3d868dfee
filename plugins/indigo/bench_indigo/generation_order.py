"""Selects the outputs whose generation order a figure shows, and stores them with the run."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from bench_core import Prediction, SuiteError
from bench_indigo.trajectory import orders

Chosen: TypeAlias = int | Sequence[int]  # a number of examples, or their ids

SAMPLE_KEYS = ("words", "order")  #: keys of a sample: tokens as text, and their positions in generation order


def courses(
    predictions: Sequence[Prediction],
    chosen: Iterable[Chosen],
    vocabulary: Sequence[str],
    hidden: Collection[int] = (),
) -> dict[int, dict[str, Any]]:
    """Return the words and the generation order of the chosen examples, by id.

    A number selects the first examples that are not `hidden`; outputs of fewer than two words are selected only if
    there are no others. Returns an empty dict if the generation order is unknown.
    """
    try:
        all_positions = orders(predictions)
    except SuiteError:
        return {}
    several = [*chosen]
    free = _first(predictions, max((choice for choice in several if isinstance(choice, int)), default=0), hidden)
    wanted = {number for choice in several for number in (free[:choice] if isinstance(choice, int) else choice)}
    courses = {
        prediction.id: {"words": _texts(prediction.hypotheses[0].tokens, vocabulary), "order": order}
        for prediction, order in zip(predictions, all_positions, strict=True)
        if prediction.id in wanted
    }
    return dict(sorted(courses.items()))


def _first(predictions: Sequence[Prediction], most: int, hidden: Collection[int]) -> list[int]:
    """Return the ids of up to `most` visible examples, followed by up to `most` with fewer than two words."""
    aside = frozenset(hidden)
    long = (prediction.id for prediction in predictions if prediction.id not in aside and _word_count(prediction) > 1)
    short = (
        prediction.id for prediction in predictions if prediction.id not in aside and _word_count(prediction) < 2
    )
    return [*islice(long, most), *islice(short, most)]


def _word_count(prediction: Prediction) -> int:
    return len(prediction.hypotheses[0].tokens)


def _texts(tokens: Iterable[int], vocabulary: Sequence[str]) -> list[str]:
    return [vocabulary[token] if token < len(vocabulary) else str(token) for token in tokens]
