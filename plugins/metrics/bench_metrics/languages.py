"""Tokenizers and word boundaries by language, for metrics of words."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from bench_core import UNSPACED, MetricConfig, SuiteError, TaskConfig, TaskInfo

USUAL = {"ja": "ja-mecab", "ko": "ko-mecab", "yue": "zh", "zh": "zh"}  # as sacrebleu chooses; 13a for all others
UNSPACED_LETTERS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u3007\u3040-\u30ff"
    "\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua980-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)  #: Thai, Lao, Tibetan, Burmese, Khmer, Tai, Balinese, Javanese, kana, bopomofo, Chinese characters
UNSPACED_SHARE = 0.2  #: of letters, above which a text is not taken for one with spaces between words
BY_SPACES = ("13a", "intl", "none")  # tokenizers to which all between two spaces is words, but for punctuation
SHORT = {  # ISO 639-1 for other codes of the same
    "ces": "cs", "chi": "zh", "cmn": "zh", "cze": "cs", "dan": "da", "deu": "de", "dut": "nl", "eng": "en",
    "fin": "fi", "fra": "fr", "fre": "fr", "ger": "de", "hun": "hu", "ita": "it", "jpn": "ja", "khm": "km",
    "kor": "ko", "lao": "lo", "mya": "my", "nb": "no", "nld": "nl", "nn": "no", "nob": "no", "nor": "no", "por": "pt",
    "ron": "ro", "rum": "ro", "rus": "ru", "spa": "es", "swe": "sv", "tha": "th", "tur": "tr", "zho": "zh",
}  # fmt: skip


#: What tells how targets are written: by `language`, and by `tokenized`, whether spaces stand between all tokens.
Written: TypeAlias = TaskConfig | TaskInfo


def language(known: Written) -> str | None:
    """Return the language of targets by its shortest code."""
    return SHORT.get(known.language or "", known.language)


def spaced(known: Written) -> bool:
    """Return whether words stand apart."""
    return known.tokenized or language(known) not in UNSPACED


def tokenizer_of(asked: str, known: Written) -> str:
    """Return the tokenizer that `tokenize` asks for; raise SuiteError if it cannot tell the words of the language."""
    code = language(known) or ""
    if asked != "auto":
        if asked in BY_SPACES and not spaced(known):
            usual = f"leave it out for `{USUAL[code]}`, or " if code in USUAL else ""
            raise SuiteError(
                f"`tokenize: {asked}` needs spaces between words, which {code!r} lacks: {usual}set `char`."
            )
        return asked
    if known.tokenized:
        return "13a"
    if code not in USUAL and not spaced(known):
        raise SuiteError(f"no tokenizer knows the words of {code!r}, which sets no spaces: set `tokenize: char`.")
    return USUAL.get(code, "13a")


def check_said(config: MetricConfig, info: TaskInfo, references: Iterable[str]) -> None:
    """Raise SuiteError if words are counted in a language that nobody named, and whose letters set no spaces."""
    unspaced = replace(info, language="th")  # for which there is no usual tokenizer either
    if language(info) or info.tokenized or config.refusal(unspaced) is None:  # type: ignore[arg-type]
        return
    letters, without = 0, 0
    for text in references:
        number = len(UNSPACED_LETTERS.findall(text))
        without += number
        letters += number + sum(map(str.isalpha, UNSPACED_LETTERS.sub("", text)))
    if without > UNSPACED_SHARE * letters:
        raise SuiteError(
            f"{config.name} counts words, and {100 * without / letters:.0f} % of letters of the references are of "
            "scripts without spaces between words, such as Chinese or Thai, of no named language. Name it "
            "(`target_language:` of a task of your data, `--language` of `bench score`), count characters "
            "(`tokenize: char`), or say that spaces stand between all tokens (`--tokenized`)."
        )
