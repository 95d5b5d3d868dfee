"""Reads responses, which must conform to the API and come from the requested model."""

from collections.abc import Mapping
from typing import Any

from bench_core import DataError, Hypothesis, Thinking, thinking_in, without_thinking
from bench_served.plugin import ServedConfig
from bench_served.requests import Request

FINISHED = {"stop", "eos_token", "stop_sequence"}  #: finish reasons of complete texts
UNFINISHED = {"length", "content_filter"}  #: finish reasons of truncated texts
#: Advice for texts longer than the server's context.
CONTEXT_HELP = (
    "Exclude such examples from the data, or serve the model with a longer context (`--max-model-len` of vLLM, `-c` "
    "of llama.cpp)"
)
MAX_MESSAGE_CHARS = 300  #: maximum length of quotations from responses in messages


class ServerError(DataError):
    """A server refuses a request, or violates the API."""


class ThinkingError(ServerError):
    """A valid response contains reasoning, and no setting says how to treat it."""


def brief(value: object) -> str:
    """Return the beginning of a value from a response, on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[:MAX_MESSAGE_CHARS]}..."


def choice_of(config: ServedConfig, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the only choice of a response; raise ServerError if it has several or comes from another model."""
    reported = answer.get("model")
    expected = config.reported or config.model
    if reported is not None and reported != expected:
        raise ServerError(
            f"the response is from the model {brief(repr(reported))}, not {expected!r}. If they are the same model, "
            "set `reported` to the name in the response; otherwise correct `model` or `url`"
        )
    choices = answer.get("choices")
    if not isinstance(choices, list):
        detail = f". Its error: {brief(answer['error'])}" if "error" in answer else ""
        raise ServerError(f"the response has no list of `choices`, but {brief(sorted(answer))}{detail}")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise ServerError(f"the response has {len(choices)} choices instead of one: {brief(choices)}")
    choice: Mapping[str, Any] = choices[0]
    if choice.get("index", 0) != 0:
        raise ServerError(f"the only choice of the response has the index {brief(repr(choice['index']))}, not 0")
    return choice


def hypothesis_of(config: ServedConfig, request: Request, answer: Mapping[str, Any]) -> Hypothesis:
    """Return the output without separator and reasoning, up to a stop string; raise ServerError if it is invalid."""
    choice = choice_of(config, answer)
    reason = choice.get("finish_reason")
    if reason not in FINISHED | UNFINISHED:
        allowed = ", ".join(sorted(FINISHED | UNFINISHED))
        raise ServerError(f"the finish reason {brief(repr(reason))} of the response is not one of {allowed}")
    text, ended = _strip_thinking(_text(config, choice, reason).removeprefix(request.separator), request.thinking)
    stops = [place for place in map(text.find, request.stops) if place >= 0]
    text = text[: min(stops)] if stops else text
    finished = ended and (bool(stops) or reason in FINISHED)
    return Hypothesis([], finished, text=text, token_count=_token_count(request, answer, finished))


def _strip_thinking(text: str, thinking: Thinking) -> tuple[str, bool]:
    """Return the text after the reasoning, and whether the reasoning has ended; for `refuse`, raise ThinkingError."""
    tag = thinking_in(text)
    if not tag or thinking == "keep":
        return text, True
    if thinking == "drop":
        return without_thinking(text)
    raise ThinkingError(
        f"the response contains {tag}, so metrics would evaluate its reasoning: {brief(repr(text))}. Set the "
        "decoder's `thinking: drop` to remove the reasoning, or `thinking: keep`; cached responses are reused"
    )


def _text(config: ServedConfig, choice: Mapping[str, Any], reason: str) -> str:
    text: object = choice.get("text")
    if config.api == "chat":
        message = choice.get("message")
        text = message.get("content", "") if isinstance(message, dict) else None
        if text is None and isinstance(message, dict) and reason in UNFINISHED:  # truncated during reasoning
            return ""
    if not isinstance(text, str):
        where = "message.content" if config.api == "chat" else "text"
        raise ServerError(f"the choice of the response has no string `{where}`: {brief(choice)}")
    return text


def _token_count(request: Request, answer: Mapping[str, Any], finished: bool) -> int:
    """Return the number of tokens that the server reports, or -1 if it reports no number."""
    usage = answer.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if count is None:
        return -1
    maximum = request.limit + finished if request.limit else None
    if type(count) is not int or count < 0 or (maximum is not None and count > maximum):
        limit = "" if maximum is None else f", but at most {request.limit} were allowed"
        raise ServerError(f"the server counts {brief(repr(count))} tokens{limit}")
    return count
