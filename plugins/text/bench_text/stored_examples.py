"""The examples of a split, stored in the folder of a prepared task, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bench_core import STOP, Batch, Purpose, Rng, Size, Source
from bench_text.batching import grouped
from bench_text.examples import ALL, EncodedExamples
from bench_text.ragged import Numbers, Ragged, padded

ARRAYS = ("ids", "purposes", "weight", "source", "prompt")


@dataclass(frozen=True)
class StoredExamples:
    """R examples as arrays, from which batches are read."""

    ids: Numbers  # int64 [R]
    target: Ragged  # [R] prefix and continuation, including EOS
    source: Ragged | Numbers | None = None  # tokens [R], or numbers [R, *]
    purposes: Numbers | None = None  # bool [R, 3]: whether each example serves each Purpose; default: all
    weight: Numbers | None = None  # float64 [R]; default: 1
    extras: Mapping[str, Ragged] = field(default_factory=dict)  # [R] each, the integers of `Batch.extras` plus 1
    prompt: Numbers | None = None  # int64 [R]: prompt tokens in each target, if their number varies

    @classmethod
    def of(cls, encoded: EncodedExamples, kind: Source, prefix: int = 0) -> StoredExamples:
        """Pad targets on the left to `prefix` tokens; append EOS to targets and to sources of TOKENS."""
        pad, source = len(encoded.encoder.vocabulary) - 1, encoded.source
        if kind is Source.TOKENS and isinstance(source, Ragged):
            source = append_stop(source)
        weight = np.array([example.weight for example in encoded.examples], np.float64)
        purposes = None
        if any(example.purposes is not ALL for example in encoded.examples):
            purposes = np.array([[each in example.purposes for each in Purpose] for example in encoded.examples])
        return cls(
            np.array([example.id for example in encoded.examples], np.int64),
            append_stop(encoded.target, encoded.prompt, prefix, pad),
            source,
            purposes,
            None if (weight == 1).all() else weight,
            {name: Ragged(extra.tokens + 1, extra.edges) for name, extra in encoded.extras.items()},
            encoded.prompt.lengths if encoded.prompt else None,
        )

    def save(self, folder: Path, split: str) -> None:
        """Write the arrays to a folder."""
        self.target.save(folder, f"{split}.target")
        for name, rows in self.extras.items():
            rows.save(folder, f"{split}.extras.{name}")
        for name in ARRAYS:
            array = getattr(self, name)
            if isinstance(array, Ragged):
                array.save(folder, f"{split}.{name}")
            elif array is not None:
                np.save(folder / f"{split}.{name}.npy", array, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path, split: str) -> StoredExamples:
        """Open the arrays that `save` wrote; large arrays are read from disk on access."""
        arrays = {name: _array(folder, f"{split}.{name}") for name in ARRAYS}
        suffix = ".edges.npy"
        names = [path.name.removesuffix(suffix) for path in sorted(folder.glob(f"{split}.extras.*{suffix}"))]
        extras = {name.removeprefix(f"{split}.extras."): Ragged.load(folder, name) for name in names}
        return cls(target=Ragged.load(folder, f"{split}.target"), extras=extras, **arrays)  # type: ignore[arg-type]

    def rows(self, purpose: Purpose) -> Numbers:
        """Return the indices of the examples for a purpose, int64 [M]."""
        if self.purposes is None:
            return np.arange(len(self.ids))
        return np.flatnonzero(self.purposes[:, [*Purpose].index(purpose)])

    def batches(self, purpose: Purpose, size: Size, rng: Rng | None = None, prefix: int = 0) -> Iterator[Batch]:
        """Yield an epoch of the examples for `purpose`, one example per row.

        The prompt has the first `prefix` tokens of a target, or as many as `prompt` says; prompts in a batch have
        equal length. A size in tokens counts the longer side of each example without its prompt, including padding.
        """
        rows = self.rows(purpose)
        prompts = None if self.prompt is None else self.prompt[rows]
        lengths = self.target.lengths[rows] - (prefix if prompts is None else prompts)
        if isinstance(self.source, Ragged):
            lengths = np.maximum(lengths, self.source.lengths[rows])
        for group in grouped(lengths, purpose, size, rng, prompts):
            yield self._batch(rows[group], prefix if prompts is None else int(prompts[group[0]]))

    def _batch(self, rows: Numbers, prefix: int) -> Batch:
        target, source = self.target, self.source
        starts, ends = target.edges[rows], target.edges[rows + 1]
        prompt = torch.full((len(rows), 1), STOP)
        if prefix:
            prompt = torch.cat([prompt, padded(target.tokens, starts, starts + prefix)], 1)
        return Batch(
            ids=torch.from_numpy(self.ids[rows]),
            prompt=prompt,
            gold=padded(target.tokens, starts + prefix, ends),
            length=torch.from_numpy(ends - starts - prefix),
            source=source.padded(rows) if isinstance(source, Ragged) else _select(source, rows),
            source_length=torch.from_numpy(source.lengths[rows]) if isinstance(source, Ragged) else None,
            extras=self._extras(rows),
        )

    def _extras(self, rows: Numbers) -> dict[str, Tensor]:
        extras = {name: extra.padded(rows) - 1 for name, extra in self.extras.items()}
        weight = _select(self.weight, rows)
        return extras if weight is None else {**extras, "weight": weight}


def append_stop(rows: Ragged, prompts: Ragged | None = None, prefix: int = 0, pad: int = STOP) -> Ragged:
    """Append EOS to rows; prepend prompts [R], or else pad rows on the left to `prefix` tokens."""
    if prompts:
        return Ragged.of([*prompt, *row, STOP] for prompt, row in zip(prompts, rows, strict=True))
    return Ragged.of([*[pad] * (prefix - len(row)), *row, STOP] for row in rows)


def _array(folder: Path, name: str) -> Ragged | Numbers | None:
    if (folder / f"{name}.edges.npy").exists():
        return Ragged.load(folder, name)
    path = folder / f"{name}.npy"
    mode: Literal["r"] | None = "r" if name.endswith(".source") else None  # may be large
    return np.load(path, mode, allow_pickle=False) if path.exists() else None


def _select(array: Numbers | None, rows: Numbers) -> Tensor | None:
    return None if array is None else torch.from_numpy(np.array(array[rows]))
