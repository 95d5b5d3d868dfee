"""Parts that are chosen on the command line, with settings `KEY=VALUE`: executors and observers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from bench_core.errors import SuiteError

if TYPE_CHECKING:
    from bench_core.config import Config, ObserverConfig


def chosen_part(kind: str, name: str, given: Iterable[str], option: str) -> Config:
    """Return the part `name` with settings `KEY=VALUE`; raise SuiteError if they are invalid.

    `option` is what stands before a setting on the command line, for messages.
    """
    from pydantic import ValidationError

    from bench_core.registry import part, suggestion
    from placed_settings import sentence

    schema = part(kind, name).config
    settings = {key: value for key, _, value in (one.partition("=") for one in given)}
    for key in settings:
        if key not in schema.model_fields:
            known = suggestion(key, list(schema.model_fields), "Settings")
            raise SuiteError(f"{option}{key}: {kind} {name!r} has no setting {key!r}. {known}")
    try:
        return schema.model_validate_strings(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        text = sentence([first], schema, first["loc"])
        raise SuiteError(f"{option}{key}={settings.get(key, '')}: {text}") from None


def chosen_observers(given: Iterable[str]) -> list[ObserverConfig]:
    """Return the observers `NAME` or `NAME:KEY=VALUE,KEY=VALUE`; raise SuiteError if one cannot be used."""
    from bench_core.registry import part
    from bench_core.suites.extras import remedy

    found = []
    for words in dict.fromkeys(given):
        name, _, settings = words.partition(":")
        config = chosen_part("observer", name, filter(None, settings.split(",")), f"--observe {name}:")
        if command := remedy(own := part("observer", name), config):
            extras = ", ".join(sorted(config.extras()))
            raise SuiteError(
                f"--observe {name}: it needs extras not installed: {extras} of {own.distribution}. "
                f"Install it by: {command}"
            )
        found.append(cast("ObserverConfig", config))
    return found
