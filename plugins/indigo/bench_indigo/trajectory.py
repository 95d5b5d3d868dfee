"""How a sequence came about: where its words stood in the end, in the order of their generation."""

from __future__ import annotations

from collections.abc import Sequence


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
