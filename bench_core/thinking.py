"""The parts of outputs in which a model thinks before it answers: `<think>...</think>` and its relatives."""

import re
from typing import Literal, TypeAlias

#: What becomes of such parts: the output is refused by name, the part is taken off, or it is text.
Thinking: TypeAlias = Literal["refuse", "drop", "keep"]

TAGS = {
    "<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>", "<seed:think>": "</seed:think>",
    "<reasoning>": "</reasoning>", "[THINK]": "[/THINK]", "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>", "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}  # fmt: skip


def thinking_in(text: str) -> str:
    """Return the tag of a part in which a model thinks, in upper or lower case; the empty string if there is none.

    A text begins with such a part, or its end is in it: templates of prompts may have the beginning.
    """
    for begin, end in TAGS.items():
        if found := re.match(rf"\s*({re.escape(begin)})", text, re.IGNORECASE):
            return found[1]
        if found := re.search(re.escape(end), text, re.IGNORECASE):
            return found[0]
    return ""


def without_thinking(text: str) -> tuple[str, bool]:
    """Return a text without these parts, and whether they all have ended: nothing follows one that has not."""
    while tag := thinking_in(text):
        pair = next(pair for pair in TAGS.items() if tag.lower() in map(str.lower, pair))
        begin, end = map(re.escape, pair)
        if not re.search(end, text, re.IGNORECASE):
            return "", False
        text = re.sub(f"{begin}.*?{end}", "", text, flags=re.DOTALL | re.IGNORECASE)
        text = re.split(end, text, flags=re.IGNORECASE)[-1].lstrip()
    return text, True
