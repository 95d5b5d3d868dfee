"""The log-probability of a target, from the tokens of a prompt and target that a server gives back.

The prompt must end where a token ends: log p(prompt, target) - log p(prompt) is not log p(target | prompt) where a
token covers both. That is seen from the texts of the tokens; where it cannot be seen, nothing is returned.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench_core import TextScore
from bench_served.replies import SHORTER, ServerError, brief

LOST, MOST_LOST = "\ufffd", 3  #: in a token for a part of a character, of up to so many bytes
ESCAPED = re.compile(r"bytes:( ?(?:\\x[0-9a-fA-F]{2})+)")  #: a token that lists the bytes of such a part
ASCII = 127  #: the last code of it
ROOM = 1e-3  #: nats that rounding may take the log-probability of a token above 0


def score_of(choice: Mapping[str, Any], prompt: str, target: str, end: str = "") -> TextScore:
    """Return the score of `target` and `end` after `prompt`; raise ServerError unless all its tokens are known."""
    tokens, log_probs, offsets = _listed(choice)
    _check_text(choice, tokens, prompt + target, end)
    first = boundary(tokens, offsets, prompt, target, end)
    for place, (token, value) in enumerate(zip(tokens[first:], log_probs[first:], strict=True), first):
        if value is None and any(one is not None for one in log_probs[:place]):
            raise ServerError(
                f"it leaves out the log-probability of {brief(repr(token))}, and gives others. Set `scores: false`"
            )
        if value is None:
            raise ServerError(
                f"it gives no log-probability of {brief(repr(token))}, as nothing stands before it. Let `prompt` "
                "begin with a text, such as `<s>{prompt}` where the server reads that as its first token"
            )
        if not isinstance(value, int | float) or isinstance(value, bool) or not value <= ROOM:
            raise ServerError(f"it gives {brief(repr(value))} as the log-probability of {brief(repr(token))}")
    return TextScore(float(sum(log_probs[first:])), len(tokens) - first, bool(end))


def _listed(choice: Mapping[str, Any]) -> tuple[list[str], list[Any], list[int]]:
    """Return texts, log-probabilities and, where they are given, offsets of the tokens."""
    found = choice.get("logprobs")
    if not isinstance(found, dict):
        raise ServerError("it gives no log-probabilities. Not every server does (vLLM does): set `scores: false`")
    listed: list[Any] = [found.get(name) for name in ("tokens", "token_logprobs", "text_offset")]
    tokens, log_probs, offsets = listed
    fine = isinstance(tokens, list) and isinstance(log_probs, list) and len(tokens) == len(log_probs)
    if not (fine and all(isinstance(one, str) for one in tokens)):
        raise ServerError("it does not list `tokens` and `token_logprobs`, a text and a number for each token")
    whole = isinstance(offsets, list) and len(offsets) == len(tokens) and all(type(one) is int for one in offsets)
    return tokens, log_probs, offsets if whole else []


def _check_text(choice: Mapping[str, Any], tokens: Sequence[str], text: str, end: str) -> None:
    """Raise ServerError if it gives another text back than it was sent, or one that goes on."""
    echoed = choice.get("text")
    if echoed not in (text, text + end):
        if isinstance(echoed, str) and echoed and echoed in text:
            raise ServerError(
                f"it gives back {len(echoed):,} of the {len(text):,} characters that it was sent, as of a text that "
                f"is longer than its context. {SHORTER}"
            )
        raise ServerError(f"it does not give back the text that it was sent, but {brief(repr(echoed))}")
    if end and tokens[-1:] not in ([end], [""]):
        raise ServerError(f"it does not read `end` ({end!r}) as one token: the last is {brief(repr(tokens[-1:]))}")


def boundary(tokens: Sequence[str], offsets: Sequence[int], prompt: str, target: str, end: str = "") -> int:
    """Return the place of the first token after `prompt`; raise ServerError where no token begins there.

    A token that begins all texts, and a space that a tokenizer puts before the first word, may stand before.
    """
    spelled = tokens[:-1] if end else tokens
    targets = {target} if prompt else {target, f" {target}"}
    for place in (*_by_texts(spelled, prompt), *_by_offsets(spelled, offsets, prompt)):
        if any(_spell(spelled[place:], one) for one in targets):
            return place
    raise ServerError(
        "no token of the server begins where the target does, so its tokens do not tell p(target | prompt): "
        f"{brief(repr(tokens))}. Let the prompt end without a space and the target begin with one, such as "
        '`prompt: "{prompt}:"` and `scored: " {target}"`'
    )


def _spell(tokens: Sequence[str], text: str) -> bool:
    """Return whether tokens spell a text, where U+FFFD may be any part of a character that is not ASCII."""
    whole, places = text.encode(), {0}
    for token in tokens:
        readings = [token.encode().split(LOST.encode())]
        if escaped := ESCAPED.fullmatch(token):
            readings.append([re.sub(rb"\\x(..)", lambda one: bytes.fromhex(one[1].decode()), escaped[1].encode())])
        places = {end for reading in readings for end in _ends(reading, whole, places)}
    return len(whole) in places


def _ends(pieces: Sequence[bytes], whole: bytes, places: set[int]) -> set[int]:
    """Return the places in a text behind pieces that begin at one of `places`, with lost bytes between each two."""
    for number, piece in enumerate(pieces):
        if number:
            lost = [(place, more) for place in places for more in range(1, MOST_LOST + 1)]
            places = {place + more for place, more in lost if min(whole[place : place + more], default=0) > ASCII}
        places = {place + len(piece) for place in places if whole.startswith(piece, place)}
    return places


def _by_texts(tokens: Sequence[str], prompt: str) -> list[int]:
    """Return the places before which the texts of tokens spell the prompt."""
    found = []
    for first in (0, 1):
        spelled = ""
        for place in range(first, len(tokens) + 1):
            if spelled in (prompt, f" {prompt}"):
                found.append(place)
            if place == len(tokens) or len(spelled) > len(prompt) + 1:
                break
            spelled += tokens[place]
    return found


def _by_offsets(tokens: Sequence[str], offsets: Sequence[int], prompt: str) -> list[int]:
    """Return the places where offsets say that the prompt ends, if the token before is known to end there."""
    return [
        place
        for place in range(1, min(len(tokens), len(offsets)))
        if offsets[place] == len(prompt) == offsets[place - 1] + len(tokens[place - 1])
        and tokens[place - 1]
        and prompt.endswith(tokens[place - 1])
    ]
