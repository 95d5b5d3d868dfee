"""What both tasks share: a vocabulary that outlives `prepare`, and what they tell about their corpus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from bench_core import Facts, Task
from bench_language_modeling.ragged import Ragged
from bench_language_modeling.text import Text
from bench_language_modeling.tokens import join


class Tokenized(Task):
    """Targets are tokens of a vocabulary that was learnt from a corpus."""

    def _facts(self, text: Text, vocabulary: list[str], counts: list[int], extras: Mapping[str, Any]) -> Facts:
        """Keep the vocabulary in the folder, and say where it comes from."""
        (self.folder / "vocabulary.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        notice = {"notice": text.notice} if text.notice else {}
        about = {"corpus": text.name, "embedded": text.embedded, **notice}
        return Facts(vocabulary, counts, extras={**about, **extras})

    @cached_property
    def vocabulary(self) -> list[str]:
        """Return what `prepare` left."""
        return list(json.loads((self.folder / "vocabulary.json").read_text(encoding="utf-8")))

    def text(self, tokens: list[int]) -> str:
        return join(self.config.tokenizer.kind, [self.vocabulary[token] for token in tokens])


def statistics(rows: Ragged, what: str) -> dict[str, Any]:
    """Return what the paper's table of its data shows (Welleck et al., 2020, Table 7), and a little more."""
    lengths = rows.lengths
    return {
        what: len(rows),
        "tokens": len(rows.tokens),
        "types": len(np.unique(rows.tokens)),
        "unknown": int((rows.tokens == 1).sum()),
        "mean_length": round(float(lengths.mean()), 2),
        "max_length": int(lengths.max()),
    }
