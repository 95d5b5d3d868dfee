"""The tokenizer of the COCO evaluation: Stanford's PTB tokenizer, without punctuation.

pycocoevalcap's own wrapper writes into the installed package, shifts all captions after a caption with U+2028 or a
similar character, and waits forever for a Java process that hangs. So its jar is called directly.
"""

from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

import pycocoevalcap.tokenizer  # type: ignore[import-untyped]
from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS, STANFORD_CORENLP_3_4_1_JAR  # type: ignore[import-untyped]

from bench_core import SuiteError
from bench_metrics.api import Unanswered, ask, java

JAR = Path(next(iter(pycocoevalcap.tokenizer.__path__))) / STANFORD_CORENLP_3_4_1_JAR
MAX_CACHED_CAPTIONS = 500_000  # maximum number of cached captions
SIGNATURE = "tok:ptb-3.4.1|case:lc"


_cache: dict[str, str] = {"": ""}  # metrics of a cell tokenize the same captions, and cells the same references


def tokenize(captions: Sequence[str], patience: float) -> list[str]:
    """Return captions with spaces between lower-cased tokens; all new captions share one Java process.

    Captions are normalized to NFC, and any white space counts as a space. Raises SuiteError if Java is missing or
    does not answer for each caption.
    """
    plain = [" ".join(normalize("NFC", caption).split()) for caption in captions]
    if len(_cache) > MAX_CACHED_CAPTIONS:
        _cache.clear()
    new = list(dict.fromkeys(caption for caption in plain if caption not in _cache))
    _cache.update(zip(new, run_tokenizer(new, patience), strict=True))
    return [_cache[caption] for caption in plain]


def run_tokenizer(captions: Sequence[str], patience: float) -> list[str]:
    """Tokenize single-line captions, independently of each other."""
    if not captions:
        return []
    try:
        answers = ask(_command(), captions, patience, JAR)
    except Unanswered as error:
        caption = captions[error.number]
        shown = repr(caption if len(caption) <= 80 else f"{caption[:80]}…")
        remedy = (
            f"Raise the metric's `patience` ({patience:g})." if error.silent else "Try another Java installation."
        )
        raise SuiteError(
            f"the caption tokenizer did not answer to {shown}, number {error.number + 1:,} of {len(captions):,}: "
            f"{error.reason}. {remedy}"
        ) from None
    return [" ".join([word for word in line.split(" ") if word not in PUNCTUATIONS]) for line in answers]


def _command() -> list[str]:
    """Return the command of the tokenizer; it uses UTF-8 in any locale, and leaves no files behind."""
    try:
        program = java()
    except SuiteError as error:
        raise SuiteError(f"the caption tokenizer needs Java, like METEOR: {error}") from None
    return [
        *(program, "-Xmx1024m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
        *("-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US", "-cp", str(JAR)),
        *("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"),
    ]
