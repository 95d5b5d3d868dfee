"""Tasks defined by a single method: vocabularies, batches, texts and statistics are derived from examples."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import (
    Batch,
    DataError,
    PluginError,
    Prompt,
    Purpose,
    Rng,
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
from bench_text.examples import DIMENSIONS, TEXTS, EncodedExamples, Example, as_examples, numbers
from bench_text.ragged import Numbers, Ragged
from bench_text.raw_text import size, utf8
from bench_text.settings import Pretrained
from bench_text.stored_examples import StoredExamples
from bench_text.token_sizes import UNKNOWN_SIZE
from bench_text.tokenized import TokenizedTask, token_statistics

SEPARATOR_NAMES = {" ": "space", "": "none"}  #: names of separators in signatures


class SequenceTask(TokenizedTask):
    """A text task: its author writes `examples`, and its Config is a `SequenceTaskConfig`.

    Targets and sources of TOKENS end with EOS, which is included in lengths; a BAG is sorted by token, without EOS.
    The vocabulary is learned from the training split. With `prefix: k`, the first k tokens of a target are its
    prompt, a shorter target is left-padded with `<cpad>`, and the default reference is the text after the prefix.

    The methods `encoders`, `choose`, `statistics`, `about` and `text` may also be overridden.
    """

    counted = "examples"  #: name of examples in statistics
    cuts_anew = True

    @abstractmethod
    def examples(self, split: Split, data: Path) -> Iterable[tuple[Any, ...]]:
        """Yield (source, target), (source, target, references) or (source, target, references, weight) of a split.

        A source is a text, the numbers of a VECTOR, GRID or IMAGE, or None without a source. `Example` is a tuple
        with further fields. `data` is the data directory; the Config's `reads` must return the digests of all files
        that are read from it and are not settings.
        """

    @property
    def splits(self) -> Sequence[Split]:
        """The splits, with "train" first."""
        return SPLITS

    @property
    def prefix(self) -> int:
        """The number of target tokens in the prompt."""
        return int(getattr(self.config, "prefix", 0))

    def prepare(self, data: Path) -> TaskInfo:
        """Write all examples to the folder; raise DataError for an empty split, PluginError for invalid examples."""
        splits = {split: self._read(split, data) for split in self.splits}
        if isinstance(self.base, TokenizedTask):
            self.save_tokenizers_of(self.base)
        source, target = self._stored_encoders() if self.base else self.encoders(data, splits)
        self.target_encoder = target
        pairs = ((self._input_text(each), each.target) for examples in splits.values() for each in examples)
        is_spaced = getattr(self.config, "between", None) is None and are_spaced(pairs)
        if not self.base:
            self.save_tokenizers(target, source)
        statistics, shapes, texts = {}, {}, {}
        counts: list[int] = []
        for split, examples in splits.items():
            encoded, left_out = self.choose(split, self._encode(examples, source, target))
            statistics[split] = self.statistics(encoded) | left_out
            StoredExamples.of(encoded, self.config.source, self.prefix).save(self.folder, split)
            rows = [*self._text_rows(encoded, is_spaced)]
            self._save_texts(split, rows)
            texts[split] = {"asked": digest_of(rows), **self._save_spellings(split, encoded)}
            self._save_names(split, encoded.examples)
            if split != "train" and not self.prefix and len(encoded) == len(examples):
                self.save_sizes(split, self._sizes(encoded))
            if split == "train":
                counts = encoded.counts
                self._save_dropout(encoded)
            shapes[split] = encoded.source.shape[1:] if isinstance(encoded.source, np.ndarray) else ()
        if len(set(shapes.values())) > 1:
            raise PluginError(f"{type(self).__name__}.examples yielded sources of different shapes: {shapes}.")
        between = self._between(is_spaced, any(map(self._input_text, splits[self.splits[0]])))
        extras = {**self.about(data), **target.extras, **between, "statistics": statistics, "texts": texts}
        return TaskInfo(
            target.vocabulary, counts, source.vocabulary if source else (), next(iter(shapes.values())), extras
        )

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[Encoder | None, Encoder]:
        """Learn the vocabularies of targets, and of sources that are texts, from the training examples."""
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

    def _stored_encoders(self) -> tuple[Encoder | None, Encoder]:
        """Return the encoders of the training data, which are stored in the folder."""
        of_source, of_target = self.tokenizers
        source = self.restored("source", of_source) if self.config.source in TEXTS else None
        return source, self.restored("target", of_target)

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        """The settings of the tokenizers of sources and targets."""
        return self.config.tokenizer, self.config.tokenizer

    def source_rows(self, examples: Sequence[Example], encoder: Encoder | None) -> Ragged | Numbers | None:
        """Return sources as tokens without EOS, given their encoder, or as numbers; None without sources."""
        sources = [example.source for example in examples]
        if encoder:
            rows = encoder.encode(sources)
            return Ragged.of(map(sorted, rows) if self.config.source is Source.BAG else rows)
        return None if self.config.source is Source.NONE else numbers(sources, self.config.source)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Return the examples to use, and statistics of the others; by default, exclude long training examples."""
        longest = self.config.longest
        if split != "train" or longest is None:
            return encoded, {}
        short = np.flatnonzero(encoded.longer <= longest)
        if not len(short):
            raise DataError(
                f"all {len(encoded):,} training examples of {self.config.name} have more than {longest} tokens. Set "
                "a larger `longest`."
            )
        return encoded.take(short), {"left_out_long": len(encoded) - len(short)}

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        """Return statistics of a split for reports: examples, tokens without EOS, types, and lengths."""
        numbers, of_source = {self.counted: len(encoded)}, encoded.source_encoder
        if of_source and isinstance(encoded.source, Ragged):
            numbers |= token_statistics(encoded.source, of_source.unknown, "source_")
            return numbers | token_statistics(encoded.target, encoded.encoder.unknown, "target_")
        return numbers | token_statistics(encoded.target, encoded.encoder.unknown)

    def about(self, data: Path) -> dict[str, Any]:
        """Return the data files among the settings, for reports; a corpus without files is `embedded`."""
        files = [value for _, value in self.config if isinstance(value, Path)]
        names = [corpora.label(path) if path.is_file() else path.name for path in files]
        embedded = not files and not self.config.reads(data)
        shared = {"shared": self.config.shared} if self.config.source in TEXTS else {}
        return {"corpus": ", ".join(names) or self.config.name, "embedded": embedded, **shared}

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        """Yield one example per row; a size in tokens counts the longer side of each example, including padding."""
        stored = StoredExamples.load(self.folder, split)
        if split == "train" and purpose is Purpose.TRAIN and rng:
            stored = dropout.segment(stored, self.folder, rng, self.prefix)
        return stored.batches(purpose, size, rng, self.prefix)

    def prompt(self, tokens: list[int]) -> str:
        """Return the text of a prefix without left padding."""
        return self.text([token for token in tokens if self.vocabulary[token] != PAD])

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield one row for each new source or prefix, of any length, encoded like the examples of a split.

        A prefix of fewer than `prefix` tokens is padded on the left with `<cpad>`, if the vocabulary has it.
        """
        if self.config.source in DIMENSIONS:
            raise SuiteError(f"the prompts of {self.config.name} are numbers, not texts. Decode its splits instead.")
        has_source, (source, target) = self.config.source in TEXTS, self._stored_encoders()
        texts, wanted = self.normalized([prompt.text for prompt in prompts], targets or [""] * len(prompts))
        rows = [
            Example(text if has_source else None, reference, id=prompt.id, prompt="" if has_source else text)
            for prompt, text, reference in zip(prompts, texts, wanted, strict=True)
        ]
        encoded = self.fitted(self._encode(rows, source, target))
        if encoded.prompt and target.vocabulary[-1] == PAD:
            pad = len(target.vocabulary) - 1
            padded = ([*[pad] * (self.prefix - len(row)), *row] for row in encoded.prompt)
            encoded = replace(encoded, prompt=Ragged.of(padded))
        stored = StoredExamples.of(encoded, self.config.source)
        yield from stored.batches(Purpose.DECODE, Size(len(rows)))

    def normalized(self, prompts: Sequence[str], targets: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Normalize new texts in the same way as `examples`; by default unchanged."""
        return prompts, targets

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        """Truncate new examples to the limits that `choose` sets for test sets; by default unchanged."""
        return encoded

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the references of each example to decode, as yielded by `examples`."""
        return {row.id: row.references for row in self._texts(split)}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the source text of each example to decode, if it has one."""
        return {row.id: row.prompt for row in self._texts(split) if row.prompt is not None}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return the separator between prompt and target, for texts split by `prefix` or with white space between."""
        return {row.id: row.separator for row in self._texts(split) if row.separator is not None}

    def example_names(self, split: Split) -> Mapping[int, str]:
        """Return the name of each example that has one."""
        return {number: name for number, name, _ in self._names(split) if name is not None}

    def groups(self, split: Split) -> Mapping[int, int]:
        """Return the group of each example that has one, numbered in order of appearance."""
        groups = {number: group for number, _, group in self._names(split) if group is not None}
        numbers = {group: index for index, group in enumerate(dict.fromkeys(groups.values()))}
        return {number: numbers[group] for number, group in groups.items()}

    def target_spellings(self, split: Split) -> Mapping[int, str]:
        """Return the target texts, decoded from tokens, that differ from the first reference; empty for train."""
        return dict(self.load_json(f"{split}.written.json", []))

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        """Return the size of each target's raw text, with a line break for EOS; empty for train or with a prefix.

        A size is None if the tokens do not represent the text. Empty if `choose` excluded examples of the split.
        """
        return self.load_sizes(split, StoredExamples.load(self.folder, split).ids.tolist())

    def _sizes(self, encoded: EncodedExamples) -> Numbers:
        """Return the sizes of the raw text of each target [R, 2]."""
        targets = [example.target for example in encoded.examples]
        raw = [example.target if example.raw is None else example.raw for example in encoded.examples]
        pieces = encoded.encoder.pieces or (lambda texts, rows: ([] for _ in texts))
        rows = zip(encoded.examples, raw, encoded.target, pieces(targets, encoded.target), strict=True)
        by_text = encoded.encoder.pieces is None
        exact = [
            self._read_back(tokens) == text
            if by_text or example.raw is not None
            else b"".join(spelling) == utf8(text)
            for example, text, tokens, spelling in rows
        ]
        unknown = (UNKNOWN_SIZE, UNKNOWN_SIZE)
        return np.array([size(text) if is_exact else unknown for text, is_exact in zip(raw, exact, strict=True)])

    def _read_back(self, tokens: list[int]) -> str:
        """Return the `text` of tokens with `<unk>` as a word; it depends on the tokens alone."""
        return self.text(tokens).replace(UNREADABLE, UNKNOWN)

    def _texts(self, split: Split) -> list[Asked]:
        return [Asked(*row) for row in self.load_json(f"{split}.texts.json")]

    def _save_names(self, split: Split, examples: Sequence[Example]) -> None:
        """Write the id, name and group of each example that has a name or group."""
        rows = [(each.id, each.name, each.group) for each in examples if (each.name, each.group) != (None, None)]
        if rows:
            self.save_json(f"{split}.names.json", rows)

    def _names(self, split: Split) -> list[tuple[int, str | None, str | None]]:
        return list(self.load_json(f"{split}.names.json", []))

    def _save_dropout(self, encoded: EncodedExamples) -> None:
        """Write the data for BPE-dropout of training texts; raise SuiteError if dropout is unsupported."""
        encoders = [encoder for encoder in (encoded.encoder, encoded.source_encoder) if encoder and encoder.merges]
        if encoders and (encoded.extras or self.config.source is Source.BAG):
            why = "a bag of tokens as source" if self.config.source is Source.BAG else "extras for each token"
            raise SuiteError(f"{self.config.name} has {why}, so its tokenizer does not support `dropout`. Remove it.")
        dropout.save(encoded, self.folder)

    def _read(self, split: Split, data: Path) -> list[Example]:
        """Return the examples of a split; raise DataError for an empty split, PluginError for an invalid example."""
        origin = f"{type(self).__name__}.examples", split
        examples = as_examples(self.examples(split, data), self.config.source, self.prefix > 0, *origin)
        if not examples:
            splits = ", ".join(self.splits)
            raise DataError(f"{self.config.name} has no examples in {split}. Each of {splits} needs at least one.")
        return examples

    def _encode(self, examples: list[Example], source: Encoder | None, target: Encoder) -> EncodedExamples:
        names = sorted({name for example in examples for name in example.extras})
        prompts = [example.prompt for example in examples]
        return EncodedExamples(
            examples,
            target,
            Ragged.of(target.encode([example.target for example in examples])),
            source,
            self.source_rows(examples, source),
            {name: Ragged.of([*each.extras.get(name, ())] for each in examples) for name in names},
            Ragged.of(target.encode(prompts)) if any(prompts) else None,
        )

    def _save_texts(self, split: Split, rows: Iterable[Asked]) -> None:
        """Write the texts of each example to decode."""
        self.save_json(f"{split}.texts.json", [*rows])

    def _save_spellings(self, split: Split, encoded: EncodedExamples) -> dict[str, int]:
        """Write the targets that encoding changes; return the number of targets, and how many equal no reference."""
        if split == "train":
            return {}
        all_references, changed, lost, number = self.references(split), list[tuple[int, str]](), 0, 0
        for example, tokens in zip(encoded.examples, encoded.target, strict=True):
            references = all_references.get(example.id or 0)
            if references and Purpose.SCORE in example.purposes:
                text, number = self.text(tokens[self.prefix :]), number + 1
                changed += [(example.id or 0, text)] if text != references[0] else []
                lost += text not in references
        if changed:
            self.save_json(f"{split}.written.json", changed)
        return {"references": number, "unwritable": lost}

    def _input_text(self, example: Example) -> str | None:
        """Return the source text or else the prompt of an example."""
        return example.source if self.config.source in TEXTS else example.prompt or None

    def _between(self, is_spaced: bool, has_prompts: bool) -> dict[str, str]:
        """Return the signature entry for the separator between prompts and targets; empty without prompts."""
        if has_prompts:
            return {
                "between": "none"
                if is_spaced
                else SEPARATOR_NAMES.get(self.config.separator, repr(self.config.separator))
            }
        return {"between": "cut"} if self.prefix else {}

    def _text_rows(self, encoded: EncodedExamples, is_spaced: bool) -> Iterator[Asked]:
        targets = [example.target for example in encoded.examples]
        rests = encoded.encoder.rest(targets, encoded.target, self.prefix) if self.prefix else targets
        for example, rest in zip(encoded.examples, rests, strict=True):
            if Purpose.DECODE not in example.purposes:
                continue
            given = self._input_text(example)
            text, separator = given if example.source_text is None else example.source_text, None
            if given is None and self.prefix:
                text, separator = cut(example.target, rest, self.target_tokenizer.kind)
            elif is_spaced:
                separator = ""
            default = [rest] if Purpose.SCORE in example.purposes else []  # without a target, there is no reference
            yield Asked(example.id or 0, [*example.references] or default, text, separator)
