"""spaCy parsers: installed pipelines, or a parser trained on a treebank."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, minibatch_by_words
from spacy.util import fix_random_seed  # type: ignore[attr-defined]

from bench_core import DataError
from bench_translation.conllu import ParsedSentence, sentences
from bench_translation.settings import WAYS, Treebank

DROPOUT = 0.1
BATCH_WORDS = 500  # words per batch
EXCLUDED_PIPES = ["ner", "lemmatizer", "textcat"]  # not used by parsers


def load(name: str, folder: Path) -> tuple[Language, dict[str, Any]]:
    """Load a pipeline; raise DataError if spaCy cannot load it."""
    try:
        pipeline = spacy.load(folder if (folder / "config.cfg").is_file() else name, exclude=EXCLUDED_PIPES)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(
            f"spaCy cannot load the pipeline {name!r} from {folder}: {reason} Install it again, or choose another."
        ) from error
    meta = pipeline.meta
    uas = meta.get("performance", {}).get("dep_uas")
    about = {"name": f"{meta['lang']}_{meta['name']} {meta['version']}", "uas": None if uas is None else 100 * uas}
    return pipeline, about


def parse(pipeline: Language, lines: Iterable[list[str]]) -> Iterator[list[int]]:
    """Yield the heads of the words of each line, without retokenization; a root is its own head."""
    texts = (Doc(pipeline.vocab, words) for words in lines)
    for doc in pipeline.pipe(texts):
        if not doc.has_annotation("DEP"):
            raise DataError(
                f"the spaCy pipeline {pipeline.meta['lang']}_{pipeline.meta['name']} has no parser, only "
                f"{', '.join(pipeline.pipe_names) or 'a tokenizer'}. Choose another pipeline. {WAYS}."
            )
        yield [token.head.i for token in doc]


def train_parser(
    settings: Treebank, paths: Mapping[str, Sequence[Path]], to_lower: Callable[[str], str]
) -> tuple[Language, dict[str, Any]]:
    """Train a parser with spaCy's default settings, deterministically."""
    pipeline = spacy.blank("xx")
    train, dev = ([*_documents(pipeline, sentences(paths[part]), to_lower)] for part in ("train", "dev"))
    with _seed(settings.seed):
        try:
            _train(pipeline, train, settings)
        except ValueError as error:
            reason = str(error).strip().splitlines()[0]
            folder = paths["train"][0].parent
            raise DataError(f"spaCy cannot learn a parser from {folder}: {reason} Use a larger treebank.") from error
    scores = pipeline.evaluate([_example(pipeline, doc) for doc in dev])
    name = f"learned from {settings.treebank} in {settings.steps} steps, seed {settings.seed}"
    return pipeline, {"name": name, "uas": round(100 * scores["dep_uas"], 2)}


def _train(pipeline: Language, train: list[Doc], settings: Treebank) -> None:
    pipeline.add_pipe("parser")
    optimizer = pipeline.initialize(lambda: [_example(pipeline, doc) for doc in train])
    for batch in islice(_batches(train, settings.seed), settings.steps):
        pipeline.update([_example(pipeline, doc) for doc in batch], drop=DROPOUT, sgd=optimizer)


def _documents(pipeline: Language, trees: Iterable[ParsedSentence], to_lower: Callable[[str], str]) -> Iterator[Doc]:
    """Yield documents of one, two or three sentences, so that the parser also learns sentence boundaries."""
    trees = iter(trees)
    for number in cycle([1, 2, 3]):
        group = [*islice(trees, number)]
        if not group:
            return
        words, heads, relations = list[str](), list[int](), list[str]()
        for tree in group:
            heads += [len(words) + head for head in tree.heads]
            words += [to_lower(word) for word in tree.words]
            relations += ["ROOT" if name == "root" else name for name in tree.relations]
        yield Doc(pipeline.vocab, words, heads=heads, deps=relations)


def _example(pipeline: Language, doc: Doc) -> Example:
    return Example(Doc(pipeline.vocab, [token.text for token in doc]), doc)


def _batches(docs: list[Doc], seed: int) -> Iterator[list[Doc]]:
    """Yield random batches indefinitely."""
    turns = random.Random(seed)
    while True:
        yield from minibatch_by_words(turns.sample(docs, len(docs)), BATCH_WORDS)


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Seed the generators that spaCy uses, and restore their states afterwards."""
    before, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        fix_random_seed(seed)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numbers)
