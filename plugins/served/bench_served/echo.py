"""Computes the log-probability of a target from a server's echo of prompt and target.

The prompt must end where a token ends: log p(prompt, target) - log p(prompt) is not log p(target | prompt) if a token
spans the boundary. The texts of the tokens must show this; otherwise scoring fails.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench_core import TextScore
from bench_served.replies import CONTEXT_HELP, ServerError, brief

REPLACEMENT, MAX_LOST_BYTES = "\ufffd", 3  #: stands for part of a character in a token, at most this many bytes
ESCAPED = re.compile(r"bytes:( ?(?:\\x[0-9a-fA-F]{2})+)")  #: a token that lists the bytes of part of a character
MAX_ASCII = 127  #: the last ASCII byte
TOLERANCE = 1e-3  #: nats by which rounding may raise the log-probability of a token above 0


def score_of(choice: Mapping[str, Any], prompt: str, target: str, end: str = "") -> TextScore:
    """Return the score of `target` and `end` after `prompt`; raise ServerError if the response is inconclusive."""
    tokens, log_probs, offsets = _token_lists(choice)
    _check_text(choice, tokens, prompt + target, end)
    first = boundary(tokens, offsets, prompt, target, end)
    for place, (token, value) in enumerate(zip(tokens[first:], log_probs[first:], strict=True), first):
        if value is None and any(earlier is not None for earlier in log_probs[:place]):
            raise ServerError(
                f"the server omits the log-probability of {brief(repr(token))} but not others. Set `scores: false`"
            )
        if value is None:
            raise ServerError(
                f"the server returns no log-probability of {brief(repr(token))}, because nothing precedes it. Begin "
                "`prompt` with some text, such as `<s>{prompt}` if the server reads `<s>` as its first token"
            )
        if not isinstance(value, int | float) or isinstance(value, bool) or not value <= TOLERANCE:
            raise ServerError(f"{brief(repr(token))} has the invalid log-probability {brief(repr(value))}")
    return TextScore(float(sum(log_probs[first:])), len(tokens) - first, bool(end))


def _token_lists(choice: Mapping[str, Any]) -> tuple[list[str], list[Any], list[int]]:
    """Return the texts, log-probabilities and, if available, character offsets of the tokens."""
    echo = choice.get("logprobs")
    if not isinstance(echo, dict):
        raise ServerError("the server returns no log-probabilities of prompts (vLLM does). Set `scores: false`")
    lists: list[Any] = [echo.get(name) for name in ("tokens", "token_logprobs", "text_offset")]
    tokens, log_probs, offsets = lists
    valid = isinstance(tokens, list) and isinstance(log_probs, list) and len(tokens) == len(log_probs)
    if not (valid and all(isinstance(token, str) for token in tokens)):
        raise ServerError("the response lacks matching lists `tokens` (strings) and `token_logprobs` (numbers)")
    usable = isinstance(offsets, list) and len(offsets) == len(tokens) and all(type(item) is int for item in offsets)
    return tokens, log_probs, offsets if usable else []


def _check_text(choice: Mapping[str, Any], tokens: Sequence[str], text: str, end: str) -> None:
    """Raise ServerError unless the server echoes the text that was sent, and reads `end` as a single token."""
    echoed = choice.get("text")
    if echoed not in (text, text + end):
        if isinstance(echoed, str) and echoed and echoed in text:
            raise ServerError(
                f"the server echoes {len(echoed):,} of the {len(text):,} characters sent: the text probably exceeds "
                f"the context length. {CONTEXT_HELP}"
            )
        raise ServerError(f"the server echoed {brief(repr(echoed))} instead of the text sent")
    if end and tokens[-1:] not in ([end], [""]):
        raise ServerError(
            f"`end` ({end!r}) is not a single token of the server: the last token is {brief(repr(tokens[-1:]))}"
        )


def boundary(tokens: Sequence[str], offsets: Sequence[int], prompt: str, target: str, end: str = "") -> int:
    """Return the index of the first token after `prompt`; raise ServerError if no token begins there.

    The prompt may be preceded by a BOS token, and by a space that a tokenizer adds before the first word.
    """
    spelled = tokens[:-1] if end else tokens
    targets = {target} if prompt else {target, f" {target}"}
    for place in (*_by_texts(spelled, prompt), *_by_offsets(spelled, offsets, prompt)):
        if any(_spells(spelled[place:], text) for text in targets):
            return place
    raise ServerError(
        "no server token begins at the start of the target, so p(target | prompt) is unknown: "
        f"{brief(repr(tokens))}. End the prompt without a space and begin the target with one, such as "
        '`prompt: "{prompt}:"` and `scored: " {target}"`'
    )


def _spells(tokens: Sequence[str], text: str) -> bool:
    """Return whether tokens spell a text; U+FFFD may stand for any part of a non-ASCII character."""
    whole, places = text.encode(), {0}
    for token in tokens:
        readings = [token.encode().split(REPLACEMENT.encode())]
        if escaped := ESCAPED.fullmatch(token):
            readings.append([re.sub(rb"\\x(..)", lambda byte: bytes.fromhex(byte[1].decode()), escaped[1].encode())])
        places = {end for reading in readings for end in _ends(reading, whole, places)}
    return len(whole) in places


def _ends(pieces: Sequence[bytes], whole: bytes, places: set[int]) -> set[int]:
    """Return the possible end offsets of pieces, separated by lost bytes, if the first begins at one of `places`."""
    for number, piece in enumerate(pieces):
        if number:
            lost = [(place, more) for place in places for more in range(1, MAX_LOST_BYTES + 1)]
            places = {place + more for place, more in lost if min(whole[place : place + more], default=0) > MAX_ASCII}
        places = {place + len(piece) for place in places if whole.startswith(piece, place)}
    return places


def _by_texts(tokens: Sequence[str], prompt: str) -> list[int]:
    """Return the token indices at which the prompt ends according to the texts of the tokens."""
    places = []
    for first in (0, 1):
        spelled = ""
        for place in range(first, len(tokens) + 1):
            if spelled in (prompt, f" {prompt}"):
                places.append(place)
            if place == len(tokens) or len(spelled) > len(prompt) + 1:
                break
            spelled += tokens[place]
    return places


def _by_offsets(tokens: Sequence[str], offsets: Sequence[int], prompt: str) -> list[int]:
    """Return the token indices at which the prompt ends according to offsets, if the previous token's text agrees."""
    return [
        place
        for place in range(1, min(len(tokens), len(offsets)))
        if offsets[place] == len(prompt) == offsets[place - 1] + len(tokens[place - 1])
        and tokens[place - 1]
        and prompt.endswith(tokens[place - 1])
    ]
