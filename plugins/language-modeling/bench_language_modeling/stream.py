"""The language modeling task: every token of a stream, given all tokens before it.

It is no `SequenceTask`: rows are windows of one stream, which go on where those of the last batch ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from bench_core import STOP, Batch, DataError, Noise, Prompt, Purpose, Size, Split, SuiteError, TaskInfo, TextSize
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

FEWEST = 5  # tokens that a split must have


class LanguageModeling(TokenizedTask):
    """A stream of tokens, cut into windows; the stops between lines are among its tokens.

    The id of a window is its number: window w begins at token w * window, whatever the size of a batch. Only where
    training takes a random offset are windows others in each epoch, and numbered anew.
    """

    config: LanguageModelingConfig

    def prepare(self, data: Path) -> TaskInfo:
        text = corpus.text(self.config.corpus, data)
        lines = {split: text.read(split) for split in self.config.corpus.splits}
        encoder = self._encoder(data, lines)
        ending = [STOP] * (text.stops if self.config.stops is None else self.config.stops)
        rows = {split: Ragged.of([*row, *ending] for row in encoder.encode(lines[split])) for split in lines}
        for split, stream in rows.items():
            if len(stream.tokens) < FEWEST:
                raise DataError(
                    f"the {split} split of {text.name} has {len(stream.tokens)} tokens; at least {FEWEST} are needed."
                )
            np.save(self.folder / f"{split}.npy", stream.tokens, allow_pickle=False)
            if split != "train":
                self._save_window_sizes(split, lines[split], encoder, stream, bool(ending))
        train = rows["train"].tokens if "train" in rows else ()
        counts = np.bincount(train, minlength=len(encoder.vocabulary)).tolist() if len(train) else []
        found = {
            split: {"lines": len(each), **token_statistics(each, encoder.unknown)} for split, each in rows.items()
        }
        has_best = text.nats and "test" in rows
        best = {"entropy": text.nats["test"] / len(rows["test"].tokens)} if has_best else {}  # nats per token
        parts = {"parts": self.config.parts} if self.config.parts > 1 else {}
        extras = {**text.about, **encoder.extras, "statistics": found, **best, **parts}
        return TaskInfo(encoder.vocabulary, counts, extras=extras, consecutive=True)

    def _encoder(self, data: Path, lines: Mapping[Split, Sequence[str]]) -> Encoder:
        """Learn the vocabulary, or take that of what trainings read; the folder has it then."""
        if isinstance(self.base, TokenizedTask):
            self.save_tokenizers_of(self.base)
            return self.restored("target", self.config.tokenizer)
        found = self.encoder(self.config.tokenizer, data, lines.get("train", ()), lines.get("valid", ()))
        self.save_tokenizers(found)
        return found

    def _save_window_sizes(
        self, split: Split, lines: Sequence[str], encoder: Encoder, stream: Ragged, stops: bool
    ) -> None:
        """Write the sizes of the raw text of each window, if the tokenizer knows that of tokens."""
        if encoder.pieces:
            rows = (row[:-1] if stops else row for row in stream)
            sizes = TokenSizes.of(lines, encoder.pieces(lines, rows), stops)
            self.save_sizes(split, sizes.sums(self._edges(len(stream.tokens))))

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield the windows of the whole stream, every token in one of them.

        With `partition: sequential`, N rows read N equal parts of the stream, each batch going on where the last one
        ended; the fewer than N windows that remain stand alone. To train, N is the size of a batch; to score, it is
        `parts`, whatever that size: by default one row reads the whole stream. Else, and where an evaluation is
        shuffled, windows stand alone.
        """
        if purpose == Purpose.DECODE:
            raise SuiteError("'language-modeling' has no prefixes to go on from; 'sequence-completion' has.")
        stream = np.load(self.folder / f"{split}.npy", mmap_mode="r", allow_pickle=False)
        alone = self.config.partition == "random" or (noise is not None and purpose != Purpose.TRAIN)
        edges = self._edges(len(stream), noise if alone and purpose == Purpose.TRAIN else None)
        number = size.number if size.unit == "rows" else max(1, size.number // self.config.window)
        windows = len(edges) - 1
        parts = number if purpose == Purpose.TRAIN else self.config.parts
        order = _apart(shuffled(windows, noise), number) if alone else _abreast(windows, parts, number)
        for rows, continues in order:
            starts, ends = edges[rows], edges[rows + 1]
            before = np.where(starts > 0, stream[starts - 1], STOP).astype(np.int64)  # at first, a stop
            yield Batch(
                ids=torch.from_numpy(rows),
                opening=torch.from_numpy(before)[:, None],
                gold=padded(stream, starts, ends),
                length=torch.from_numpy(ends - starts),
                continues=continues,
            )

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield a row for each new prefix, which begins after a stop."""
        encoder = self.restored("target", self.config.tokenizer)
        prefixes = Ragged.of(encoder.encode([" ".join(one.text.split()) for one in prompts]))
        rest = encoder.encode(targets or [""] * len(prompts))
        rows = Ragged.of([*prefix, *row, STOP] for prefix, row in zip(prefixes, rest, strict=True))
        ids = np.array([one.id for one in prompts], np.int64)
        stored = StoredExamples(ids, rows, opening=prefixes.lengths)
        yield from stored.batches(Purpose.DECODE, Size(len(prompts)))

    def _edges(self, tokens: int, noise: Noise | None = None) -> Numbers:
        """Return where windows begin, and the stream ends; the first is shorter by a random offset, given noise."""
        window = self.config.window
        offset = int(noise.shared("offset", (1,)) * window) if noise else 0
        return np.unique(np.r_[0, np.arange(offset, tokens, window), tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return no text for each window: there are no outputs to compare with one."""
        stream = np.load(self.folder / f"{split}.npy", mmap_mode="r", allow_pickle=False)
        return {place: [] for place in range(len(self._edges(len(stream))) - 1)}

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the size of the raw text of each window with a line break for each stop; none of train.

        The text is that of the lines as `Text.read` gives them. Windows that share a line with tokens that do not
        spell it, such as `<unk>`, have None.
        """
        return self.load_sizes(split, self.references(split))


def _abreast(windows: int, parts: int, most: int) -> Iterator[tuple[Numbers, bool]]:
    """Yield the windows of so many equally long parts, at most `most` side by side, then those that are left over."""
    steps = windows // parts
    for some in np.array_split(np.arange(parts), range(most, parts, most)):
        for step in range(steps):
            yield some * steps + step, step > 0
    yield from _apart(np.arange(parts * steps, windows), most)


def _apart(order: Numbers, number: int) -> Iterator[tuple[Numbers, bool]]:
    """Yield `number` windows at a time, in the given order."""
    return ((order[start : start + number], False) for start in range(0, len(order), number))
