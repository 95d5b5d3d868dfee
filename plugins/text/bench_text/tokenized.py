"""Tasks with tokenized targets: they learn and store vocabularies, and convert tokens to text."""

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
from bench_text.pretrained import FILE, PretrainedTokenizer
from bench_text.ragged import Numbers, Ragged
from bench_text.settings import Learned, Pretrained
from bench_text.token_sizes import UNKNOWN_SIZE
from bench_text.tokens import learn, restore

SOURCE = "source.vocabulary.json"  # for sources with a separate vocabulary


class TokenizedTask(Task):
    """A task whose targets are tokens of a learned vocabulary or of a pretrained model.

    Its Config has a setting `tokenizer`. Its `prepare` calls `encoder` and `save_vocabulary`.
    """

    cuts_anew: ClassVar[bool] = False  #: whether training texts are segmented in each epoch, as `dropout` requires

    def encoder(
        self,
        settings: Learned | Pretrained,
        data: Path,
        train: Sequence[str],
        valid: Sequence[str] = (),
        pad: bool = False,
    ) -> Encoder:
        """Learn a vocabulary from texts, or copy a pretrained model's vocabulary to the folder.

        Words and characters are learned from `train` and `valid`, byte pairs from `train` alone. `pad` appends
        `<cpad>`. Raises DataError if a pretrained tokenizer is missing or damaged, and SuiteError for `dropout` if
        `cuts_anew` is False.
        """
        if getattr(settings, "dropout", 0) and not self.cuts_anew:
            name = self.config.name
            raise SuiteError(
                f"{name} segments texts only once, so its tokenizer does not support `dropout`. Remove it."
            )
        if not isinstance(settings, Pretrained):
            return learn(settings, train, valid, pad)
        tokenizer = PretrainedTokenizer.of(settings, data)
        shutil.copyfile(tokenizer.file, self.folder / FILE)
        return _of_pretrained(tokenizer, [*tokenizer.vocabulary, *[PAD] * pad])

    def save_vocabulary(self, vocabulary: Sequence[str]) -> None:
        """Write the names of target tokens to the folder."""
        self.save_json("vocabulary.json", vocabulary)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The names of target tokens."""
        return list(self.load_json("vocabulary.json"))

    def save_json(self, name: str, value: Any) -> None:
        """Write JSON data to a file in the folder."""
        (self.folder / name).write_text(json.dumps(value), encoding="utf-8")

    def load_json(self, name: str, default: Any = None) -> Any:
        """Return the JSON data of a file in the folder, or `default` if it is not None and the file is missing."""
        path = self.folder / name
        return default if default is not None and not path.exists() else json.loads(path.read_text(encoding="utf-8"))

    def save_tokenizers(self, target: Encoder, source: Encoder | None = None) -> None:
        """Write the data that `restored` needs to the folder."""
        self.save_vocabulary(target.vocabulary)
        if source is not None and source is not target:
            self.save_json(SOURCE, source.vocabulary)
        for side, encoder in {"target": target, "source": source}.items():
            if encoder is not None and encoder.saved is not None:
                (self.folder / f"{side}.tokenizer").write_bytes(encoder.saved)

    def save_tokenizers_of(self, other: TokenizedTask) -> None:
        """Copy the data that `restored` needs from the folder of a task with the same tokenizers."""
        for name in ("vocabulary.json", SOURCE, FILE, "source.tokenizer", "target.tokenizer"):
            if (other.folder / name).exists():
                shutil.copyfile(other.folder / name, self.folder / name)

    def restored(self, side: Literal["source", "target"], settings: Learned | Pretrained) -> Encoder:
        """Restore the encoder of sources or targets; raise SuiteError if the tokenizer was not stored."""
        file = self.folder / f"{side}.tokenizer"
        vocabulary = self.load_json(SOURCE, self.vocabulary) if side == "source" else self.vocabulary
        if not file.exists():
            raise SuiteError(
                f"the {side} tokenizer of {self.config.name} was not stored, so it cannot encode new texts. If "
                "the task was prepared by an older version, run the suite again; otherwise build its encoders by "
                "`encoder`."
            )
        if isinstance(settings, Pretrained):
            return _of_pretrained(self._pretrained, vocabulary)
        return restore(settings, vocabulary, file.read_bytes())

    def save_sizes(self, split: Split, sizes: Numbers) -> None:
        """Write the sizes of raw target texts, in bytes and characters [R, 2], to the folder."""
        np.save(self.folder / f"{split}.sizes.npy", sizes, allow_pickle=False)

    def load_sizes(self, split: Split, ids: Iterable[int]) -> Mapping[int, TextSize | None]:
        """Return the sizes written by `save_sizes` by target id [R]; None for UNKNOWN_SIZE; empty without sizes."""
        path = self.folder / f"{split}.sizes.npy"
        if not path.exists():
            return {}
        rows = zip(ids, np.load(path, allow_pickle=False).tolist(), strict=True)
        return {number: TextSize(*row) if row[0] != UNKNOWN_SIZE else None for number, row in rows}

    @property
    def target_tokenizer(self) -> Learned | Pretrained:
        """The settings of the target tokenizer."""
        settings: Learned | Pretrained = self.config.tokenizer
        return settings

    @cached_property
    def _pretrained(self) -> PretrainedTokenizer:
        return PretrainedTokenizer.of(
            Pretrained(kind="pretrained", path=".", stop=self.vocabulary[STOP]), self.folder
        )

    def text(self, tokens: list[int]) -> str:
        """Return the text of tokens; `<unk>` becomes UNREADABLE, a character that occurs in no corpus."""
        return self.join(tokens, UNREADABLE)

    def join(self, tokens: Sequence[int], unknown: str) -> str:
        """Return the text of tokens, with `unknown` in place of tokens without text."""
        if not isinstance(self.target_tokenizer, Pretrained):
            return join(self.target_tokenizer.kind, [self.vocabulary[token] for token in tokens], unknown)
        runs: list[list[int]] = [[]]
        for token in tokens:
            if self.vocabulary[token] == PAD:
                runs.append([])
            else:
                runs[-1].append(token)
        return f" {unknown} ".join([self._pretrained.text(run, unknown) for run in runs])


def _of_pretrained(tokenizer: PretrainedTokenizer, vocabulary: Sequence[str]) -> Encoder:
    extras = {"tokenizer": corpora.digest(tokenizer.file), "stop": tokenizer.stop}
    return Encoder(
        vocabulary,
        tokenizer.encode,
        tokenizer.ordinary,
        tokenizer.rest,
        tokenizer.unknown,
        extras,
        tokenizer.pieces,
        saved=b"",
    )


def token_statistics(rows: Ragged, unknown: int | None = 1, side: str = "") -> dict[str, Any]:
    """Return token statistics for reports: numbers of tokens, types and unknown tokens, and row lengths.

    `side`, such as `source_`, is a prefix of each key; `unknown` is the unknown token, or None.
    """
    lengths = rows.lengths
    statistics = {
        "tokens": len(rows.tokens),
        "types": len(np.unique(rows.tokens)),
        "unknown": 0 if unknown is None else int((rows.tokens == unknown).sum()),
        "mean_length": round(float(lengths.mean()), 2),
        "max_length": int(lengths.max()),
    }
    return {f"{side}{name}": number for name, number in statistics.items()}
