"""How a sequence came about: where its words stood in the end, in the order of their generation."""

from __future__ import annotations

from collections.abc import Sequence


def positions(length: int, actions: Sequence[int], keys_of_a_slot: int = 1) -> list[int] | None:
    """Return the reading position of each of `length` words in the order of generation; None if it is unknown.

    Twice as many actions as words alternate a word and a slot, of which slot s is action s + 1: the gap before the
    s-th word of what is there so far. With two keys a slot, 2 s + 1 and 2 s + 2 both mean it. As many actions as
    words go from left to right.
    """
    if len(actions) == length:
        return [*range(length)]
    if len(actions) != 2 * length:
        return None
    turns: list[int] = []  # which word stands where
    for turn, action in enumerate(actions[1::2]):
        slot = (action - 1) // keys_of_a_slot
        if not 0 <= slot <= turn:
            return None
        turns.insert(slot, turn)
    found = [0] * length
    for place, turn in enumerate(turns):
        found[turn] = place
    return found
