"""Asks a server which models it has, once and briefly; no model is asked anything."""

import httpx2

from bench_core import Inspection
from bench_served.answers import folder_of
from bench_served.client import TemporaryError, is_here, read
from bench_served.plugin import ServedConfig
from bench_served.replies import ServerError, brief
from bench_served.secret import Secret

SECONDS = 10.0  #: for the list of models, if `timeout` is not shorter
SHOWN = 5  #: models in a message


def inspect(config: ServedConfig, inspection: Inspection) -> None:
    """Note why a server cannot be asked; where it has answered before, that is a warning, as answers are kept."""
    if text := _trouble(config, Secret.of_environment(config.key_env)):
        place = inspection.answers and folder_of(config, inspection.answers)
        if place and place.exists():
            inspection.warnings.append(f"{text} Answers in {place} are used; other requests would fail.")
        else:
            inspection.problems.append(text)


def _trouble(config: ServedConfig, secret: Secret) -> str:
    """Return why a server cannot be asked for its model; the empty string if it has it."""
    try:
        models = _models(config, secret)
    except httpx2.HTTPError as error:
        why = f"{type(error).__name__}: {brief(error) or 'no reason'}"
    except (ServerError, TemporaryError) as error:
        why = str(error)
    else:
        known = {name for one in models for name in (one, one.removesuffix(":latest"), one.removeprefix("models/"))}
        if config.model in known:
            return ""
        more = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
        why = f"it has no model {config.model!r}, only {', '.join(map(repr, models[:SHOWN])) or 'none'}{more}"
    where = f"{config.url}/models"
    return secret.hide(f"the server of {config.model!r} cannot be used: GET {where}: {why.rstrip('.')}.")


def _models(config: ServedConfig, secret: Secret) -> list[str]:
    """Return the names of the models that a server has."""
    timeout = min(SECONDS, config.timeout)
    with httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=not is_here(config.url)) as http:
        answer = http.get(f"{config.url}/models", headers={"Accept": "application/json", **secret.headers})
    found = read(answer.status_code, answer.headers, answer.content).get("data")
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("id"), str) for one in found
    ):
        raise ServerError("its answer is no list of models. Correct `url` (mostly it ends in /v1)")
    return [one["id"] for one in found]
