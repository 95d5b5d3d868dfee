"""Tokenizes prompt and target as one text, and splits the tokens into prompt tokens and target tokens.

If the joint text begins with the tokens of the prompt alone, p(target | prompt) = p(prompt, target) / p(prompt) is
the product over the remaining tokens. Otherwise, a token spans the boundary or the target changes the segmentation of
the prompt; all tokens that end after the boundary are then target tokens. They may cover more text than the target,
so they do not count as representing it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, TypeAlias

#: Parts of a text, and whether each comes from a template, where names of control tokens are read as control tokens.
Parts: TypeAlias = Sequence[tuple[str, bool]]


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text and their end offsets, if the tokenizer provides offsets."""

    ids: list[int]
    ends: list[int] | None


@dataclass(frozen=True)
class Joint:
    """A prompt and its target as tokens."""

    prompt: list[int]  # tokens before the target
    target: list[int]
    spelled: bool  # whether the target tokens, decoded after the prompt, give the target's text


class TextReader:
    """Tokenizes texts; names of control tokens in data are ordinary text unless `control` is set."""

    def __init__(self, tokenizer: Any, control: bool) -> None:
        self.tokenizer, self.control = tokenizer, control

    @cached_property
    def special(self) -> dict[str, int]:
        """The control tokens by name."""
        added = {token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special}
        names = sorted(added | set(self.tokenizer.all_special_tokens))
        return dict(zip(names, self.tokenizer.convert_tokens_to_ids(names), strict=True))

    def tokens(self, parts: Parts, of_target: bool = False) -> Tokens:
        """Tokenize parts as one text, without the special tokens that a tokenizer adds."""
        text = "".join(part for part, _ in parts)
        spans = [match.span() for match in self._control_pattern.finditer(text)] if self._control_pattern else []
        control = spans if self.control else [span for span in spans if _is_in_template(span, parts)]
        if len(control) == len(spans):
            return self._read(text, split=False, of_target=of_target)
        ids, ends, start = list[int](), list[int](), 0
        for first, last in [*control, (len(text), len(text))]:
            for offset, piece in self._pieces(text, start, first, of_target):
                ids += piece.ids
                ends += [offset + end for end in piece.ends or [0] * len(piece.ids)]
            ids += [self.special[text[first:last]]] if last > first else []
            ends += [last] if last > first else []
            start = last
        return Tokens(ids, ends if self.tokenizer.is_fast else None)

    def has_control(self, text: str) -> bool:
        """Return whether a text contains names of control tokens that must be read as ordinary text."""
        return not self.control and bool(self._control_pattern and self._control_pattern.search(text))

    def without_control(self, text: str) -> str:
        """Remove the names of control tokens from a text."""
        return self._control_pattern.sub("", text) if self._control_pattern else text

    def around(self, text: str) -> tuple[list[int], list[int]]:
        """Return the special tokens that the tokenizer adds before and after a text (all before an empty text)."""
        plain, whole = (self.tokenizer(text, add_special_tokens=is_added).input_ids for is_added in (False, True))
        for index in range(len(whole) - len(plain) + 1) if plain else ():
            if whole[index : index + len(plain)] == plain:
                return whole[:index], whole[index + len(plain) :]
        return (whole, []) if not plain else ([], [])

    def joint(self, before: Sequence[int], prompt: Parts, target: Parts) -> Joint:
        """Tokenize a target after its prompt, which is preceded by the tokens `before`."""
        alone, whole = self.tokens(prompt), self.tokens([*prompt, *target])
        boundary = len("".join(part for part, _ in prompt))
        size = len(alone.ids)
        if whole.ids[:size] != alone.ids:
            first = _first_after(alone, whole, boundary)
            return Joint([*before, *whole.ids[:first]], whole.ids[first:], spelled=False)
        spelled = self.spells([*before, *alone.ids], whole.ids[size:], target)
        return Joint([*before, *alone.ids], whole.ids[size:], spelled)

    def spells(self, before: Sequence[int], tokens: Sequence[int], parts: Parts) -> bool:
        """Return whether tokens that follow the tokens `before` decode to the text of `parts`.

        The decoded text is a function of the tokens alone, so different texts never have the same tokens.
        """
        control = set(self.special.values())
        plain = [token for token in before if token not in control]
        start, whole = self.read_back(plain), self.read_back([*plain, *tokens])
        return whole.startswith(start) and whole[len(start) :] == "".join(part for part, _ in parts)

    def read_back(self, tokens: Sequence[int]) -> str:
        """Decode tokens, including special tokens."""
        settings = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        text: str = self.tokenizer.decode([*tokens], **settings)
        return text

    def _pieces(self, text: str, start: int, stop: int, of_target: bool) -> Iterator[tuple[int, Tokens]]:
        """Yield the tokens of text[start:stop], splitting it where plain text would be read as control tokens."""
        whole = self._read(text[start:stop], split=True, of_target=of_target)
        control = {*self.special.values()} - {self.tokenizer.unk_token_id}
        if self._control_pattern is None or control.isdisjoint(whole.ids):
            yield start, whole
            return
        cuts = [match.start() + 1 for match in self._control_pattern.finditer(text, start, stop)]
        for first, last in pairwise([start, *cuts, stop]):
            yield first, self._read(text[first:last], split=True, of_target=of_target)

    def _read(self, text: str, split: bool, of_target: bool) -> Tokens:
        arguments = {"text_target": text} if of_target and hasattr(self.tokenizer, "spm_target") else {"text": text}
        more = {"return_offsets_mapping": True} if self.tokenizer.is_fast else {}
        encoding = self.tokenizer(**arguments, add_special_tokens=False, split_special_tokens=split, **more)
        ends = [end for _, end in encoding["offset_mapping"]] if more else None
        return Tokens([*encoding["input_ids"]], ends)

    @cached_property
    def _control_pattern(self) -> re.Pattern[str] | None:
        names = sorted(filter(None, self.special), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, names))) if names else None


def _is_in_template(span: tuple[int, int], parts: Parts) -> bool:
    """Return whether a span of a text is in a part from a template."""
    start = 0
    for text, is_template in parts:
        if start <= span[0] and span[1] <= start + len(text):
            return is_template
        start += len(text)
    return False


def _first_after(alone: Tokens, whole: Tokens, boundary: int) -> int:
    """Return the index of the first token that ends after the boundary.

    Without offsets, return the index of the first token that differs from the prompt's.
    """
    if whole.ends is None:
        pairs = zip_longest(whole.ids, alone.ids)
        return next(index for index, (token, other) in enumerate(pairs) if token != other)
    return next((index for index, end in enumerate(whole.ends) if end > boundary), len(whole.ids))
