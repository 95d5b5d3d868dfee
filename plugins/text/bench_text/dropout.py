"""BPE-dropout: segmentation of training examples with randomly skipped merges (Provilkov et al., 2020)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from bench_core import Rng
from bench_text.examples import EncodedExamples
from bench_text.merges import Merges
from bench_text.ragged import Ragged
from bench_text.stored_examples import StoredExamples, append_stop

FILE = "train.dropout.json"
MAX_SEEDS = 2**52  # number of seeds that a uniform number can select


@dataclass(frozen=True)
class DropoutTexts:
    """Training texts and their segmentation."""

    merges: Merges
    ids: Mapping[str, int]  # keys are pieces
    texts: Sequence[str]  # [R]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> DropoutTexts:
        """Load an entry that `save` wrote."""
        ids = {name: index for index, name in enumerate(plain["vocabulary"])}
        return cls(Merges.of(plain["merges"]), ids, plain["texts"])

    def rows(self, ids: torch.Tensor, rng: Rng) -> Iterator[list[int]]:
        """Yield the tokens of each text; skipped merges depend only on the rng and the example ids [R]."""
        for draw, text in zip(rng.uniform(ids).tolist(), self.texts, strict=True):
            yield [self.ids.get(piece, 1) for piece in self.merges.cut(text, Random(int(draw * MAX_SEEDS)))]


def save(encoded: EncodedExamples, folder: Path) -> None:
    """Write texts and merges of the training examples, if dropout is used."""
    sides: dict[str, Any] = {}
    encoders = {"target": encoded.encoder, "prompt": encoded.encoder, "source": encoded.source_encoder}
    for name, encoder in encoders.items():
        if encoder and encoder.merges and getattr(encoded, name) is not None:
            texts = [getattr(example, name) for example in encoded.examples]
            sides[name] = {"merges": encoder.merges.plain, "vocabulary": encoder.vocabulary, "texts": texts}
    if sides:
        (folder / FILE).write_text(json.dumps(sides), encoding="utf-8")


def segment(stored: StoredExamples, folder: Path, rng: Rng, prefix: int) -> StoredExamples:
    """Segment the training examples of an epoch with merges skipped at random; return them unchanged without dropout.

    All texts are segmented before the epoch begins, so that batches in tokens keep their size.
    """
    if not (folder / FILE).exists():
        return stored
    plain = json.loads((folder / FILE).read_text(encoding="utf-8"))
    ids, rows = torch.from_numpy(stored.ids), dict[str, Ragged]()
    for name, side in plain.items():
        rows[name] = Ragged.of(DropoutTexts.of(side).rows(ids, rng.fork("dropout").fork(name)))
    if "source" in rows:
        stored = replace(stored, source=append_stop(rows["source"]))
    if "target" in rows:
        pad = len(plain["target"]["vocabulary"]) - 1
        prompts = rows.get("prompt")
        prompt = None if prompts is None else prompts.lengths
        stored = replace(stored, target=append_stop(rows["target"], prompts, prefix, pad), prompt=prompt)
    return stored
