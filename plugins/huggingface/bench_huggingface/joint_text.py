"""Prompts and targets as tokens: read as one text, of which the tokens of the target are those after the prompt.

p(target | prompt) = p(prompt, target) / p(prompt): the product over the tokens after those of the prompt, with which
the tokens of the whole text begin. Where they do not, because a token spans the border or the prompt is cut otherwise
before this target, the target's tokens are those that end behind the border. They say more than the target, which
counts as not spelled.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, TypeAlias

#: Pieces of a text, and whether each is written by a template, in which control tokens are meant.
Parts: TypeAlias = Sequence[tuple[str, bool]]


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, and the places in it where each of them ends, if the tokenizer tells these."""

    ids: list[int]
    ends: list[int] | None


@dataclass(frozen=True)
class Joint:
    """A prompt with its target."""

    prompt: list[int]  # the tokens before those of the target
    target: list[int]
    spelled: bool  # whether the tokens of the target, read back after the prompt, are its text


class TextReader:
    """Turns texts into tokens of a tokenizer; control tokens in data are text, unless `control` says otherwise."""

    def __init__(self, tokenizer: Any, control: bool) -> None:
        self.tokenizer, self.control = tokenizer, control

    @cached_property
    def special(self) -> dict[str, int]:
        """Return the control tokens by their names."""
        added = {token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special}
        names = sorted(added | set(self.tokenizer.all_special_tokens))
        return dict(zip(names, self.tokenizer.convert_tokens_to_ids(names), strict=True))

    def tokens(self, parts: Parts, of_target: bool = False) -> Tokens:
        """Return the tokens of parts as one text, without those that a tokenizer puts around it."""
        text = "".join(part for part, _ in parts)
        found = [one.span() for one in self._named.finditer(text)] if self._named else []
        meant = found if self.control else [one for one in found if _is_in_template(one, parts)]
        if len(meant) == len(found):
            return self._read(text, split=False, of_target=of_target)
        ids, ends, start = list[int](), list[int](), 0
        for first, last in [*meant, (len(text), len(text))]:
            for place, piece in self._pieces(text, start, first, of_target):
                ids += piece.ids
                ends += [place + end for end in piece.ends or [0] * len(piece.ids)]
            ids += [self.special[text[first:last]]] if last > first else []
            ends += [last] if last > first else []
            start = last
        return Tokens(ids, ends if self.tokenizer.is_fast else None)

    def has_control(self, text: str) -> bool:
        """Return whether control tokens are in a text that is to be text."""
        return not self.control and bool(self._named and self._named.search(text))

    def without_control(self, text: str) -> str:
        """Return a text without the names of control tokens."""
        return self._named.sub("", text) if self._named else text

    def around(self, text: str) -> tuple[list[int], list[int]]:
        """Return the tokens that the tokenizer puts before and behind a text; all of them before an empty one."""
        plain, whole = (self.tokenizer(text, add_special_tokens=one).input_ids for one in (False, True))
        for place in range(len(whole) - len(plain) + 1) if plain else ():
            if whole[place : place + len(plain)] == plain:
                return whole[:place], whole[place + len(plain) :]
        return (whole, []) if not plain else ([], [])

    def joint(self, before: Sequence[int], prompt: Parts, target: Parts) -> Joint:
        """Return a target after its prompt, which has tokens `before` it."""
        alone, whole = self.tokens(prompt), self.tokens([*prompt, *target])
        border = len("".join(part for part, _ in prompt))
        size = len(alone.ids)
        if whole.ids[:size] != alone.ids:
            first = _first_behind(alone, whole, border)
            return Joint([*before, *whole.ids[:first]], whole.ids[first:], spelled=False)
        spelled = self.spells([*before, *alone.ids], whole.ids[size:], target)
        return Joint([*before, *alone.ids], whole.ids[size:], spelled)

    def spells(self, before: Sequence[int], tokens: Sequence[int], parts: Parts) -> bool:
        """Return whether tokens, read back behind others, are the text of parts.

        What is read is a function of the tokens alone, so that two texts are never read from the same ones.
        """
        control = set(self.special.values())
        plain = [token for token in before if token not in control]
        start, whole = self.read_back(plain), self.read_back([*plain, *tokens])
        return whole.startswith(start) and whole[len(start) :] == "".join(part for part, _ in parts)

    def read_back(self, tokens: Sequence[int]) -> str:
        """Return tokens as text, with all that they say."""
        given = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        found: str = self.tokenizer.decode([*tokens], **given)
        return found

    def _pieces(self, text: str, start: int, stop: int, of_target: bool) -> Iterator[tuple[int, Tokens]]:
        """Yield tokens of a stretch of data; in pieces, if its tokenizer finds control tokens even in plain text."""
        whole = self._read(text[start:stop], split=True, of_target=of_target)
        control = {*self.special.values()} - {self.tokenizer.unk_token_id}
        if self._named is None or control.isdisjoint(whole.ids):
            yield start, whole
            return
        cuts = [one.start() + 1 for one in self._named.finditer(text, start, stop)]
        for first, last in pairwise([start, *cuts, stop]):
            yield first, self._read(text[first:last], split=True, of_target=of_target)

    def _read(self, text: str, split: bool, of_target: bool) -> Tokens:
        given = {"text_target": text} if of_target and hasattr(self.tokenizer, "spm_target") else {"text": text}
        more = {"return_offsets_mapping": True} if self.tokenizer.is_fast else {}
        found = self.tokenizer(**given, add_special_tokens=False, split_special_tokens=split, **more)
        ends = [end for _, end in found["offset_mapping"]] if more else None
        return Tokens([*found["input_ids"]], ends)

    @cached_property
    def _named(self) -> re.Pattern[str] | None:
        names = sorted(filter(None, self.special), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, names))) if names else None


def _is_in_template(span: tuple[int, int], parts: Parts) -> bool:
    """Return whether a place in a text is in a part that a template writes."""
    start = 0
    for text, is_template in parts:
        if start <= span[0] and span[1] <= start + len(text):
            return is_template
        start += len(text)
    return False


def _first_behind(alone: Tokens, whole: Tokens, border: int) -> int:
    """Return the first token that ends behind a border; without places, the first that is not one of the prompt."""
    if whole.ends is None:
        pairs = zip_longest(whole.ids, alone.ids)
        return next(place for place, (own, other) in enumerate(pairs) if own != other)
    return next((place for place, end in enumerate(whole.ends) if end > border), len(whole.ids))
