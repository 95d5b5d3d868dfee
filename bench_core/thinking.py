"""Reasoning before an answer in outputs, such as `<think>...</think>`."""

import re
from typing import Literal, TypeAlias

#: Treatment of reasoning in outputs: reject the output, remove the reasoning, or treat it as text.
Thinking: TypeAlias = Literal["refuse", "drop", "keep"]

TAGS = {
    "<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>", "<seed:think>": "</seed:think>",
    "<reasoning>": "</reasoning>", "[THINK]": "[/THINK]", "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>", "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}  # fmt: skip


def thinking_in(text: str) -> str:
    """Return the first reasoning tag of a text, ignoring case; empty if there is none.

    The text starts with an opening tag, or contains a closing tag, because chat templates may add the opening tag.
    """
    for begin, end in TAGS.items():
        if match := re.match(rf"\s*({re.escape(begin)})", text, re.IGNORECASE):
            return match[1]
        if match := re.search(re.escape(end), text, re.IGNORECASE):
            return match[0]
    return ""


def without_thinking(text: str) -> tuple[str, bool]:
    """Return a text without reasoning, and whether all reasoning has ended; nothing follows unfinished reasoning."""
    while tag := thinking_in(text):
        pair = next(pair for pair in TAGS.items() if tag.lower() in map(str.lower, pair))
        begin, end = map(re.escape, pair)
        if not re.search(end, text, re.IGNORECASE):
            return "", False
        text = re.sub(f"{begin}.*?{end}", "", text, flags=re.DOTALL | re.IGNORECASE)
        text = re.split(end, text, flags=re.IGNORECASE)[-1].lstrip()
    return text, True
