"""What is read from answers; each must be what the API says, and of the model that was asked."""

from collections.abc import Mapping
from typing import Any

from bench_core import DataError, Hypothesis, Thinking, thinking_in, without_thinking
from bench_served.plugin import ServedConfig
from bench_served.requests import Request

ENDED = {"stop", "eos_token", "stop_sequence"}  #: reasons to finish: the model stopped by itself
CUT = {"length", "content_filter"}  #: others, with a text that is not finished
#: What to do about a text that is longer than the context of a server.
SHORTER = (
    "Leave such examples out of the data, or serve the model with a longer context (`--max-model-len` of vLLM, `-c` "
    "of llama.cpp)"
)
SHOWN = 300  #: characters of what a server says, in messages


class ServerError(DataError):
    """A server refuses a request, or does not answer it as its API says."""


class ThinkingError(ServerError):
    """An answer is what the API says, and a setting must say what becomes of the thinking in it."""


def brief(value: object) -> str:
    """Return the beginning of what a server says, on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def choice_of(config: ServedConfig, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the only choice of an answer; raise ServerError unless there is one, of the model that was asked."""
    reported = answer.get("model")
    due = config.reported or config.model
    if reported is not None and reported != due:
        raise ServerError(
            f"it answers for the model {brief(repr(reported))}, and {due!r} was asked. If that is the same one, set "
            "`reported` to the name in the answer; else correct `model` or `url`"
        )
    choices = answer.get("choices")
    if not isinstance(choices, list):
        said = f"; it says: {brief(answer['error'])}" if "error" in answer else ""
        raise ServerError(f"its answer has no list of `choices`, but {brief(sorted(answer))}{said}")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise ServerError(f"its answer has {len(choices)} choices where one was asked, {brief(choices)}")
    choice: Mapping[str, Any] = choices[0]
    if choice.get("index", 0) != 0:
        raise ServerError(f"its only choice has the index {brief(repr(choice['index']))}, and not 0")
    return choice


def hypothesis_of(config: ServedConfig, request: Request, answer: Mapping[str, Any]) -> Hypothesis:
    """Return what a model wrote, after separator and thinking, up to a stop text; raise ServerError if it is none."""
    choice = choice_of(config, answer)
    reason = choice.get("finish_reason")
    if reason not in ENDED | CUT:
        known = ", ".join(sorted(ENDED | CUT))
        raise ServerError(f"its answer ended by {brief(repr(reason))}, which is none of {known}")
    text, answered = _spoken(_text(config, choice, reason).removeprefix(request.separator), request.thinking)
    stops = [place for place in map(text.find, request.stops) if place >= 0]
    text = text[: min(stops)] if stops else text
    finished = answered and (bool(stops) or reason in ENDED)
    return Hypothesis([], finished, text=text, token_count=_token_count(request, answer, finished))


def _spoken(text: str, thinking: Thinking) -> tuple[str, bool]:
    """Return what is said after the thinking, and whether that has ended; raise ThinkingError if neither is meant."""
    tag = thinking_in(text)
    if not tag or thinking == "keep":
        return text, True
    if thinking == "drop":
        return without_thinking(text)
    raise ThinkingError(
        f"its answer has {tag}, and would be compared with that: {brief(repr(text))}. Set `thinking: drop` of the "
        "decoder to take it off, or `thinking: keep`; no answer is asked again"
    )


def _text(config: ServedConfig, choice: Mapping[str, Any], reason: str) -> str:
    text: object = choice.get("text")
    if config.api == "chat":
        message = choice.get("message")
        text = message.get("content", "") if isinstance(message, dict) else None
        if text is None and isinstance(message, dict) and reason in CUT:  # cut while it was still reasoning
            return ""
    if not isinstance(text, str):
        where = "message.content" if config.api == "chat" else "text"
        raise ServerError(f"its choice has no `{where}` that is a text, but {brief(choice)}")
    return text


def _token_count(request: Request, answer: Mapping[str, Any], finished: bool) -> int:
    """Return the number of tokens as the server counts them; -1 if it does not."""
    usage = answer.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if count is None:
        return -1
    most = request.limit + finished if request.limit else None
    if type(count) is not int or count < 0 or (most is not None and count > most):
        asked = "" if most is None else f" where {request.limit} were allowed"
        raise ServerError(f"it counts {brief(repr(count))} tokens{asked}")
    return count
