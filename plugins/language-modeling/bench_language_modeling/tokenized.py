"""Code shared by both tasks: the stored vocabulary, and corpus statistics."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import STOP, Task, TaskInfo
from bench_language_modeling.pretrained import FILE, Numbered
from bench_language_modeling.ragged import Ragged
from bench_language_modeling.settings import Pretrained
from bench_language_modeling.text import Text
from bench_language_modeling.tokens import PAD, UNREADABLE, Encoder, join, learn
from bench_text.api import corpora


class Tokenized(Task):
    """Targets are tokens of a vocabulary that was learnt from a corpus, or of a pretrained model."""

    def _encoder(self, data: Path, train: Sequence[str], valid: Sequence[str], pad: bool = False) -> Encoder:
        """Learn the vocabulary; one that is given is copied into the folder."""
        settings = self.config.tokenizer
        if not isinstance(settings, Pretrained):
            return learn(settings, train, valid, pad)
        given = Numbered.of(settings, data)
        shutil.copyfile(given.file, self.folder / FILE)
        extras = {"tokenizer": corpora.digest(given.file), "stop": given.stop}
        vocabulary = [*given.vocabulary, *[PAD] * pad]
        return Encoder(vocabulary, given.encode, given.ordinary, given.rest, given.unknown, extras)

    def _facts(self, text: Text, encoder: Encoder, counts: list[int], extras: Mapping[str, Any]) -> TaskInfo:
        """Keep the vocabulary in the folder, and say where it comes from."""
        (self.folder / "vocabulary.json").write_text(json.dumps(encoder.vocabulary), encoding="utf-8")
        notice = {"notice": text.notice} if text.notice else {}
        about = {"corpus": text.name, "embedded": text.embedded, **notice, **encoder.extras}
        return TaskInfo(encoder.vocabulary, counts, extras={**about, **extras})

    @cached_property
    def vocabulary(self) -> list[str]:
        """Return what `prepare` left."""
        return list(json.loads((self.folder / "vocabulary.json").read_text(encoding="utf-8")))

    @cached_property
    def _pretrained(self) -> Numbered:
        return Numbered.of(Pretrained(kind="pretrained", path=".", stop=self.vocabulary[STOP]), self.folder)

    def text(self, tokens: list[int]) -> str:
        """Return the text of tokens; those that stand for none, such as `<unk>`, read as what no corpus has."""
        return self.said(tokens, UNREADABLE)

    def said(self, tokens: list[int], unknown: str) -> str:
        """Return the text of tokens, with `unknown` for those that stand for none."""
        if not isinstance(self.config.tokenizer, Pretrained):
            return join(self.config.tokenizer.kind, [self.vocabulary[token] for token in tokens], unknown)
        runs: list[list[int]] = [[]]
        for token in tokens:
            if self.vocabulary[token] == PAD:
                runs.append([])
            else:
                runs[-1].append(token)
        return f" {unknown} ".join([self._pretrained.text(run, unknown) for run in runs])


def statistics(rows: Ragged, what: str, encoder: Encoder) -> dict[str, Any]:
    """Return what the paper's table of its data shows (Welleck et al., 2020, Table 7), and a little more."""
    lengths, unknown = rows.lengths, encoder.unknown
    return {
        what: len(rows),
        "tokens": len(rows.tokens),
        "types": len(np.unique(rows.tokens)),
        "unknown": 0 if unknown is None else int((rows.tokens == unknown).sum()),
        "mean_length": round(float(lengths.mean()), 2),
        "max_length": int(lengths.max()),
    }
