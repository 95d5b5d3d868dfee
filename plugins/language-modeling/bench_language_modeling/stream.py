"""The language modeling task: predict every token of a stream from the tokens before it.

It is not a `SequenceTask`, because rows are windows of a stream that continue the rows of the previous batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from bench_core import STOP, Batch, DataError, Prompt, Purpose, Rng, Size, Split, SuiteError, TaskInfo, TextSize
from bench_language_modeling import corpus
from bench_language_modeling.plugin import LanguageModelingConfig
from bench_text.api import (
    Encoder,
    Numbers,
    Ragged,
    StoredExamples,
    TokenizedTask,
    TokenSizes,
    padded,
    shuffled,
    token_statistics,
)

MIN_TOKENS = 5  # in each split


class LanguageModeling(TokenizedTask):
    """A stream of tokens, divided into windows; with `stops`, EOS follows each line.

    Window w begins at token w * window and has the id w, for any batch size. With a random offset in training,
    windows and their ids differ between epochs.
    """

    config: LanguageModelingConfig

    def prepare(self, data: Path) -> TaskInfo:
        text = corpus.text(self.config.corpus, data)
        lines = {split: text.read(split) for split in self.config.corpus.splits}
        encoder = self._encoder(data, lines)
        ending = [STOP] * (text.stops if self.config.stops is None else self.config.stops)
        rows = {split: Ragged.of([*row, *ending] for row in encoder.encode(lines[split])) for split in lines}
        for split, stream in rows.items():
            if len(stream.tokens) < MIN_TOKENS:
                raise DataError(
                    f"the {split} split of {text.name} has {len(stream.tokens)} tokens; {MIN_TOKENS} are needed."
                )
            np.save(self.folder / f"{split}.npy", stream.tokens, allow_pickle=False)
            if split != "train":
                self._save_window_sizes(split, lines[split], encoder, stream, bool(ending))
        train = rows["train"].tokens if "train" in rows else ()
        counts = np.bincount(train, minlength=len(encoder.vocabulary)).tolist() if len(train) else []
        statistics = {
            split: {"lines": len(each), **token_statistics(each, encoder.unknown)} for split, each in rows.items()
        }
        has_best = text.nats and "test" in rows
        best = {"entropy": text.nats["test"] / len(rows["test"].tokens)} if has_best else {}  # nats per token
        parts = {"parts": self.config.parts} if self.config.parts > 1 else {}
        extras = {**text.about, **encoder.extras, "statistics": statistics, **best, **parts}
        return TaskInfo(encoder.vocabulary, counts, extras=extras, consecutive=True)

    def _encoder(self, data: Path, lines: Mapping[Split, Sequence[str]]) -> Encoder:
        """Learn and store the vocabulary, or copy the vocabulary of `base`, which training uses."""
        if isinstance(self.base, TokenizedTask):
            self.save_tokenizers_of(self.base)
            return self.restored("target", self.config.tokenizer)
        encoder = self.encoder(self.config.tokenizer, data, lines.get("train", ()), lines.get("valid", ()))
        self.save_tokenizers(encoder)
        return encoder

    def _save_window_sizes(
        self, split: Split, lines: Sequence[str], encoder: Encoder, stream: Ragged, stops: bool
    ) -> None:
        """Write the raw text size of each window, if the tokenizer knows the sizes of tokens."""
        if encoder.pieces:
            rows = (row[:-1] if stops else row for row in stream)
            sizes = TokenSizes.of(lines, encoder.pieces(lines, rows), stops)
            self.save_sizes(split, sizes.sums(self._edges(len(stream.tokens))))

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        """Yield the windows of the whole stream, which contain every token once.

        With `partition: sequential`, N rows read N equal parts of the stream, and each batch continues the previous
        batch; the remaining windows, fewer than N, are independent. In training, N is the batch size; in scoring, it
        is `parts` for any batch size: by default, one row reads the whole stream. With `partition: random`, and in
        shuffled evaluations, windows are independent.
        """
        if purpose == Purpose.DECODE:
            raise SuiteError("'language-modeling' has no prompts to continue. Use 'sequence-completion'.")
        stream = np.load(self.folder / f"{split}.npy", mmap_mode="r", allow_pickle=False)
        independent = self.config.partition == "random" or (rng is not None and purpose != Purpose.TRAIN)
        edges = self._edges(len(stream), rng if independent and purpose == Purpose.TRAIN else None)
        number = size.number if size.unit == "rows" else max(1, size.number // self.config.window)
        windows = len(edges) - 1
        parts = number if purpose == Purpose.TRAIN else self.config.parts
        order = _independent(shuffled(windows, rng), number) if independent else _parallel(windows, parts, number)
        for rows, continues in order:
            starts, ends = edges[rows], edges[rows + 1]
            before = np.where(starts > 0, stream[starts - 1], STOP).astype(np.int64)  # BOS before the first
            yield Batch(
                ids=torch.from_numpy(rows),
                prompt=torch.from_numpy(before)[:, None],
                gold=padded(stream, starts, ends),
                length=torch.from_numpy(ends - starts),
                continues=continues,
            )

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield a row for each new prompt, with BOS before the prompt."""
        encoder = self.restored("target", self.config.tokenizer)
        prefixes = Ragged.of(encoder.encode([" ".join(prompt.text.split()) for prompt in prompts]))
        rest = encoder.encode(targets or [""] * len(prompts))
        rows = Ragged.of([*prefix, *row, STOP] for prefix, row in zip(prefixes, rest, strict=True))
        ids = np.array([prompt.id for prompt in prompts], np.int64)
        stored = StoredExamples(ids, rows, prompt=prefixes.lengths)
        yield from stored.batches(Purpose.DECODE, Size(len(prompts)))

    def _edges(self, tokens: int, rng: Rng | None = None) -> Numbers:
        """Return the edges of windows; with an rng, the first window is shortened to a random offset."""
        window = self.config.window
        offset = int(rng.shared("offset", (1,)) * window) if rng else 0
        return np.unique(np.r_[0, np.arange(offset, tokens, window), tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return an empty list for each window, as there are no outputs to compare."""
        stream = np.load(self.folder / f"{split}.npy", mmap_mode="r", allow_pickle=False)
        return {place: [] for place in range(len(self._edges(len(stream))) - 1)}

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the raw text size of each window, with a line break for each EOS; empty for train.

        The text consists of the lines of `Text.read`. A size is None if the window shares a line with tokens whose
        text is unknown, such as `<unk>`.
        """
        return self.load_sizes(split, self.references(split))


def _parallel(windows: int, parts: int, most: int) -> Iterator[tuple[Numbers, bool]]:
    """Yield the windows of `parts` equal parts, at most `most` parts at a time, then the remaining windows."""
    steps = windows // parts
    for some in np.array_split(np.arange(parts), range(most, parts, most)):
        for step in range(steps):
            yield some * steps + step, step > 0
    yield from _independent(np.arange(parts * steps, windows), most)


def _independent(order: Numbers, number: int) -> Iterator[tuple[Numbers, bool]]:
    """Yield `number` independent windows at a time, in the given order."""
    return ((order[start : start + number], False) for start in range(0, len(order), number))
