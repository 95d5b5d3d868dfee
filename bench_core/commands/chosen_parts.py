"""Executors and observers chosen on the command line, with settings `KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from bench_core.errors import SuiteError

if TYPE_CHECKING:
    from bench_core.config import Config, ObserverConfig


def chosen_part(kind: str, name: str, words: Iterable[str], option: str) -> Config:
    """Return the part `name` with settings `KEY=VALUE`; raise SuiteError if they are invalid.

    `option` is the text before a setting on the command line, for messages.
    """
    from pydantic import ValidationError

    from bench_core.registry import part, suggestion
    from placed_settings import sentence

    schema = part(kind, name).config
    settings = {key: value for key, _, value in (word.partition("=") for word in words)}
    for key in settings:
        if key not in schema.model_fields:
            advice = suggestion(key, list(schema.model_fields), "Settings")
            raise SuiteError(f"{option}{key}: {kind} {name!r} has no setting {key!r}. {advice}")
    try:
        return schema.model_validate_strings(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        text = sentence([first], schema, first["loc"])
        raise SuiteError(f"{option}{key}={settings.get(key, '')}: {text}") from None


def chosen_observers(arguments: Iterable[str]) -> list[ObserverConfig]:
    """Return the observers `NAME` or `NAME:KEY=VALUE,KEY=VALUE`; raise SuiteError if any cannot be used."""
    from bench_core.registry import part
    from bench_core.suites.extras import remedy

    observers = []
    for argument in dict.fromkeys(arguments):
        name, _, settings = argument.partition(":")
        config = chosen_part("observer", name, filter(None, settings.split(",")), f"--observe {name}:")
        if command := remedy(observer := part("observer", name), config):
            extras = f"{', '.join(sorted(config.extras()))} of {observer.distribution}"
            text = f"--observe {name}: this observer needs extras that are not installed: {extras}."
            raise SuiteError(f"{text} Install them with: {command}")
        observers.append(cast("ObserverConfig", config))
    return observers
