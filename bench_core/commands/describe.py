"""`bench describe KIND NAME`"""

from __future__ import annotations

import inspect
import json
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel

from bench_core.commands import options
from bench_core.config import Config
from bench_core.data import Source
from bench_core.registry import Part, part
from bench_core.terminal import say, to_json


@click.command()
@click.argument("kind")
@click.argument("name")
@options.as_json
def command(kind: str, name: str, as_json: bool) -> None:
    """Show a part, such as `model rnn`: its capabilities or requirements, and its settings with defaults."""
    found = part(kind, name)
    about = _about(found)
    if as_json:
        say(to_json(about, default=str))
        return
    from tabulate import tabulate

    from bench_core.extras import remedy

    say(f"{kind} {name}, from {found.distribution} {found.version}\n\n{about['what']}\n")
    if command := remedy(found):
        say(f"not installed: {command}")
    for key in ("capabilities", "needs", "sources", "source", "likelihoods", "about"):
        if key in about:
            say(f"{key}: {', '.join(about[key])}")
    if about["settings"]:
        say(tabulate(about["settings"], headers="keys", maxcolwidths=[None, 60, 40]))


def _about(found: Part) -> dict[str, Any]:
    config: Any = found.config
    about: dict[str, Any] = {"kind": found.kind, "name": config.name, "distribution": found.distribution}
    about["what"] = inspect.cleandoc(config.__doc__ or "")
    if found.kind == "model":
        about["capabilities"] = sorted(one.__name__ for one in config.capabilities)
        about["sources"] = sorted(config.sources)
        about["likelihoods"] = [f"{name} ({kind})" for name, kind in config.likelihoods.items()]
    if found.kind in ("decoder", "metric"):
        about["needs"] = [config.needs.__name__]
    if found.kind == "probe":
        about["asks about"] = ["a model under each decoder" if config.with_decoder else "a model"]
    if found.kind == "task":
        about["source"] = [config.source if isinstance(config.source, Source) else "by its settings"]
    about["settings"] = [
        {"setting": name, "type": _type(field.annotation), "default": _default(field)}
        for name, field in config.model_fields.items()
    ]
    return about


def _type(annotation: Any) -> str:
    """Return a type in the terms of suite files, such as `int | null` or `{name, states}`."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inside[0])
    if origin is Literal:
        return " | ".join(map(str, inside))
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(_type, inside)))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_type, inside))}]"
    if annotation is type(None):
        return "null"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Config):
            return annotation.name
        return f"{{{', '.join(annotation.model_fields)}}}"
    return str(getattr(annotation, "__name__", annotation))


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    shown = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(shown, default=str).strip('"')
