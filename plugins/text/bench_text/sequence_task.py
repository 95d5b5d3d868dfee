"""Tasks in one method: vocabularies, batches, texts and statistics follow from the examples."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import (
    Batch,
    DataError,
    Noise,
    PluginError,
    Prompt,
    Purpose,
    Size,
    Source,
    Split,
    SuiteError,
    TaskInfo,
    TextSize,
)
from bench_text import corpora, dropout
from bench_text.corpora import SPLITS
from bench_text.cut_text import Asked, are_spaced, cut, digest_of
from bench_text.encoder import PAD, UNKNOWN, UNREADABLE, Encoder
from bench_text.examples import DIMENSIONS, TEXTS, EncodedExamples, Example, numbered, numbers
from bench_text.ragged import Numbers, Ragged
from bench_text.raw_text import size, utf8
from bench_text.settings import Pretrained
from bench_text.stored_examples import StoredExamples
from bench_text.token_sizes import NONE
from bench_text.tokenized import TokenizedTask, token_statistics

NAMES = {" ": "space", "": "none"}  #: of separators in signatures


class SequenceTask(TokenizedTask):
    """A task of texts: its author writes `examples`, and its Config is a `SequenceTaskConfig`.

    Targets and sources of TOKENS end with stop, which their lengths count; a BAG is sorted by token and has no stop.
    The vocabulary is learned from the training split. With `prefix: k`, the first k tokens of a target are its
    opening, a shorter target has `<cpad>` on its left, and references are by default the text after the prefix.

    Methods other than `examples` may be overridden: `encoders`, `choose`, `statistics`, `about`, `text`.
    """

    counted = "examples"  #: how statistics call examples
    cuts_anew = True

    @abstractmethod
    def examples(self, split: Split, data: Path) -> Iterable[tuple[Any, ...]]:
        """Yield (source, target), (source, target, references) or (source, target, references, weight) of a split.

        A source is a text, of a VECTOR or GRID its numbers, and None without a source. What else an example can have
        is in `Example`, which is such a tuple. `data` is the data directory; the Config's `reads` has the digests of
        all files that are read from it and are no settings.
        """

    @property
    def splits(self) -> Sequence[Split]:
        """The splits that it has, "train" the first of them."""
        return SPLITS

    @property
    def prefix(self) -> int:
        """The number of tokens of a target that are in its opening."""
        return int(getattr(self.config, "prefix", 0))

    def prepare(self, data: Path) -> TaskInfo:
        """Write all examples to the folder; raise DataError for a split without any, PluginError for a wrong one."""
        found = {split: self._read(split, data) for split in self.splits}
        if isinstance(self.base, TokenizedTask):
            self.save_tokenizers_of(self.base)
        source, target = self._known_encoders() if self.base else self.encoders(data, found)
        self.target_encoder = target
        pairs = ((self._given(one), one.target) for examples in found.values() for one in examples)
        is_spaced = getattr(self.config, "between", None) is None and are_spaced(pairs)
        if not self.base:
            self.save_tokenizers(target, source)
        statistics, shapes, texts = {}, {}, {}
        counts: list[int] = []
        for split, examples in found.items():
            encoded, left_out = self.choose(split, self._encoded(examples, source, target))
            statistics[split] = self.statistics(encoded) | left_out
            StoredExamples.of(encoded, self.config.source, self.prefix).save(self.folder, split)
            rows = [*self._text_rows(encoded, is_spaced)]
            self._save_texts(split, rows)
            texts[split] = {"asked": digest_of(rows), **self._save_written(split, encoded)}
            self._save_names(split, encoded.examples)
            if split != "train" and not self.prefix and len(encoded) == len(examples):
                self.save_sizes(split, self._sizes(encoded))
            if split == "train":
                counts = encoded.counts
                self._save_dropout(encoded)
            shapes[split] = encoded.source.shape[1:] if isinstance(encoded.source, np.ndarray) else ()
        if len(set(shapes.values())) > 1:
            raise PluginError(
                f"{type(self).__name__}.examples yielded sources of several shapes, by split: {shapes}."
            )
        between = self._between(is_spaced, any(map(self._given, found[self.splits[0]])))
        extras = {**self.about(data), **target.extras, **between, "statistics": statistics, "texts": texts}
        return TaskInfo(
            target.vocabulary, counts, source.vocabulary if source else (), next(iter(shapes.values())), extras
        )

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[Encoder | None, Encoder]:
        """Learn the vocabularies of sources, if these are texts, and of targets from the examples to train on."""
        train = [example for example in found.get("train", ()) if Purpose.TRAIN in example.purposes]
        targets, pad = [example.target for example in train], self.prefix > 0
        targets += [example.prompt for example in train if example.prompt]
        of_source, of_target = self.tokenizers
        if self.config.source not in TEXTS:
            return None, self.encoder(of_target, data, targets, pad=pad)
        sources = [example.source for example in train]
        if self.config.shared or isinstance(of_target, Pretrained):
            both = self.encoder(of_target, data, [*sources, *targets], pad=pad)
            return both, both
        return self.encoder(of_source, data, sources), self.encoder(of_target, data, targets, pad=pad)

    def _known_encoders(self) -> tuple[Encoder | None, Encoder]:
        """Return the encoders in the folder, which are those of what trainings read."""
        of_source, of_target = self.tokenizers
        source = self.restored("source", of_source) if self.config.source in TEXTS else None
        return source, self.restored("target", of_target)

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        """The settings of the tokenizers of sources and targets."""
        return self.config.tokenizer, self.config.tokenizer

    def source_rows(self, examples: Sequence[Example], encoder: Encoder | None) -> Ragged | Numbers | None:
        """Return sources as tokens, without stop, given their encoder, or as numbers; None without sources."""
        sources = [example.source for example in examples]
        if encoder:
            rows = encoder.encode(sources)
            return Ragged.of(map(sorted, rows) if self.config.source is Source.BAG else rows)
        return None if self.config.source is Source.NONE else numbers(sources, self.config.source)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Return the examples to use, and statistics of the others: those too long to train on are left out."""
        longest = self.config.longest
        if split != "train" or longest is None:
            return encoded, {}
        kept = np.flatnonzero(encoded.longer <= longest)
        if not len(kept):
            raise DataError(
                f"all {len(encoded):,} training examples of {self.config.name} have more than {longest} tokens. Set "
                "a larger `longest`."
            )
        return encoded.take(kept), {"left_out_long": len(encoded) - len(kept)}

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        """Return what reports show of a split: numbers of examples, of tokens without stop, types, and lengths."""
        found, of_source = {self.counted: len(encoded)}, encoded.source_encoder
        if of_source and isinstance(encoded.source, Ragged):
            found |= token_statistics(encoded.source, of_source.unknown, "source_")
            return found | token_statistics(encoded.target, encoded.encoder.unknown, "target_")
        return found | token_statistics(encoded.target, encoded.encoder.unknown)

    def about(self, data: Path) -> dict[str, Any]:
        """Return what reports show of its data: the files among the settings, if there are any.

        A corpus is `embedded` if it is not read from files.
        """
        files = [value for _, value in self.config if isinstance(value, Path)]
        names = [corpora.label(path) if path.is_file() else path.name for path in files]
        embedded = not files and not self.config.reads(data)
        shared = {"shared": self.config.shared} if self.config.source in TEXTS else {}
        return {"corpus": ", ".join(names) or self.config.name, "embedded": embedded, **shared}

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield an example a row; a size in tokens counts the longer side of each, with padding."""
        stored = StoredExamples.load(self.folder, split)
        if split == "train" and purpose is Purpose.TRAIN and noise:
            stored = dropout.segmented(stored, self.folder, noise, self.prefix)
        return stored.batches(purpose, size, noise, self.prefix)

    def prompt(self, tokens: list[int]) -> str:
        """Return the text of a prefix, without the padding on its left."""
        return self.text([token for token in tokens if self.vocabulary[token] != PAD])

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield a row for each new source, or each prefix of any length, encoded like the examples of a split.

        A prefix of fewer than `prefix` tokens has `<cpad>` on its left, if the vocabulary has it.
        """
        if self.config.source in DIMENSIONS:
            raise SuiteError(f"the prompts of {self.config.name} are numbers, not texts. Decode its splits instead.")
        has_source, (source, target) = self.config.source in TEXTS, self._known_encoders()
        texts, wanted = self.normalized([one.text for one in prompts], targets or [""] * len(prompts))
        rows = [
            Example(text if has_source else None, due, id=one.id, prompt="" if has_source else text)
            for one, text, due in zip(prompts, texts, wanted, strict=True)
        ]
        encoded = self.fitted(self._encoded(rows, source, target))
        if encoded.prompt and target.vocabulary[-1] == PAD:
            pad = len(target.vocabulary) - 1
            padded = ([*[pad] * (self.prefix - len(row)), *row] for row in encoded.prompt)
            encoded = replace(encoded, prompt=Ragged.of(padded))
        stored = StoredExamples.of(encoded, self.config.source)
        yield from stored.batches(Purpose.DECODE, Size(len(rows)))

    def normalized(self, prompts: Sequence[str], targets: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Return new texts as `examples` would yield them; by default unchanged."""
        return prompts, targets

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        """Return new examples within the limits that `choose` sets those of a test set; by default unchanged."""
        return encoded

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the references of each example to decode, as `examples` yielded them."""
        return {one.id: one.references for one in self._texts(split)}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the source text of each example to decode, if it has one."""
        return {one.id: one.prompt for one in self._texts(split) if one.prompt is not None}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return what stands between prompt and target, where a prefix was cut or there is white space already."""
        return {one.id: one.separator for one in self._texts(split) if one.separator is not None}

    def example_names(self, split: Split) -> Mapping[int, str]:
        """Return the name of each example that has one."""
        return {number: name for number, name, _ in self._names(split) if name is not None}

    def groups(self, split: Split) -> Mapping[int, int]:
        """Return the group of each example that has one, numbered as they come."""
        groups = {number: group for number, _, group in self._names(split) if group is not None}
        numbers = {group: place for place, group in enumerate(dict.fromkeys(groups.values()))}
        return {number: numbers[group] for number, group in groups.items()}

    def written(self, split: Split) -> Mapping[int, str]:
        """Return the targets that their tokens write differently from the first reference; none of train."""
        return dict(self.load_json(f"{split}.written.json", []))

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the size of the raw text of each target with a line break for its stop; none of train, or a prefix.

        It is None of texts that their tokens do not spell; all are left out if `choose` left out some of the split.
        """
        return self.load_sizes(split, StoredExamples.load(self.folder, split).ids.tolist())

    def _sizes(self, encoded: EncodedExamples) -> Numbers:
        """Return the sizes of the raw text of each target [R, 2]."""
        targets = [example.target for example in encoded.examples]
        raw = [example.target if example.raw is None else example.raw for example in encoded.examples]
        pieces = encoded.encoder.pieces or (lambda texts, rows: ([] for _ in texts))
        rows = zip(encoded.examples, raw, encoded.target, pieces(targets, encoded.target), strict=True)
        by_text = encoded.encoder.pieces is None
        spelled = [
            self._read_back(tokens) == text if by_text or one.raw is not None else b"".join(own) == utf8(text)
            for one, text, tokens, own in rows
        ]
        return np.array([size(text) if is_own else (NONE, NONE) for text, is_own in zip(raw, spelled, strict=True)])

    def _read_back(self, tokens: list[int]) -> str:
        """Return what `text` makes of tokens, in which `<unk>` is that word: a function of the tokens alone."""
        return self.text(tokens).replace(UNREADABLE, UNKNOWN)

    def _texts(self, split: Split) -> list[Asked]:
        return [Asked(*row) for row in self.load_json(f"{split}.texts.json")]

    def _save_names(self, split: Split, examples: Sequence[Example]) -> None:
        """Write id, name and group of each example, if there are such."""
        rows = [(one.id, one.name, one.group) for one in examples if (one.name, one.group) != (None, None)]
        if rows:
            self.save_json(f"{split}.names.json", rows)

    def _names(self, split: Split) -> list[tuple[int, str | None, str | None]]:
        return list(self.load_json(f"{split}.names.json", []))

    def _save_dropout(self, encoded: EncodedExamples) -> None:
        """Write what is needed to cut the texts to train on anew; raise SuiteError where that is not possible."""
        encoders = [one for one in (encoded.encoder, encoded.source_encoder) if one and one.merges]
        if encoders and (encoded.extras or self.config.source is Source.BAG):
            why = "a bag of tokens" if self.config.source is Source.BAG else "something of each token"
            raise SuiteError(f"{self.config.name} has {why}, so its tokenizer cannot have a `dropout`. Leave it out.")
        dropout.save(encoded, self.folder)

    def _read(self, split: Split, data: Path) -> list[Example]:
        """Return the examples of a split; raise DataError without any, PluginError if one is not as it must be."""
        where = f"{type(self).__name__}.examples", split
        found = numbered(self.examples(split, data), self.config.source, self.prefix > 0, *where)
        if not found:
            splits = ", ".join(self.splits)
            raise DataError(f"{self.config.name} has no examples in {split}. Each of {splits} needs some.")
        return found

    def _encoded(self, examples: list[Example], source: Encoder | None, target: Encoder) -> EncodedExamples:
        names = sorted({name for example in examples for name in example.extras})
        prompts = [example.prompt for example in examples]
        return EncodedExamples(
            examples,
            target,
            Ragged.of(target.encode([example.target for example in examples])),
            source,
            self.source_rows(examples, source),
            {name: Ragged.of([*one.extras.get(name, ())] for one in examples) for name in names},
            Ragged.of(target.encode(prompts)) if any(prompts) else None,
        )

    def _save_texts(self, split: Split, rows: Iterable[Asked]) -> None:
        """Write each example to decode as text."""
        self.save_json(f"{split}.texts.json", [*rows])

    def _save_written(self, split: Split, encoded: EncodedExamples) -> dict[str, int]:
        """Write the targets that tokens change, and return of how many references they make another text."""
        if split == "train":
            return {}
        asked, written, lost, number = self.references(split), list[tuple[int, str]](), 0, 0
        for example, tokens in zip(encoded.examples, encoded.target, strict=True):
            references = asked.get(example.id or 0)
            if references and Purpose.SCORE in example.purposes:
                text, number = self.text(tokens[self.prefix :]), number + 1
                written += [(example.id or 0, text)] if text != references[0] else []
                lost += text not in references
        if written:
            self.save_json(f"{split}.written.json", written)
        return {"references": number, "unwritable": lost}

    def _given(self, example: Example) -> str | None:
        """Return the text that an example is made from: its source or its prompt."""
        return example.source if self.config.source in TEXTS else example.prompt or None

    def _between(self, is_spaced: bool, has_prompts: bool) -> dict[str, str]:
        """Return what signatures say of the border between prompts and targets; nothing where there is none."""
        if has_prompts:
            return {"between": "none" if is_spaced else NAMES.get(self.config.separator, repr(self.config.separator))}
        return {"between": "cut"} if self.prefix else {}

    def _text_rows(self, encoded: EncodedExamples, is_spaced: bool) -> Iterator[Asked]:
        targets = [example.target for example in encoded.examples]
        rests = encoded.encoder.rest(targets, encoded.target, self.prefix) if self.prefix else targets
        for example, rest in zip(encoded.examples, rests, strict=True):
            if Purpose.DECODE not in example.purposes:
                continue
            given = self._given(example)
            text, separator = given if example.source_text is None else example.source_text, None
            if given is None and self.prefix:
                text, separator = cut(example.target, rest, self.target_tokenizer.kind)
            elif is_spaced:
                separator = ""
            own = [rest] if Purpose.SCORE in example.purposes else []  # without a target there is none
            yield Asked(example.id or 0, [*example.references] or own, text, separator)
