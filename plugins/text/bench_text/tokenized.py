"""Tasks whose targets are tokens: how their vocabulary is learned and stored, and how tokens become text again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from bench_core import STOP, Split, SuiteError, Task, TextSize
from bench_text import corpora
from bench_text.encoder import PAD, UNREADABLE, Encoder, join
from bench_text.pretrained import FILE, Numbered
from bench_text.ragged import Numbers, Ragged
from bench_text.settings import Learned, Pretrained
from bench_text.token_sizes import NONE
from bench_text.tokens import learn, restored

SOURCE = "source.vocabulary.json"  # of sources with tokens of their own


class TokenizedTask(Task):
    """A task whose targets are tokens of a vocabulary that it learned, or of a pretrained model.

    Its Config has a setting `tokenizer`. In `prepare`, it calls `encoder` and `save_vocabulary`.
    """

    cuts_anew: ClassVar[bool] = False  #: whether texts to train on are cut in each epoch, as `dropout` needs

    def encoder(
        self,
        settings: Learned | Pretrained,
        data: Path,
        train: Sequence[str],
        valid: Sequence[str] = (),
        pad: bool = False,
    ) -> Encoder:
        """Learn a vocabulary from texts, or copy that of a pretrained model into the folder.

        Words and characters are learned from `train` and `valid`, byte pairs from `train` alone. `pad` appends
        `<cpad>`. Raises DataError if a pretrained tokenizer is missing or damaged, and SuiteError for merges that are
        to be left out at random if this task does not cut texts anew.
        """
        if getattr(settings, "dropout", 0) and not self.cuts_anew:
            name = self.config.name
            raise SuiteError(f"{name} cuts texts once, so its tokenizer cannot have a `dropout`. Leave it out.")
        if not isinstance(settings, Pretrained):
            return learn(settings, train, valid, pad)
        given = Numbered.of(settings, data)
        shutil.copyfile(given.file, self.folder / FILE)
        return _of_pretrained(given, [*given.vocabulary, *[PAD] * pad])

    def save_vocabulary(self, vocabulary: Sequence[str]) -> None:
        """Write the names of target tokens to the folder."""
        self.save_json("vocabulary.json", vocabulary)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The names of target tokens, as `save_vocabulary` wrote them."""
        return list(self.load_json("vocabulary.json"))

    def save_json(self, name: str, value: Any) -> None:
        """Write JSON data to a file of the folder."""
        (self.folder / name).write_text(json.dumps(value), encoding="utf-8")

    def load_json(self, name: str, default: Any = None) -> Any:
        """Return the JSON data of a file of the folder; `default`, if it is given, where there is no such file."""
        path = self.folder / name
        return default if default is not None and not path.exists() else json.loads(path.read_text(encoding="utf-8"))

    def save_tokenizers(self, target: Encoder, source: Encoder | None = None) -> None:
        """Write to the folder what `restored` needs to encode new texts."""
        self.save_vocabulary(target.vocabulary)
        if source is not None and source is not target:
            self.save_json(SOURCE, source.vocabulary)
        for side, encoder in {"target": target, "source": source}.items():
            if encoder is not None and encoder.saved is not None:
                (self.folder / f"{side}.tokenizer").write_bytes(encoder.saved)

    def save_tokenizers_of(self, other: TokenizedTask) -> None:
        """Copy to the folder what `restored` needs from that of a task with the same tokenizers."""
        for name in ("vocabulary.json", SOURCE, FILE, "source.tokenizer", "target.tokenizer"):
            if (other.folder / name).exists():
                shutil.copyfile(other.folder / name, self.folder / name)

    def restored(self, side: Literal["source", "target"], settings: Learned | Pretrained) -> Encoder:
        """Return the encoder of one side as it was prepared; raise SuiteError if its tokenizer was not stored."""
        file = self.folder / f"{side}.tokenizer"
        vocabulary = self.load_json(SOURCE, self.vocabulary) if side == "source" else self.vocabulary
        if not file.exists():
            raise SuiteError(
                f"the tokenizer of {side}s of {self.config.name} was not stored, so it cannot encode new texts. If "
                "the task comes from an older version, run the suite again; else build its encoders by `encoder`."
            )
        if isinstance(settings, Pretrained):
            return _of_pretrained(self._pretrained, vocabulary)
        return restored(settings, vocabulary, file.read_bytes())

    def save_sizes(self, split: Split, sizes: Numbers) -> None:
        """Write the sizes of the raw texts of targets [R, 2], in bytes and characters, to the folder."""
        np.save(self.folder / f"{split}.sizes.npy", sizes, allow_pickle=False)

    def load_sizes(self, split: Split, ids: Iterable[int]) -> Mapping[int, TextSize | None]:
        """Return the sizes that `save_sizes` wrote, if it did, by the ids [R] of targets; None in place of `NONE`."""
        path = self.folder / f"{split}.sizes.npy"
        if not path.exists():
            return {}
        rows = zip(ids, np.load(path, allow_pickle=False).tolist(), strict=True)
        return {number: TextSize(*row) if row[0] != NONE else None for number, row in rows}

    @property
    def target_tokenizer(self) -> Learned | Pretrained:
        """The settings of the tokenizer of targets; by default the only one."""
        found: Learned | Pretrained = self.config.tokenizer
        return found

    @cached_property
    def _pretrained(self) -> Numbered:
        return Numbered.of(Pretrained(kind="pretrained", path=".", stop=self.vocabulary[STOP]), self.folder)

    def text(self, tokens: list[int]) -> str:
        """Return the text of tokens; one that stands for no text, such as `<unk>`, becomes a sign of no corpus."""
        return self.join(tokens, UNREADABLE)

    def join(self, tokens: Sequence[int], unknown: str) -> str:
        """Return the text of tokens, with `unknown` in place of those that stand for no text."""
        if not isinstance(self.target_tokenizer, Pretrained):
            return join(self.target_tokenizer.kind, [self.vocabulary[token] for token in tokens], unknown)
        runs: list[list[int]] = [[]]
        for token in tokens:
            if self.vocabulary[token] == PAD:
                runs.append([])
            else:
                runs[-1].append(token)
        return f" {unknown} ".join([self._pretrained.text(run, unknown) for run in runs])


def _of_pretrained(given: Numbered, vocabulary: Sequence[str]) -> Encoder:
    extras = {"tokenizer": corpora.digest(given.file), "stop": given.stop}
    return Encoder(
        vocabulary, given.encode, given.ordinary, given.rest, given.unknown, extras, given.pieces, saved=b""
    )


def token_statistics(rows: Ragged, unknown: int | None = 1, side: str = "") -> dict[str, Any]:
    """Return statistics of tokens for reports: their number, types, unknown ones, and lengths of rows.

    `side`, such as `source_`, is put before each key; `unknown` is the token that counts as unknown, if there is one.
    """
    lengths = rows.lengths
    found = {
        "tokens": len(rows.tokens),
        "types": len(np.unique(rows.tokens)),
        "unknown": 0 if unknown is None else int((rows.tokens == unknown).sum()),
        "mean_length": round(float(lengths.mean()), 2),
        "max_length": int(lengths.max()),
    }
    return {f"{side}{name}": number for name, number in found.items()}
