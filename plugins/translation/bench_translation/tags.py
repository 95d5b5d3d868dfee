"""Parts of speech: the most frequent tag of each word in a treebank."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_text.api import corpora
from bench_translation import conllu

#: The universal parts of speech.
UPOS = {
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
}  # fmt: skip
CODE = re.compile(r"([a-z]{2,3})_.*-ud-")  # the language that files of Universal Dependencies are called by


def files(treebank: str, data: Path) -> list[Path]:
    """Return the files of a treebank, a folder with `*-train.conllu` or a file; raise DataError if there are none."""
    place = data / treebank
    found = [place] if place.is_file() else sorted(place.glob("*-train.conllu"))
    wrong = [str(path) for path in found if not path.stat().st_size]
    if not found or wrong:
        what = f"empty: {', '.join(wrong)}" if wrong else f"there is no *-train.conllu in {place}, and no such file"
        raise DataError(
            f"{what}, to take parts of speech from. Put the files of a treebank there, such as UD_English-EWT, or "
            "correct `tags:`."
        )
    return found


def reads(treebank: str, data: Path) -> Mapping[str, str]:
    """Return the digest of each file."""
    return corpora.digests(files(treebank, data), data)


def tags(treebank: str, data: Path, language: str, lowered: Callable[[str], str]) -> dict[str, Any]:
    """Return the name of a treebank with its digest, and the commonest tag of each of its words, of ties the first.

    A word that stands there only with a capital is known in lower case too, unless that is a word of its own. A token
    of several words counts as the first of them. Raises DataError where a file is of another language, by its name,
    or has a tag that is none.
    """
    paths = files(treebank, data)
    for path in paths:
        code = CODE.match(path.name)
        if code and code[1] != language:
            raise DataError(
                f"{path} is of {code[1]!r}, by its name, and targets are of {language!r}. Correct `tags:`, or leave "
                "it out for this pair."
            )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in conllu.sentences(paths):
        for place, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
            if tag not in UPOS:
                raise DataError(
                    f"{sentence.place(place)}: {tag!r} is no universal part of speech, such as NOUN, in column 4."
                )
            counts[lowered(word)][tag] += 1
            if place in sentence.spans:
                counts[lowered(sentence.spans[place][1])][tag] += 1
    lower: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, found in counts.items():
        lower[word.lower()].update(found)
    digest = "".join(reads(treebank, data).values())[:8]
    known = {word: found.most_common(1)[0][0] for word, found in (lower | counts).items()}
    return {"name": f"{treebank} {digest}", "words": dict(sorted(known.items()))}
