"""Outcomes on disk: gzipped JSON lines, byte-identical for identical outcomes, written and read one by one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.data import Hypothesis, Outcome
from plain_files import Lines, Spool, StoredLines, read_lines, to_line, write_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["References", "by_id", "read_lines", "read_outcomes", "write_lines", "write_outcomes"]

_OF_TEXTS = frozenset({"text", "token_count"})  # of hypotheses, left out where they are None
_UNKNOWN = frozenset({"group", "target_bytes", "target_characters", "written"})  # left out where they are None


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write outcomes; actions identical to the tokens are omitted."""
    write_lines(path, outcomes if isinstance(outcomes, Lines) else map(_as_json, outcomes))


def read_outcomes(path: Path) -> Sequence[Outcome]:
    """Return the outcomes of a file, each read when it is needed."""
    return StoredLines(path, _from_json)


def by_id(outcomes: Iterable[Outcome], folder: Path | None = None) -> Sequence[Outcome]:
    """Return outcomes in order of id, in a temporary file (of `folder`) if they are many."""
    spool, ids = Spool(_from_json, folder), array("q")

    def line(outcome: Outcome) -> bytes:
        ids.append(outcome.id)
        return to_line(_as_json(outcome))

    spool.extend(map(line, outcomes))
    spool.sort(ids)
    return spool


class References(Mapping[int, Sequence[str]]):
    """The references of outcomes, by id; they are read when they are asked for, and not kept."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._outcomes = outcomes

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the different ids, ascending, and where their outcomes are."""
        import numpy as np

        ids, places = np.unique(np.fromiter((one.id for one in self._outcomes), np.int64), return_index=True)
        return ids, places

    def __getitem__(self, example: int) -> Sequence[str]:
        ids, places = self._places
        row = int(ids.searchsorted(example))
        if row == len(ids) or ids[row] != example:
            raise KeyError(example)
        return self._outcomes[int(places[row])].references

    def __iter__(self) -> Iterator[int]:
        return map(int, self._places[0])

    def __len__(self) -> int:
        return len(self._places[0])


def _as_json(outcome: Outcome) -> dict[str, Any]:
    found = {**vars(outcome), "hypotheses": [_hypothesis(one) for one in outcome.hypotheses]}
    return {name: value for name, value in found.items() if value is not None or name not in _UNKNOWN}


def _hypothesis(one: Hypothesis) -> dict[str, Any]:
    found = {name: value for name, value in vars(one).items() if value is not None or name not in _OF_TEXTS}
    return {**found, "actions": "tokens"} if one.actions == one.tokens else found


def _from_json(data: dict[str, Any]) -> Outcome:
    hypotheses = []
    for one in data["hypotheses"]:
        actions = one["tokens"] if one["actions"] == "tokens" else one["actions"]
        hypotheses.append(Hypothesis(**{**one, "actions": actions}))
    return Outcome(**{**data, "hypotheses": hypotheses})
