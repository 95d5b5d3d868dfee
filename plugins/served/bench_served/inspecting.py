"""Checks that a server has the model, with a single request for the list of models."""

import httpx2

from bench_core import Inspection
from bench_served.answers import folder_of
from bench_served.client import TemporaryError, is_local, parse_response
from bench_served.plugin import ServedConfig
from bench_served.replies import ServerError, brief
from bench_served.secret import Secret

TIMEOUT = 10.0  #: seconds for the list of models, unless `timeout` is shorter
MAX_LISTED = 5  #: maximum number of models listed in a message


def inspect(config: ServedConfig, inspection: Inspection) -> None:
    """Report why a server cannot be used: as a warning if responses of the model are cached, else as a problem."""
    if text := _problem(config, Secret.of_environment(config.key_env)):
        place = inspection.answers and folder_of(config, inspection.answers)
        if place and place.exists():
            inspection.warnings.append(f"{text} Cached responses in {place} are used; other requests would fail.")
        else:
            inspection.problems.append(text)


def _problem(config: ServedConfig, secret: Secret) -> str:
    """Return why a server cannot be used, or the empty string if it has the model."""
    try:
        models = _models(config, secret)
    except httpx2.HTTPError as error:
        why = f"{type(error).__name__}: {brief(error) or 'no details'}"
    except (ServerError, TemporaryError) as error:
        why = str(error)
    else:
        names = {name for id_ in models for name in (id_, id_.removesuffix(":latest"), id_.removeprefix("models/"))}
        if config.model in names:
            return ""
        more = f" and {len(models) - MAX_LISTED} more" if len(models) > MAX_LISTED else ""
        why = f"it has no model {config.model!r}, only {', '.join(map(repr, models[:MAX_LISTED])) or 'none'}{more}"
    where = f"{config.url}/models"
    return secret.hide(f"the server of {config.model!r} cannot be used: GET {where}: {why.rstrip('.')}.")


def _models(config: ServedConfig, secret: Secret) -> list[str]:
    """Return the names of a server's models."""
    timeout = min(TIMEOUT, config.timeout)
    with httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=not is_local(config.url)) as http:
        answer = http.get(f"{config.url}/models", headers={"Accept": "application/json", **secret.headers})
    models = parse_response(answer.status_code, answer.headers, answer.content).get("data")
    if not isinstance(models, list) or not all(
        isinstance(model, dict) and isinstance(model.get("id"), str) for model in models
    ):
        raise ServerError("the response is not a list of models. Correct `url`, which usually ends in /v1")
    return [model["id"] for model in models]
