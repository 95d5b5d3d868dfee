"""Looks at what parts return: second ones, where `bench-authors` is installed, and one at data that overlap."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench_core.optional import AUTHORS, installed_module

MANY = 0.01  #: share of a split that may be repeated, or shared with an earlier split, without a warning


class NoLook:
    """Stands for a second look where there is none: whatever is asked of it, it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return self._nothing

    def _nothing(self, *given: object) -> None:
        """Do nothing."""


def second_look(kind: str, *about: object) -> Any:
    """Return the second look at `models` (what is decoded or scored by them), `metrics` or `tasks`."""
    module = installed_module(AUTHORS, f"looks.{kind}")
    return module.LOOK(*about) if module else NoLook()


def overlaps(found: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a warning for each split but the training split of which over 1 % are repeated or in an earlier split."""
    kinds = {"repeated": "repeated", "shared": "shared with 'train'", "chosen_by": "shared with 'valid'"}
    for split, numbers in found.items():
        for name, what in kinds.items():
            if split != "train" and numbers.get(name, 0) > MANY * numbers["examples"]:
                yield f"{numbers[name]:,} of {numbers['examples']:,} examples of {split!r} are {what}."
