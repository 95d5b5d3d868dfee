"""The tokenizer of a pretrained model, renumbered so that EOS is token 0.

EOS and token 0 are swapped. A model that uses the same tokenizer swaps them back: `info.extras` has the digest of the
file as `tokenizer`, and the original id of EOS as `stop`.
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
MAX_LINES = 10_000  # maximum lines encoded in one call


def tokenizer_files(settings: Pretrained, data: Path) -> list[Path]:
    """Return the paths of the tokenizer and of files that define EOS; raise DataError if there is no tokenizer."""
    folder = data / settings.path
    if not (folder / FILE).is_file():
        raise DataError(
            f"{folder / FILE} is missing. Put the {FILE} of a pretrained model there, with its config.json, "
            "or correct the `path` of the tokenizer."
        )
    configs = [] if settings.stop else [folder / name for name in CONFIGS]
    return [folder / FILE, *(path for path in configs if path.is_file())]


def tokenizer_digests(settings: object, data: Path) -> Mapping[str, str]:
    """Return the digests of a pretrained tokenizer's files for a Config's `reads`; empty for other tokenizers."""
    if not isinstance(settings, Pretrained):
        return {}
    return {f"{settings.path}/{path.name}": corpora.digest(path) for path in tokenizer_files(settings, data)}


@dataclass(frozen=True)
class PretrainedTokenizer:
    """The tokens of a file whose EOS has id `stop`; here EOS is token 0."""

    file: Path
    stop: int

    @classmethod
    def of(cls, settings: Pretrained, data: Path) -> PretrainedTokenizer:
        """Read the available files; raise DataError if a file is damaged or EOS is undefined."""
        file, *configs = tokenizer_files(settings, data)
        tokenizer = _read(file)
        token = settings.stop or _eos({config.name: _mapping(config) for config in configs})
        stop = tokenizer.token_to_id(token) if isinstance(token, str) else token
        if stop is None or tokenizer.id_to_token(stop) is None:
            fault = f"has no token {token!r}" if token is not None else "does not define EOS"
            raise DataError(f"the tokenizer in {file.parent} {fault}. Set `stop:` to one of its tokens.")
        return cls(file, stop)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The names of all tokens, with EOS and token 0 swapped; unused ids get unique names."""
        names = {number: name for name, number in self._tokenizer.get_vocab().items()}
        tokens = [names.get(number, f"<unused {number}>") for number in range(max(names) + 1)]
        tokens[STOP], tokens[self.stop] = tokens[self.stop], tokens[STOP]
        return tokens

    @cached_property
    def ordinary(self) -> list[int]:
        """The tokens that occur in texts."""
        special = {number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        numbers = set(self._tokenizer.get_vocab().values()) - special - {self.stop}
        return sorted(self._swap(numbers))

    @cached_property
    def unknown(self) -> int | None:
        """The unknown token, or None."""
        name = getattr(self._tokenizer.model, "unk_token", None)
        number = None if name is None else self._tokenizer.token_to_id(name)
        return None if number is None else self._swap([number])[0]

    def encode(self, lines: Sequence[str]) -> Iterator[list[int]]:
        """Yield the tokens of each line; raise DataError if EOS occurs in a line."""
        for line, encoding in self._encodings(lines):
            if self.stop in encoding.ids:
                raise DataError(
                    f"EOS {self.vocabulary[STOP]!r} occurs inside a text: {line[:60]!r}. "
                    "Remove it, or set another `stop:` for the tokenizer."
                )
            yield self._swap(encoding.ids)

    def rest(self, lines: Sequence[str], rows: Iterable[Sequence[int]], first: int) -> Iterator[str]:
        """Yield the text of each line after its first tokens, without a leading space."""
        for line, encoding in self._encodings(lines):
            begins = [begin for begin, _ in encoding.offsets[first : first + 1]]
            yield line[begins[0] :].removeprefix(" ") if begins else ""

    def pieces(self, lines: Sequence[str], rows: Iterable[Sequence[int]]) -> Iterator[Sequence[bytes]]:
        """Yield the UTF-8 of each token of each line; empty if the tokens decode to a different line.

        A character that several tokens share is assigned to the last of them.
        """
        for line, encoding in self._encodings(lines):
            decoded = str(self._tokenizer.decode(encoding.ids, skip_special_tokens=False))
            text = line if line == decoded.removeprefix(" " * self._begins_with_space) else ""
            begins = [begin if index else 0 for index, (begin, _) in enumerate(encoding.offsets)]
            yield [utf8(text[begin:end]) for begin, end in pairwise([*begins, len(line)])]

    def text(self, tokens: Sequence[int], unknown: str = UNREADABLE) -> str:
        """Return the text of tokens, without a leading space; unknown tokens become `unknown`."""
        text = str(self._tokenizer.decode(self._swap(tokens), skip_special_tokens=False)).removeprefix(" ")
        if self.unknown is None or self.unknown not in tokens:
            return text
        return text.replace(self.vocabulary[self.unknown], unknown)

    def _encodings(self, lines: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield each line with its encoding by the library."""
        for start in range(0, len(lines), MAX_LINES):
            batch = lines[start : start + MAX_LINES]
            yield from zip(batch, self._tokenizer.encode_batch(batch, add_special_tokens=False), strict=True)

    def _swap(self, tokens: Iterable[int]) -> list[int]:
        other = {STOP: self.stop, self.stop: STOP}
        return [other.get(token, token) for token in tokens]

    @cached_property
    def _begins_with_space(self) -> bool:
        """Whether encoding adds a space before texts, which decoding removes again."""
        plain, spaced = (self._tokenizer.encode(text, add_special_tokens=False).ids for text in ("a", " a"))
        return bool(plain == spaced)

    @cached_property
    def _tokenizer(self) -> Any:
        return _read(self.file)


def _read(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no more specific class
        raise DataError(f"{path} is not a tokenizer: {' '.join(str(error).split())}.") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # treat them as ordinary text
    return tokenizer


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(corpora.read_text(path))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from None
    return content if isinstance(content, dict) else {}


def _eos(configs: Mapping[str, Mapping[str, Any]]) -> str | int | None:
    """Return the name or id of EOS according to configurations; None if undefined."""
    for_tokenizer, for_model = (configs.get(name, {}) for name in CONFIGS)
    token = for_tokenizer.get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    number = for_model.get("eos_token_id")
    return token if isinstance(token, str) else number if isinstance(number, int) else None
