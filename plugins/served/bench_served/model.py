"""A served model that generates and scores texts through cached requests."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from torch import nn

from bench_core import Generation, Hypothesis, Prompt, TaskInfo, TextScore, TextScorer
from bench_served.answers import Answers, answers_in, folder_of
from bench_served.client import Client, is_unprotected
from bench_served.echo import score_of
from bench_served.plugin import Served, ServedConfig
from bench_served.replies import ServerError, ThinkingError, choice_of, hypothesis_of
from bench_served.requests import Request, prompt_and_target, to_generate, to_score
from bench_served.secret import Secret

T = TypeVar("T")


class ServedModel(nn.Module, Served, TextScorer):
    """Generates and scores texts with a server; responses are cached before use, and no request is sent twice."""

    def __init__(self, config: ServedConfig, info: TaskInfo) -> None:
        super().__init__()
        self.config = config

    def notes(self) -> Mapping[str, str]:
        config = self.config
        return {"served model": f"{config.model}, revision {config.revision}, API {config.api}"}

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        """Return the samples of each prompt, in the order of sampling."""
        config, count = self.config, generation.settings.n
        requests = [to_generate(config, prompt, generation, index) for prompt in prompts for index in range(count)]
        outputs = self._fetch(requests, generation, lambda each, answer: hypothesis_of(config, each, answer))
        return [outputs[first : first + count] for first in range(0, len(outputs), count)]

    def score_texts(
        self, prompts: Sequence[Prompt], targets: Sequence[str], generation: Generation
    ) -> list[TextScore]:
        """Return the log-probability of each target given its prompt, as tokenized by the server."""
        config, pairs = self.config, [*zip(prompts, targets, strict=True)]
        requests = [to_score(config, *pair, generation) for pair in pairs]
        parts = {id(request): prompt_and_target(config, *pair) for request, pair in zip(requests, pairs, strict=True)}

        def read(request: Request, answer: dict[str, Any]) -> TextScore:
            return score_of(choice_of(config, answer), *parts[id(request)], config.end or "")

        return self._fetch(requests, generation, read)

    def _fetch(
        self, requests: Sequence[Request], generation: Generation, read: Callable[[Request, dict[str, Any]], T]
    ) -> list[T]:
        """Return `read(request, response)` for each request; requests without a cached response are sent once.

        A response that `read` refuses is not cached, unless another setting can use it.
        """
        answers, config = answers_in(folder_of(self.config, generation.folder)), self.config
        missing = {request.key: request for request in requests if answers.find(request) is None}
        if missing:
            if is_unprotected(config):
                generation.warn(f"the key in {config.key_env} is sent unencrypted to {config.url}. Use https.")
            secret = Secret.of_environment(config.key_env)
            answers.prepare()

            def receive(request: Request, answer: dict[str, Any]) -> None:
                answer = secret.hide_in(answer)
                metadata = {"example": request.about, "received": datetime.now(UTC).isoformat(timespec="seconds")}
                try:
                    read(request, answer)
                except ThinkingError:  # valid: another setting can use it
                    answers.add(request, answer, metadata)
                    raise
                answers.add(request, answer, metadata)

            Client(config, secret, generation.rng, warn=generation.warn).send([*missing.values()], receive)
        return [_read_cached(answers, request, read) for request in requests]


def _read_cached(answers: Answers, request: Request, read: Callable[[Request, dict[str, Any]], T]) -> T:
    """Apply `read` to a cached response; a ServerError names the request and the file."""
    try:
        return read(request, answers.find(request) or {})
    except ServerError as error:
        raise ServerError(f"{request.about}, cached in {answers.path}: {error}.") from None
