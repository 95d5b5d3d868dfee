"""Predictions on disk: gzipped JSON lines, read and written one at a time; equal predictions give equal bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.data import Hypothesis, Prediction
from plain_files import Lines, Spool, StoredLines, read_lines, to_line, write_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["References", "by_id", "read_lines", "read_predictions", "write_lines", "write_predictions"]

_OPTIONAL_OF_HYPOTHESES = frozenset({"text", "token_count"})  # left out if None
_OPTIONAL = frozenset({"by_token", "group", "target_bytes", "target_characters", "written"})  # left out if None


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions; omit actions that equal the tokens."""
    write_lines(path, predictions if isinstance(predictions, Lines) else map(_as_json, predictions))


def read_predictions(path: Path) -> Sequence[Prediction]:
    """Return the predictions in a file, each read on access."""
    return StoredLines(path, _from_json)


def by_id(predictions: Iterable[Prediction], folder: Path | None = None) -> Sequence[Prediction]:
    """Return predictions sorted by id; if there are many, spool them to a temporary file (in `folder`)."""
    spool, ids = Spool(_from_json, folder), array("q")

    def line(prediction: Prediction) -> bytes:
        ids.append(prediction.id)
        return to_line(_as_json(prediction))

    spool.extend(map(line, predictions))
    spool.sort(ids)
    return spool


class References(Mapping[int, Sequence[str]]):
    """The references of predictions, by id; read on access, and not cached."""

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        self._predictions = predictions

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct ids in ascending order, and the indices of their predictions."""
        import numpy as np

        ids = np.fromiter((prediction.id for prediction in self._predictions), np.int64)
        return np.unique(ids, return_index=True)

    def __getitem__(self, example: int) -> Sequence[str]:
        ids, places = self._places
        row = int(ids.searchsorted(example))
        if row == len(ids) or ids[row] != example:
            raise KeyError(example)
        return self._predictions[int(places[row])].references

    def __iter__(self) -> Iterator[int]:
        return map(int, self._places[0])

    def __len__(self) -> int:
        return len(self._places[0])


def _as_json(prediction: Prediction) -> dict[str, Any]:
    fields = {**vars(prediction), "hypotheses": [_hypothesis(hypothesis) for hypothesis in prediction.hypotheses]}
    return {name: value for name, value in fields.items() if value is not None or name not in _OPTIONAL}


def _hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    optional = _OPTIONAL_OF_HYPOTHESES
    fields = {name: value for name, value in vars(hypothesis).items() if value is not None or name not in optional}
    return {**fields, "actions": "tokens"} if hypothesis.actions == hypothesis.tokens else fields


def _from_json(data: dict[str, Any]) -> Prediction:
    hypotheses = []
    for hypothesis in data["hypotheses"]:
        actions = hypothesis["tokens"] if hypothesis["actions"] == "tokens" else hypothesis["actions"]
        hypotheses.append(Hypothesis(**{**hypothesis, "actions": actions}))
    return Prediction(**{**data, "hypotheses": hypotheses})
