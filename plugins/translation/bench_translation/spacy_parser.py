"""spaCy parsers: installed pipelines, or one trained on a treebank."""

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
from bench_translation.conllu import Sentence, sentences
from bench_translation.settings import WAYS, Treebank

DROPOUT = 0.1
WORDS = 500  # of a batch
NEEDLESS = ["ner", "lemmatizer", "textcat"]  # no parser asks them


def loaded(name: str, folder: Path) -> tuple[Language, dict[str, Any]]:
    """Load a pipeline; raise DataError if spaCy cannot."""
    try:
        pipeline = spacy.load(folder if (folder / "config.cfg").is_file() else name, exclude=NEEDLESS)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"spaCy cannot load the pipeline {name!r} from {folder}: {reason}") from error
    meta = pipeline.meta
    uas = meta.get("performance", {}).get("dep_uas")
    about = {"name": f"{meta['lang']}_{meta['name']} {meta['version']}", "uas": None if uas is None else 100 * uas}
    return pipeline, about


def parsed(pipeline: Language, lines: Iterable[list[str]]) -> Iterator[list[int]]:
    """Yield the heads of the words of each line, which spaCy does not cut anew; a root is its own head."""
    texts = (Doc(pipeline.vocab, words) for words in lines)
    for doc in pipeline.pipe(texts):
        if not doc.has_annotation("DEP"):
            raise DataError(
                f"the pipeline {pipeline.meta['lang']}_{pipeline.meta['name']} of spaCy has no parser, only "
                f"{', '.join(pipeline.pipe_names) or 'a tokenizer'}. Name another. {WAYS}."
            )
        yield [token.head.i for token in doc]


def trained(
    settings: Treebank, paths: Mapping[str, Sequence[Path]], lowered: Callable[[str], str]
) -> tuple[Language, dict[str, Any]]:
    """Train a parser of words, set up as spaCy does by default; the same settings give the same parser."""
    pipeline = spacy.blank("xx")
    train, dev = ([*_documents(pipeline, sentences(paths[part]), lowered)] for part in ("train", "dev"))
    with _seeded(settings.seed):
        try:
            _train(pipeline, train, settings)
        except ValueError as error:
            reason = str(error).strip().splitlines()[0]
            folder = paths["train"][0].parent
            raise DataError(
                f"spaCy learns no parser from {folder}: {reason} Is the treebank large enough?"
            ) from error
    scores = pipeline.evaluate([_example(pipeline, doc) for doc in dev])
    name = f"learnt from {settings.treebank} in {settings.steps} steps, seed {settings.seed}"
    return pipeline, {"name": name, "uas": round(100 * scores["dep_uas"], 2)}


def _train(pipeline: Language, train: list[Doc], settings: Treebank) -> None:
    pipeline.add_pipe("parser")
    optimizer = pipeline.initialize(lambda: [_example(pipeline, doc) for doc in train])
    for batch in islice(_batches(train, settings.seed), settings.steps):
        pipeline.update([_example(pipeline, doc) for doc in batch], drop=DROPOUT, sgd=optimizer)


def _documents(pipeline: Language, trees: Iterable[Sentence], lowered: Callable[[str], str]) -> Iterator[Doc]:
    """Yield one, two or three sentences at a time, so that where one ends is learnt too."""
    trees = iter(trees)
    for number in cycle([1, 2, 3]):
        group = [*islice(trees, number)]
        if not group:
            return
        words, heads, relations = list[str](), list[int](), list[str]()
        for tree in group:
            heads += [len(words) + head for head in tree.heads]
            words += [lowered(word) for word in tree.words]
            relations += ["ROOT" if name == "root" else name for name in tree.relations]
        yield Doc(pipeline.vocab, words, heads=heads, deps=relations)


def _example(pipeline: Language, doc: Doc) -> Example:
    return Example(Doc(pipeline.vocab, [token.text for token in doc]), doc)


def _batches(docs: list[Doc], seed: int) -> Iterator[list[Doc]]:
    """Yield random batches for ever."""
    turns = random.Random(seed)
    while True:
        yield from minibatch_by_words(turns.sample(docs, len(docs)), WORDS)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators that spaCy draws from, and leave them as they were."""
    before, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        fix_random_seed(seed)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numbers)
