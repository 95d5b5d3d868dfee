"""Final positions of the words of an output, in the order of generation."""

from collections.abc import Iterator, Sequence

from bench_core import Outcome, SuiteError


def positions(length: int, actions: Sequence[int], position_first: bool = False) -> list[int] | None:
    """Return the reading position of each of `length` words in the order of generation; None if it is unknown.

    Twice as many actions as words alternate a word and a slot, or a slot and a word. Of the t slots that there are,
    slot s, the gap before the s-th word, is action s + 1; where slots have two keys, t + s + 1 means it as well. As
    many actions as words go from left to right.
    """
    if len(actions) == length:
        return [*range(length)]
    if len(actions) != 2 * length:
        return None
    turns: list[int] = []  # which word stands where
    for turn, action in enumerate(actions[0 if position_first else 1 :: 2]):
        slots = turn + 1
        if not 1 <= action <= 2 * slots:
            return None
        turns.insert((action - 1) % slots, turn)
    found = [0] * length
    for place, turn in enumerate(turns):
        found[turn] = place
    return found


def orders(outcomes: Sequence[Outcome]) -> Iterator[list[int]]:
    """Yield the reading positions of the words of first hypotheses, in the order of their generation.

    Words come before their slots, or, where not all outputs read so, after them: in all outputs of a cell alike.
    Raises SuiteError naming an example of which the order is unknown.
    """
    for position_first in (False, True):
        if all(order(outcome, position_first) is not None for outcome in outcomes):
            return (order(outcome, position_first) or [] for outcome in outcomes)
    first = _strange(outcomes)
    raise SuiteError(
        f"the order in which example {first.id} was generated is unknown: its output of "
        f"{len(first.hypotheses[0].tokens)} words comes with no chain of as many words, or of words and slots. "
        "Leave this metric out for models that make no words one by one."
    )


def _strange(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the first outcome of which no reading gives an order, else the first of which one does not."""
    odd = [one for one in outcomes if order(one, position_first=False) is None]
    return next((one for one in odd if order(one, position_first=True) is None), odd[0])


def order(outcome: Outcome, position_first: bool) -> list[int] | None:
    """Return the reading positions of the first hypothesis's words as they were generated; None if unknown."""
    tokens, actions = outcome.hypotheses[0].tokens, outcome.hypotheses[0].actions
    places = None if actions is None else positions(len(tokens), actions, position_first)
    if actions is None or places is None:
        return None
    words = actions if len(actions) == len(tokens) else actions[1 if position_first else 0 :: 2]
    reads = all(tokens[place] == word for place, word in zip(places, words, strict=True))
    return places if reads else None
