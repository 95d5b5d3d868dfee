"""Finds the stored predictions of a run's cells and reads them one at a time."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bench_core.data import Prediction
from bench_core.errors import StoreError
from bench_core.runs.results import CellResult
from bench_core.runs.selecting import cell_name
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.artifact import Artifact
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store

Kind: TypeAlias = Literal["decode", "score"]

KINDS: tuple[Kind, ...] = ("decode", "score")
READ_ERRORS = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True)
class StoredPredictions:
    """The predictions of a decoding or scoring stage in order of id, read from the store on each iteration."""

    cell: Mapping[str, Any]  # axes, without `decoder` if scored
    kind: Kind
    key: str  # artifact key
    store: Store
    reason: str = ""  # why its cell is incomplete

    @staticmethod
    def of(cells: Iterable[CellResult], store: Store) -> Iterator[StoredPredictions]:
        """Yield the stored predictions of cells; scores that cells with different decoders share are yielded once."""
        seen: set[tuple[str, str]] = set()
        for result in cells:
            if key := result.artifacts.get("decode"):
                yield StoredPredictions(result.cell, "decode", key, store, result.reason)
            for name, key in result.artifacts.items():
                axes = {axis: value for axis, value in result.cell.items() if axis != "decoder"}
                place = cell_name(axes), key
                if name.startswith("score/") and place not in seen:
                    seen.add(place)
                    yield StoredPredictions(axes, "score", key, store, result.reason)

    @property
    def name(self) -> str:
        """Return the name of the cell in messages, such as `words/lstm/greedy/test, seed 0`."""
        return cell_name(self.cell)

    @property
    def by(self) -> str | None:
        """Return the likelihood of scored predictions, None for decoded predictions; raise StoreError like `iter`."""
        if self.kind == "decode":
            return None
        with self._naming_the_cell():
            return str(self._artifact().manifest["ingredients"]["settings"]["by"])

    def __iter__(self) -> Iterator[Prediction]:
        """Yield the predictions; raise StoreError, naming the cell, if they are missing or damaged."""
        with self._naming_the_cell():
            for prediction in read_predictions(self._artifact().file(PREDICTIONS)):
                _check(prediction)
                yield prediction

    def _artifact(self) -> Artifact:
        if not os.path.lexists(self.store.path(self.kind, self.key)):
            why = f" ({self.reason})" if self.reason else ""
            raise StoreError(
                f"its {self.kind} {self.key[:16]} is not in the store {self.store.root}{why}. "
                "Name the store that the run used, or run the suite again."
            )
        return self.store.get(self.kind, self.key)

    @contextmanager
    def _naming_the_cell(self) -> Iterator[None]:
        """Raise StoreError with the name of the cell for missing, damaged or invalid predictions."""
        try:
            yield
        except StoreError as error:
            raise StoreError(f"{self.name}: {error}") from None
        except READ_ERRORS as error:
            cause = " ".join(f"{type(error).__name__}: {error}".split())
            place = self.store.path(self.kind, self.key)
            raise StoreError(
                f"{self.name}: {place} has no readable predictions ({cause}). Remove it and run the suite again."
            ) from None


def _check(prediction: Prediction) -> None:
    """Raise ValueError unless each hypothesis has a text and all texts are strings."""
    texts = [prediction.prompt, *prediction.references, *prediction.texts]
    if len(prediction.texts) != len(prediction.hypotheses) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"example {prediction.id!r} has texts that are not strings, or not one per hypothesis")
