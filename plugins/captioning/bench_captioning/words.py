"""Tokenizes captions for training, similarly to the tokenizer of the evaluation."""

import re

_CLITIC = re.compile(r"(?<=[^\W\d_])(n't|'(?:s|re|ve|ll|d|m))(?!\w)")
_WORD = re.compile(
    r"n't(?!\w)|'(?:s|re|ve|ll|d|m)(?!\w)"  # separated clitics
    r"|(?:[^\W\d_]\.){2,}|(?:mr|mrs|ms|dr|st|ave|blvd|rd|ft|vs)\."  # u.s.
    r"|\d+(?:[.,:/]\d+)*(?:-?[^\W_]+(?:-[^\W_]+)*)?"  # 3.5, 10:30, 10-year-old
    r"|[^\W_]+(?:[-/][^\W_]+)*"
    r"|[$%&#@+=*]"
)
_CONTRACTIONS = {"cannot": "can not", "gonna": "gon na", "gotta": "got ta", "wanna": "wan na"}
_CONTRACTION = re.compile(rf"\b(?:{'|'.join(_CONTRACTIONS)})\b")


def words(caption: str) -> list[str]:
    """Return the lower-case words of a caption: Penn Treebank clitics are separated, punctuation is removed."""
    plain = caption.lower().replace("’", "'")
    plain = _CONTRACTION.sub(lambda match: _CONTRACTIONS[match[0]], _CLITIC.sub(r" \1", plain))
    return _WORD.findall(plain)
