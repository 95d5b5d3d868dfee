"""The tokenizer of a pretrained model, renumbered so that its end-of-text token is 0.

That token and the one numbered 0 are swapped. A model that uses the same tokenizer swaps them back: `info.extras` has
the digest of the file as `tokenizer`, and the number of its end-of-text token as `stop`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench_core import STOP, DataError
from bench_text import corpora
from bench_text.encoder import UNREADABLE
from bench_text.raw_text import utf8
from bench_text.settings import Pretrained

FILE, CONFIGS = "tokenizer.json", ("tokenizer_config.json", "config.json")
TOGETHER = 10_000  # lines encoded at a time


def tokenizer_files(settings: Pretrained, data: Path) -> list[Path]:
    """Return the tokenizer, and the files that say how texts end; raise DataError if there is no tokenizer."""
    folder = data / settings.path
    if not (folder / FILE).is_file():
        raise DataError(
            f"no tokenizer is at {folder / FILE}. Put the {FILE} of a pretrained model there, with its config.json, "
            "or correct the `path` of the tokenizer."
        )
    configs = [] if settings.stop else [folder / name for name in CONFIGS]
    return [folder / FILE, *(path for path in configs if path.is_file())]


def tokenizer_digests(settings: object, data: Path) -> Mapping[str, str]:
    """Return the digest of each file of a pretrained tokenizer, for a Config's `reads`; others have no file."""
    if not isinstance(settings, Pretrained):
        return {}
    return {f"{settings.path}/{path.name}": corpora.digest(path) for path in tokenizer_files(settings, data)}


@dataclass(frozen=True)
class Numbered:
    """The tokens of one file, of which the one that has the number `stop` there is our 0."""

    file: Path
    stop: int

    @classmethod
    def of(cls, settings: Pretrained, data: Path) -> Numbered:
        """Read the files that are there; raise DataError if one is damaged or no token ends a text."""
        file, *configs = tokenizer_files(settings, data)
        tokenizer = _read(file)
        found = settings.stop or _ending({config.name: _mapping(config) for config in configs})
        stop = tokenizer.token_to_id(found) if isinstance(found, str) else found
        if stop is None or tokenizer.id_to_token(stop) is None:
            fault = f"has no token {found!r}" if found is not None else "does not say which token ends a text"
            raise DataError(f"the tokenizer in {file.parent} {fault}. Give one of its tokens as its `stop:`.")
        return cls(file, stop)

    @cached_property
    def vocabulary(self) -> list[str]:
        """Return its tokens in our order; numbers that are not in use have names of their own."""
        names = {number: name for name, number in self._tokenizer.get_vocab().items()}
        tokens = [names.get(number, f"<unused {number}>") for number in range(max(names) + 1)]
        tokens[STOP], tokens[self.stop] = tokens[self.stop], tokens[STOP]
        return tokens

    @cached_property
    def ordinary(self) -> list[int]:
        """Return the tokens that text is made of."""
        special = {number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        numbers = set(self._tokenizer.get_vocab().values()) - special - {self.stop}
        return sorted(self._swapped(numbers))

    @cached_property
    def unknown(self) -> int | None:
        """Return the token that stands for what it cannot say, if it has one."""
        name = getattr(self._tokenizer.model, "unk_token", None)
        number = None if name is None else self._tokenizer.token_to_id(name)
        return None if number is None else self._swapped([number])[0]

    def encode(self, lines: Sequence[str]) -> Iterator[list[int]]:
        """Yield the tokens of each line; raise DataError where one of them would be stop."""
        for line, found in self._encodings(lines):
            if self.stop in found.ids:
                raise DataError(
                    f"{self.vocabulary[STOP]!r}, which ends texts, is inside of one: {line[:60]!r}. "
                    "Take it out, or give the tokenizer another `stop:`."
                )
            yield self._swapped(found.ids)

    def rest(self, lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        """Yield the text of each line after its first tokens, without the space that it may begin with."""
        for line, found in self._encodings(lines):
            begins = [begin for begin, _ in found.offsets[first : first + 1]]
            yield line[begins[0] :].removeprefix(" ") if begins else ""

    def pieces(self, lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        """Yield the UTF-8 of each token of each line, empty for all of a line that they do not spell.

        Of tokens that begin within one character, the last one has it.
        """
        for line, found in self._encodings(lines):
            decoded = str(self._tokenizer.decode(found.ids, skip_special_tokens=False))
            spelled = line if line == decoded.removeprefix(" " * self._begins_with_space) else ""
            begins = [begin if place else 0 for place, (begin, _) in enumerate(found.offsets)]
            yield [utf8(spelled[begin:end]) for begin, end in pairwise([*begins, len(line)])]

    def text(self, tokens: Sequence[int], unknown: str = UNREADABLE) -> str:
        """Return the text of tokens, without the space before its first word, and with `unknown` for unknown ones."""
        text = str(self._tokenizer.decode(self._swapped(tokens), skip_special_tokens=False)).removeprefix(" ")
        if self.unknown is None or self.unknown not in tokens:
            return text
        return text.replace(self.vocabulary[self.unknown], unknown)

    def _encodings(self, lines: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield each line, and what the library makes of it."""
        for start in range(0, len(lines), TOGETHER):
            some = lines[start : start + TOGETHER]
            yield from zip(some, self._tokenizer.encode_batch(some, add_special_tokens=False), strict=True)

    def _swapped(self, tokens: Iterable[int]) -> list[int]:
        other = {STOP: self.stop, self.stop: STOP}
        return [other.get(token, token) for token in tokens]

    @cached_property
    def _begins_with_space(self) -> bool:
        """Return whether it reads texts as if a space stood before them; what is read back is then without it."""
        plain, spaced = (self._tokenizer.encode(one, add_special_tokens=False).ids for one in ("a", " a"))
        return bool(plain == spaced)

    @cached_property
    def _tokenizer(self) -> Any:
        return _read(self.file)


def _read(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no other name for it
        raise DataError(f"{path} is no tokenizer: {' '.join(str(error).split())}.") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # as text like any other
    return tokenizer


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(corpora.read_text(path))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from None
    return found if isinstance(found, dict) else {}


def _ending(configs: Mapping[str, Mapping[str, Any]]) -> str | int | None:
    """Return the token that ends texts, or its number, if configurations tell one."""
    for_tokenizer, for_model = (configs.get(name, {}) for name in CONFIGS)
    token = for_tokenizer.get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    number = for_model.get("eos_token_id")
    return token if isinstance(token, str) else number if isinstance(number, int) else None
