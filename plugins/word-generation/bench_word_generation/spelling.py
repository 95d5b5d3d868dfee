"""What a word is in any script: letters, the marks that belong to them, and joiners between them, in NFC.

Letters (L*) and marks (M*: accents, points, vowel signs) are categories of Unicode; casing follows SpecialCasing.txt.
"""

import re
from unicodedata import category, combining, normalize

JOINERS = "\u200c\u200d"  # zero width non-joiner and joiner: they choose forms of the signs around them
DOTLESS_I = ("tr", "tur", "az", "aze")
DOTTED_ACCENTS = ("lt", "lit")
DOT = "\u0307"  # combining dot above
ABOVE = 230  # combining class of marks above a letter
MISPLACED = re.compile(r"\?|^[MJ]+|J{2,}|J$")  # foreign signs, lone marks, and joiners that join nothing


def fold(word: str, lowercase: bool, language: str | None = None) -> str:
    """Return a word in NFC and, with `lowercase`, in lower case by the rules of a language."""
    if not word.isascii():
        word = normalize("NFC", word)
    return normalize("NFC", lower(word, language)) if lowercase else word


def lower(word: str, language: str | None) -> str:
    """Return a word of NFC in lower case; only Turkish, Azerbaijani and Lithuanian differ from other languages."""
    if language in DOTLESS_I:
        word = word.replace("\u0130", "i").replace("I", "\u0131")  # in NFC, I has no dot above
    elif language in DOTTED_ACCENTS:
        word = _keep_dots(word)
    return word.lower()


def _keep_dots(word: str) -> str:
    """Insert the dot that I and J keep under accents in Lithuanian when they become i and j."""
    signs = normalize("NFD", word)
    letters = []
    for place, sign in enumerate(signs):
        letters.append(sign)
        accent = next((other for other in signs[place + 1 :] if combining(other) in (0, ABOVE)), "")
        if sign in "IJ" and accent not in ("", DOT) and combining(accent) == ABOVE:
            letters.append(DOT)
    return "".join(letters)


def misplaced(word: str, alphabet: frozenset[str] | None) -> str:
    """Return the signs that make a string no word, each once; empty for a word.

    With an `alphabet`, all signs of a word belong to it, and any of them but marks and joiners are letters.
    """
    if word.isalpha() if alphabet is None else word.isascii() and alphabet.issuperset(word):
        return ""
    kinds = "".join([_kind(sign, alphabet) for sign in word])
    wrong = [word[match.start() : match.end()] for match in MISPLACED.finditer(kinds)]
    return "".join(dict.fromkeys("".join(wrong)))


def _kind(sign: str, alphabet: frozenset[str] | None) -> str:
    """Return L for a letter, M for a mark, J for a joiner, and ? for any other sign."""
    if alphabet is not None and sign not in alphabet:
        return "?"
    if sign in JOINERS:
        return "J"
    kind = category(sign)[0]
    return "M" if kind == "M" else "L" if kind == "L" or alphabet is not None else "?"


def alphabet_error(alphabet: str, lowercase: bool, language: str | None) -> str | None:
    """Return why words cannot consist of the signs of an alphabet; None if they can."""
    if not alphabet or len(set(alphabet)) < len(alphabet) or any(sign.isspace() for sign in alphabet):
        return f"an alphabet must not repeat characters or contain white space, but it is {alphabet!r}"
    if control := [sign for sign in alphabet if category(sign) in ("Cc", "Cs")]:
        return f"{''.join(control)!r} in the alphabet cannot be read. Remove these characters"
    composed = normalize("NFC", alphabet)
    if set(composed) != set(alphabet):
        return (
            f"the alphabet is {composed!r} in NFC, in which words are read, but it is {alphabet!r}. Write it in NFC, "
            "and a mark that is a sign of its own before the letters"
        )
    upper = [sign for sign in alphabet if fold(sign, lowercase, language) != sign]
    if upper:
        return (
            f"{''.join(upper)!r} in the alphabet cannot occur in lower-cased words. Remove these characters, or set "
            "`lowercase: false`"
        )
    return None
