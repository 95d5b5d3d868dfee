"""A model behind an address: it writes and scores texts by requests, each of which is answered once."""

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
from bench_served.requests import Request, scored_parts, to_generate, to_score
from bench_served.secret import Secret

T = TypeVar("T")


class ServedModel(nn.Module, Served, TextScorer):
    """Asks a server; every answer is kept before it is used, and no request that has one is sent again."""

    def __init__(self, config: ServedConfig, info: TaskInfo) -> None:
        super().__init__()
        self.config = config

    def notes(self) -> Mapping[str, str]:
        config = self.config
        return {"served model": f"{config.model}, revision {config.revision}, by {config.api}"}

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        """Return the draws for each prompt, in the order of drawing."""
        config, draws = self.config, generation.settings.n
        requests = [to_generate(config, prompt, generation, draw) for prompt in prompts for draw in range(draws)]
        found = self._asked(requests, generation, lambda one, said: hypothesis_of(config, one, said))
        return [found[first : first + draws] for first in range(0, len(found), draws)]

    def score_texts(
        self, prompts: Sequence[Prompt], targets: Sequence[str], generation: Generation
    ) -> list[TextScore]:
        """Return the log-probability of each target after its prompt, in tokens of the server."""
        config, pairs = self.config, [*zip(prompts, targets, strict=True)]
        requests = [to_score(config, *pair, generation) for pair in pairs]
        parts = {id(one): scored_parts(config, *pair) for one, pair in zip(requests, pairs, strict=True)}

        def read(request: Request, answer: dict[str, Any]) -> TextScore:
            return score_of(choice_of(config, answer), *parts[id(request)], config.end or "")

        return self._asked(requests, generation, read)

    def _asked(
        self, requests: Sequence[Request], generation: Generation, read: Callable[[Request, dict[str, Any]], T]
    ) -> list[T]:
        """Return what `read` makes of the answer to each request; those without an answer are sent, each once.

        An answer that `read` refuses is not kept, unless another setting can read it.
        """
        answers, config = answers_in(folder_of(self.config, generation.folder)), self.config
        missing = {one.key: one for one in requests if answers.find(one) is None}
        if missing:
            if is_unprotected(config):
                generation.warn(f"the key in {config.key_env} travels unencrypted to {config.url}. Use https.")
            secret = Secret.of_environment(config.key_env)
            answers.prepare()

            def receive(request: Request, answer: dict[str, Any]) -> None:
                answer = secret.hide_in(answer)
                about = {"example": request.about, "received": datetime.now(UTC).isoformat(timespec="seconds")}
                try:
                    read(request, answer)
                except ThinkingError:  # it is whole, and another setting can read it
                    answers.add(request, answer, about)
                    raise
                answers.add(request, answer, about)

            Client(config, secret, generation.noise, warn=generation.warn).send([*missing.values()], receive)
        return [_read_again(answers, one, read) for one in requests]


def _read_again(answers: Answers, request: Request, read: Callable[[Request, dict[str, Any]], T]) -> T:
    """Return what `read` makes of a kept answer; raise ServerError that names the request and the file."""
    try:
        return read(request, answers.find(request) or {})
    except ServerError as error:
        raise ServerError(f"{request.about}, answered before ({answers.path}): {error}.") from None
