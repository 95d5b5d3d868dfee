"""Tokenizers and word boundaries by language, for metrics that count words."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from bench_core import UNSPACED, MetricConfig, SuiteError, TaskConfig, TaskInfo

DEFAULTS = {"ja": "ja-mecab", "ko": "ko-mecab", "yue": "zh", "zh": "zh"}  # sacrebleu's defaults; otherwise 13a
UNSPACED_LETTERS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u3007\u3040-\u30ff"
    "\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua980-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)  #: Thai, Lao, Tibetan, Burmese, Khmer, Tai, Balinese, Javanese, kana, bopomofo, Chinese characters
MAX_UNSPACED_SHARE = 0.2  #: maximum share of UNSPACED_LETTERS in text with spaces between words
BY_SPACES = ("13a", "intl", "none")  # tokenizers that split at spaces and punctuation only
ISO_639_1 = {  # other codes of a language -> ISO 639-1
    "ces": "cs", "chi": "zh", "cmn": "zh", "cze": "cs", "dan": "da", "deu": "de", "dut": "nl", "eng": "en",
    "fin": "fi", "fra": "fr", "fre": "fr", "ger": "de", "hun": "hu", "ita": "it", "jpn": "ja", "khm": "km",
    "kor": "ko", "lao": "lo", "mya": "my", "nb": "no", "nld": "nl", "nn": "no", "nob": "no", "nor": "no", "por": "pt",
    "ron": "ro", "rum": "ro", "rus": "ru", "spa": "es", "swe": "sv", "tha": "th", "tur": "tr", "zho": "zh",
}  # fmt: skip


#: Describes the targets: their `language`, and `tokenized`, whether they have spaces between all tokens.
Targets: TypeAlias = TaskConfig | TaskInfo


def language(targets: Targets) -> str | None:
    """Return the shortest ISO 639 code of the target language; None if unknown."""
    return ISO_639_1.get(targets.language or "", targets.language)


def has_spaces(targets: Targets) -> bool:
    """Return whether targets have spaces between words."""
    return targets.tokenized or language(targets) not in UNSPACED


def tokenizer_of(name: str, targets: Targets) -> str:
    """Resolve the setting `tokenize`, such as `auto`; raise SuiteError if it cannot split the language into words."""
    code = language(targets) or ""
    if name != "auto":
        if name in BY_SPACES and not has_spaces(targets):
            default = f"leave it out for `{DEFAULTS[code]}`, or " if code in DEFAULTS else ""
            raise SuiteError(
                f"`tokenize: {name}` needs spaces between words, which {code!r} lacks: {default}set `char`."
            )
        return name
    if targets.tokenized:
        return "13a"
    if code not in DEFAULTS and not has_spaces(targets):
        raise SuiteError(f"no tokenizer splits {code!r}, which has no spaces between words: set `tokenize: char`.")
    return DEFAULTS.get(code, "13a")


def check_spaces(config: MetricConfig, info: TaskInfo, references: Iterable[str]) -> None:
    """Raise SuiteError if words are counted, no language is set, and references are in scripts without spaces."""
    unspaced = replace(info, language="th")  # Thai, which also has no default tokenizer
    if language(info) or info.tokenized or config.refusal(unspaced) is None:  # type: ignore[arg-type]
        return
    letters, without = 0, 0
    for text in references:
        number = len(UNSPACED_LETTERS.findall(text))
        without += number
        letters += number + sum(map(str.isalpha, UNSPACED_LETTERS.sub("", text)))
    if without > MAX_UNSPACED_SHARE * letters:
        raise SuiteError(
            f"{config.name} counts words, and {100 * without / letters:.0f} % of letters of the references belong to "
            "scripts without spaces between words, such as Chinese or Thai, but no language is set. Set it "
            "(`target_language:` in a task of your data, `--language` in `bench score`), count characters "
            "(`tokenize: char`), or declare that spaces separate all tokens (`--tokenized`)."
        )
