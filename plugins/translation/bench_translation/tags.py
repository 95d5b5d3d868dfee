"""Parts of speech: the most frequent tag of each word in a treebank."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_text.api import corpora
from bench_translation import conllu

#: Universal parts of speech.
UPOS = {
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
}  # fmt: skip
CODE = re.compile(r"([a-z]{2,3})_.*-ud-")  # language code in file names of Universal Dependencies


def files(treebank: str, data: Path) -> list[Path]:
    """Return the files of a treebank, a folder with `*-train.conllu` or a file; raise DataError if there are none."""
    place = data / treebank
    paths = [place] if place.is_file() else sorted(place.glob("*-train.conllu"))
    wrong = [str(path) for path in paths if not path.stat().st_size]
    if not paths or wrong:
        what = (
            f"empty: {', '.join(wrong)}" if wrong else f"{place} is neither a file nor a folder with *-train.conllu"
        )
        raise DataError(
            f"{what}. Parts of speech need a treebank: put its files there, such as UD_English-EWT, or "
            "correct `tags:`."
        )
    return paths


def reads(treebank: str, data: Path) -> Mapping[str, str]:
    """Return the digest of each file."""
    return corpora.digests(files(treebank, data), data)


def tags(treebank: str, data: Path, language: str, to_lower: Callable[[str], str]) -> dict[str, Any]:
    """Return a treebank's name with its digest, and each word's most frequent tag; ties go to the first tag.

    A word that occurs only capitalized is added in lower case too. A multiword token counts as its first word. Raises
    DataError if a file has another language, according to its name, or an unknown tag.
    """
    paths = files(treebank, data)
    for path in paths:
        code = CODE.match(path.name)
        if code and code[1] != language:
            raise DataError(
                f"{path} is in {code[1]!r}, according to its name, but targets are in {language!r}. Correct or "
                "remove `tags:`."
            )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in conllu.sentences(paths):
        for place, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
            if tag not in UPOS:
                raise DataError(
                    f"{sentence.place(place)}: {tag!r} is not a universal part of speech, such as NOUN, in column 4."
                )
            counts[to_lower(word)][tag] += 1
            if place in sentence.spans:
                counts[to_lower(sentence.spans[place][1])][tag] += 1
    folded: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag_counts in counts.items():
        folded[word.lower()].update(tag_counts)
    digest = "".join(reads(treebank, data).values())[:8]
    tag_of = {word: tag_counts.most_common(1)[0][0] for word, tag_counts in (folded | counts).items()}
    return {"name": f"{treebank} {digest}", "words": dict(sorted(tag_of.items()))}
