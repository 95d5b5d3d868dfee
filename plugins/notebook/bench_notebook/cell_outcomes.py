"""The outcomes behind the cells of a run: which artifacts hold them, and reading them one by one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bench_core.data import Outcome
from bench_core.errors import StoreError
from bench_core.runs.results import CellResult
from bench_core.runs.selecting import cell_name
from bench_core.stage_kinds import OUTCOMES
from bench_core.storage.artifact import Artifact
from bench_core.storage.outcomes import read_outcomes
from bench_core.storage.store import Store

Kind: TypeAlias = Literal["decode", "score"]

KINDS: tuple[Kind, ...] = ("decode", "score")
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True)
class StoredOutcomes:
    """The outcomes of a decoding or a scoring, in order of id; read from the store whenever they are gone through."""

    cell: Mapping[str, Any]  # its axes; a scoring has no decoder
    kind: Kind
    key: str  # of the artifact
    store: Store
    reason: str = ""  # why its cell is incomplete

    @staticmethod
    def of(cells: Iterable[CellResult], store: Store) -> Iterator[StoredOutcomes]:
        """Yield the decodings and scorings of cells; a scoring, which cells of several decoders share, once."""
        seen: set[tuple[str, str]] = set()
        for one in cells:
            if key := one.artifacts.get("decode"):
                yield StoredOutcomes(one.cell, "decode", key, store, one.reason)
            for name, key in one.artifacts.items():
                axes = {axis: value for axis, value in one.cell.items() if axis != "decoder"}
                place = cell_name(axes), key
                if name.startswith("score/") and place not in seen:
                    seen.add(place)
                    yield StoredOutcomes(axes, "score", key, store, one.reason)

    @property
    def name(self) -> str:
        """Return what messages call it, such as `words/lstm/greedy/test, seed 0`."""
        return cell_name(self.cell)

    @property
    def by(self) -> str | None:
        """Return the likelihood of a scoring; None for a decoding. Raises StoreError as `iter` does."""
        if self.kind == "decode":
            return None
        with self._named():
            return str(self._artifact().manifest["ingredients"]["settings"]["by"])

    def __iter__(self) -> Iterator[Outcome]:
        """Yield the outcomes; raise StoreError, naming the cell, if they are missing or damaged."""
        with self._named():
            for outcome in read_outcomes(self._artifact().file(OUTCOMES)):
                _check(outcome)
                yield outcome

    def _artifact(self) -> Artifact:
        if not os.path.lexists(self.store.path(self.kind, self.key)):
            why = f" ({self.reason})" if self.reason else ""
            raise StoreError(
                f"its {self.kind} {self.key[:16]} is not in the store {self.store.root}{why}. "
                "Name the store that the run used, or run the suite again."
            )
        return self.store.get(self.kind, self.key)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Raise StoreError with the name of the cell for what is missing, damaged, or no outcome at all."""
        try:
            yield
        except StoreError as error:
            raise StoreError(f"{self.name}: {error}") from None
        except UNREADABLE as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            place = self.store.path(self.kind, self.key)
            raise StoreError(
                f"{self.name}: {place} holds no outcomes that can be read ({what}). Remove it, run the suite again."
            ) from None


def _check(outcome: Outcome) -> None:
    """Raise ValueError unless texts are texts, one for each hypothesis."""
    texts = [outcome.prompt, *outcome.references, *outcome.texts]
    if len(outcome.texts) != len(outcome.hypotheses) or not all(isinstance(one, str) for one in texts):
        raise ValueError(f"example {outcome.id!r} has something else where its texts should be")
