"""Further checks of parts: second looks, if `bench-authors` is installed, and warnings about overlapping data."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench_core.optional import AUTHORS, installed_module

#: Maximum share of a split's examples that may be repeated, or shared with an earlier split, without a warning.
MAX_REPEATED_SHARE = 0.01


class NoLook:
    """A second look that does nothing, whatever method is called."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def second_look(kind: str, *about: object) -> Any:
    """Return the second look at `models` (their decoding or scoring), `metrics` or `tasks`."""
    module = installed_module(AUTHORS, f"looks.{kind}")
    return module.LOOK(*about) if module else NoLook()


def overlaps(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a warning for each evaluation split with over 1 % of examples repeated or shared with earlier splits."""
    kinds = {"repeated": "repeated", "shared": "shared with 'train'", "chosen_by": "shared with 'valid'"}
    for split, numbers in counts.items():
        for name, what in kinds.items():
            if split != "train" and numbers.get(name, 0) > MAX_REPEATED_SHARE * numbers["examples"]:
                yield f"{numbers[name]:,} of {numbers['examples']:,} examples of {split!r} are {what}."
