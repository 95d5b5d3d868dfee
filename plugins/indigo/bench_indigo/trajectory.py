"""The final positions of an output's words, in generation order."""

from collections.abc import Iterator, Sequence

from bench_core import Prediction, SuiteError


def positions(length: int, actions: Sequence[int], position_first: bool = False) -> list[int] | None:
    """Return the reading positions of `length` words in generation order; None if they are unknown.

    If there are twice as many actions as words, they alternate words and slots, or slots and words. Slot s of t, the
    gap before the s-th word, is action s + 1; with two keys per slot, it is also action t + s + 1. If there are as
    many actions as words, the order is left to right.
    """
    if len(actions) == length:
        return [*range(length)]
    if len(actions) != 2 * length:
        return None
    turns: list[int] = []  # words in reading order
    for turn, action in enumerate(actions[0 if position_first else 1 :: 2]):
        slots = turn + 1
        if not 1 <= action <= 2 * slots:
            return None
        turns.insert((action - 1) % slots, turn)
    result = [0] * length
    for at, turn in enumerate(turns):
        result[turn] = at
    return result


def orders(predictions: Sequence[Prediction]) -> Iterator[list[int]]:
    """Yield the reading positions of the words in each first hypothesis, in generation order.

    The actions of all outputs are read with words first or, if that fails for some output, all with slots first.
    Raises SuiteError naming an example whose order is unknown.
    """
    for position_first in (False, True):
        if all(order(prediction, position_first) is not None for prediction in predictions):
            return (order(prediction, position_first) or [] for prediction in predictions)
    first = _strange(predictions)
    raise SuiteError(
        f"the generation order of example {first.id} is unknown: its output of "
        f"{len(first.hypotheses[0].tokens)} words has neither one action per word nor alternating words and slots. "
        "Leave this metric out for models that do not generate word by word."
    )


def _strange(predictions: Sequence[Prediction]) -> Prediction:
    """Return the first prediction that is invalid in both readings, or else the first invalid with words first."""
    odd = [prediction for prediction in predictions if order(prediction, position_first=False) is None]
    return next((prediction for prediction in odd if order(prediction, position_first=True) is None), odd[0])


def order(prediction: Prediction, position_first: bool) -> list[int] | None:
    """Return the reading positions of the first hypothesis's words in generation order; None if unknown."""
    tokens, actions = prediction.hypotheses[0].tokens, prediction.hypotheses[0].actions
    places = None if actions is None else positions(len(tokens), actions, position_first)
    if actions is None or places is None:
        return None
    words = actions if len(actions) == len(tokens) else actions[1 if position_first else 0 :: 2]
    reads = all(tokens[place] == word for place, word in zip(places, words, strict=True))
    return places if reads else None
