"""The settings of generation orders."""

from __future__ import annotations

from typing import Literal, TypeAlias

Known: TypeAlias = Literal["l2r", "r2l", "odd", "blt", "blt-strict", "syn", "cf", "rf", "rnd", "given"]  # beforehand
OrderName: TypeAlias = Literal[Known, "searched"]
Positions: TypeAlias = Literal["relative", "sinusoidal", "none"]
PartOfSpeech: TypeAlias = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
]  # fmt: skip
