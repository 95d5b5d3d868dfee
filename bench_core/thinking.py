"""The parts of outputs in which a model thinks before it answers: `<think>...</think>` and its relatives."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

#: What becomes of such parts: the output is refused by name, the part is taken off, or it is text.
Thinking: TypeAlias = Literal["refuse", "drop", "keep"]

TAGS = {
    "<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>", "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]", "◁think▷": "◁/think▷", "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>", "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}  # fmt: skip


def thinking_in(text: str) -> str:
    """Return the tag of a part in which a model thinks; the empty string if there is none.

    A text begins with such a part, or its end is in it: templates of prompts may have the beginning.
    """
    for begin, end in TAGS.items():
        if text.lstrip().startswith(begin):
            return begin
        if end in text:
            return end
    return ""


def without_thinking(text: str) -> tuple[str, bool]:
    """Return a text without these parts, and whether they all have ended: nothing follows one that has not."""
    while tag := thinking_in(text):
        begin, end = next(pair for pair in TAGS.items() if tag in pair)
        if end not in text:
            return "", False
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", "", text, flags=re.DOTALL)
        text = text.rpartition(end)[2].lstrip()
    return text, True
