"""The tokenizer of the COCO evaluation: Stanford's PTB tokenizer, punctuation removed.

pycocoevalcap's own wrapper writes into the installed package, shifts all that follows a caption with U+2028 or the
like, and waits for ever for a Java that hangs. So the jar that comes with it is asked by our own hand.
"""

from collections.abc import Sequence
from pathlib import Path

import pycocoevalcap.tokenizer  # type: ignore[import-untyped]
from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS, STANFORD_CORENLP_3_4_1_JAR  # type: ignore[import-untyped]

from bench_core import SuiteError
from bench_metrics.api import Unanswered, ask, java

JAR = Path(next(iter(pycocoevalcap.tokenizer.__path__))) / STANFORD_CORENLP_3_4_1_JAR
MOST = 500_000  # captions whose tokens are kept at hand
SIGNATURE = "tok:ptb-3.4.1|case:lc"


_known: dict[str, str] = {"": ""}  # the metrics of a cell ask for the same captions in turn, and cells for the same


def tokenized(captions: Sequence[str], patience: float) -> list[str]:
    """Return captions with spaces between lower-cased tokens, from one start of Java for all that are new.

    White space of all sorts is a blank. Raises SuiteError if there is no Java, or no answer to each of the captions.
    """
    plain = [" ".join(caption.split()) for caption in captions]
    if len(_known) > MOST:
        _known.clear()
    new = list(dict.fromkeys(caption for caption in plain if caption not in _known))
    _known.update(zip(new, asked(new, patience), strict=True))
    return [_known[caption] for caption in plain]


def asked(captions: Sequence[str], patience: float) -> list[str]:
    """Return what the tokenizer makes of captions of one line each; it sees each of them by itself."""
    if not captions:
        return []
    try:
        answers = ask(_command(), captions, patience, JAR)
    except Unanswered as error:
        caption = captions[error.number]
        shown = repr(caption if len(caption) <= 80 else f"{caption[:80]}…")
        remedy = f"Raise the metric's `patience` ({patience:g})." if error.silent else "Try another Java."
        raise SuiteError(
            f"the tokenizer of captions did not answer to {shown}, number {error.number + 1:,} of {len(captions):,}: "
            f"{error.reason}. {remedy}"
        ) from None
    return [" ".join([word for word in line.split(" ") if word not in PUNCTUATIONS]) for line in answers]


def _command() -> list[str]:
    """Return how the tokenizer is started: in UTF-8 in any locale, leaving no files."""
    try:
        program = java()
    except SuiteError as error:
        raise SuiteError(
            f"captions are cut by a tokenizer in Java, which is not there, as for METEOR: {error}"
        ) from None
    return [
        *(program, "-Xmx1024m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
        *("-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US", "-cp", str(JAR)),
        *("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"),
    ]
