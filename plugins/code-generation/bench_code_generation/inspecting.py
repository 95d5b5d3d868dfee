"""Opens the files of a code corpus as a run would, without torch."""

from math import inf

from bench_code_generation.corpus import collection, files
from bench_code_generation.plugin import CodeGenerationConfig
from bench_code_generation.settings import CPythonPairs
from bench_core import DataError, Inspection, Split
from bench_text.api import Lengths, check_tokenizer, corpora
from bench_translation.api import Parallel

MIN_TRAINING_PAIRS = 2


def inspect(config: CodeGenerationConfig, inspection: Inspection) -> None:
    """Check numbers of lines, blank lines in evaluation splits, and whether enough pairs are left for training."""
    corpus, data = config.corpus, inspection.data
    for tokenizer in (config.tokenizer.source, config.tokenizer.target):
        with inspection.noting():
            check_tokenizer(tokenizer, data)
    if isinstance(corpus, CPythonPairs) or inspection.problems:
        return
    parallel = collection(corpus, data)
    seen: dict[Split, set[int]] = {}
    for split in parallel.splits:
        pair = files(corpus, data).own[split]
        paths = [data / path for path in (*pair.source, *pair.target, *pair.references)]
        with inspection.noting():
            if inspection.are_small(paths):
                seen[split] = _read(config, inspection, parallel, split)
            else:
                for path in paths:
                    next(corpora.lines(path), None)
    for split in {*seen} - {"train"}:
        inspection.compare(split, len(seen[split]), len(seen[split] & seen.get("train", set())))


def _read(config: CodeGenerationConfig, inspection: Inspection, parallel: Parallel, split: Split) -> set[int]:
    """Read a split; return the hashes of its pairs."""
    sides = parallel.read(split)
    pairs = [*zip(*(lines.texts for lines in sides), strict=True)]
    parallel.more(split)
    if split == "train":
        _check_enough(config, inspection, pairs)
    for number, pair in enumerate(pairs) if split != "train" else ():
        if not all(pair):
            place = next(lines.place(number) for lines, text in zip(sides, pair, strict=True) if not text)
            raise DataError(f"{place} is empty. Pairs that are decoded need both sides. Correct the files.")
    return {*map(hash, pairs)}


def _check_enough(config: CodeGenerationConfig, inspection: Inspection, pairs: list[tuple[str, str]]) -> None:
    """Raise DataError if too few pairs can be used for training; words are a lower bound on tokens."""
    kinds = config.tokenizer.source, config.tokenizer.target
    min_lengths = [
        max(Lengths(kind, inspection.data).add(text)[0] for kind, text in zip(kinds, pair, strict=True))
        for pair in pairs
        if all(pair)
    ]
    if sum(number <= (config.longest or inf) for number in min_lengths) < MIN_TRAINING_PAIRS:
        raise DataError(
            f"fewer than {MIN_TRAINING_PAIRS} of {len(pairs):,} training pairs can be used: the others are empty, or "
            "too long for `longest`. Increase `longest`, or choose a larger corpus."
        )
