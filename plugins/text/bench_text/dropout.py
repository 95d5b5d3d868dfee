"""Segmentations of training examples with byte pair merges left out at random (Provilkov et al., 2020)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from bench_core import Noise
from bench_text.examples import EncodedExamples
from bench_text.merges import Merges
from bench_text.ragged import Ragged
from bench_text.stored_examples import StoredExamples, stopped

FILE = "train.dropout.json"
BITS = 2**52  # of a uniform number


@dataclass(frozen=True)
class Side:
    """Texts to train on, and how they are cut."""

    merges: Merges
    ids: Mapping[str, int]  # of pieces
    texts: Sequence[str]  # [R]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Side:
        """Return what `save` wrote of a side."""
        ids = {name: place for place, name in enumerate(plain["vocabulary"])}
        return cls(Merges.of(plain["merges"]), ids, plain["texts"])

    def rows(self, ids: torch.Tensor, noise: Noise) -> Iterator[list[int]]:
        """Yield the tokens of each text; what is left out follows from noise and the id of the example [R]."""
        for draw, text in zip(noise.uniform(ids).tolist(), self.texts, strict=True):
            yield [self.ids.get(piece, 1) for piece in self.merges.cut(text, Random(int(draw * BITS)))]


def save(encoded: EncodedExamples, folder: Path) -> None:
    """Write texts and merges of the examples to train on, if some merges are to be left out."""
    sides: dict[str, Any] = {}
    encoders = {"target": encoded.encoder, "prompt": encoded.encoder, "source": encoded.source_encoder}
    for name, encoder in encoders.items():
        if encoder and encoder.merges and getattr(encoded, name) is not None:
            texts = [getattr(example, name) for example in encoded.examples]
            sides[name] = {"merges": encoder.merges.plain, "vocabulary": encoder.vocabulary, "texts": texts}
    if sides:
        (folder / FILE).write_text(json.dumps(sides), encoding="utf-8")


def segmented(stored: StoredExamples, folder: Path, noise: Noise, prefix: int) -> StoredExamples:
    """Return examples to train on with merges left out as `noise` says; as they are, if none is to be.

    All texts are cut before the epoch begins, so that batches in tokens keep their size.
    """
    if not (folder / FILE).exists():
        return stored
    plain = json.loads((folder / FILE).read_text(encoding="utf-8"))
    ids, rows = torch.from_numpy(stored.ids), dict[str, Ragged]()
    for name, side in plain.items():
        rows[name] = Ragged.of(Side.of(side).rows(ids, noise.fork("dropout").fork(name)))
    if "source" in rows:
        stored = replace(stored, source=stopped(rows["source"]))
    if "target" in rows:
        pad = len(plain["target"]["vocabulary"]) - 1
        prompts = rows.get("prompt")
        opening = None if prompts is None else prompts.lengths
        stored = replace(stored, target=stopped(rows["target"], prompts, prefix, pad), opening=opening)
    return stored
