"""Partially valid settings: keeps the valid values so that further checks can run."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)


class Unreadable(AttributeError):
    """A check reads an invalid setting and cannot be evaluated."""


def partial(schema: type[T], data: Any, invalid: set[str]) -> T:
    """Return the valid settings in `data` as a `schema`; reading an `invalid` setting raises Unreadable.

    Model validators are not applied. All settings are unreadable if `data` is not a mapping.
    """
    keys = {name: {name, field.alias or name} for name, field in schema.model_fields.items()}
    known = {key for name, both in keys.items() if name not in invalid for key in both}
    valid = {key: value for key, value in data.items() if key in known} if isinstance(data, Mapping) else {}
    absent = {
        name for name, field in schema.model_fields.items() if field.is_required() and not keys[name] & {*valid}
    }
    unreadable = ({*schema.model_fields} if not isinstance(data, Mapping) else invalid) | absent
    settings: T
    try:
        settings = _loose(schema, frozenset(unreadable)).model_validate(valid)
    except (ValidationError, Unreadable):
        unreadable = {*schema.model_fields}
        settings = _loose(schema, frozenset(unreadable)).model_construct()
    for name in unreadable:
        settings.__dict__.pop(name, None)
    return settings


def objections(schema: type[T], settings: T) -> Iterator[str]:
    """Yield the error of each model validator; validators that read an invalid setting are skipped."""
    for name in _model_validators(schema):
        try:
            getattr(schema, name)(settings)
        except Unreadable:
            continue
        except (ValueError, AssertionError) as error:
            yield str(error)


@lru_cache(maxsize=256)  # combinations of a grid share mistakes
def _loose(schema: type[T], unreadable: frozenset[str]) -> type[T]:
    """Return a subclass without model validators, whose fields in `unreadable` are optional and not validated."""
    silent = {name: (lambda self: self) for name in _model_validators(schema)}
    fields = schema.__pydantic_decorators__.field_validators
    mute = {name: classmethod(_same) for name, validator in fields.items() if unreadable & {*validator.info.fields}}
    metaclass: Any = type(schema)
    kind = metaclass(
        schema.__name__,
        (schema,),
        {
            "__module__": schema.__module__, "__qualname__": schema.__qualname__, "__doc__": schema.__doc__,
            "__annotations__": dict.fromkeys(sorted(unreadable), Any), **dict.fromkeys(unreadable), **silent, **mute,
            "__getattr__": _unreadable,
        },
    )  # fmt: skip
    return kind  # type: ignore[no-any-return]


def _model_validators(schema: type[BaseModel]) -> list[str]:
    """Return the names of the model validators with mode "after"."""
    known = schema.__pydantic_decorators__.model_validators
    return [name for name, validator in known.items() if validator.info.mode == "after"]


def _same(cls: type[BaseModel], value: Any) -> Any:
    return value


def _unreadable(self: BaseModel, name: str) -> Any:
    if name in type(self).model_fields or hasattr(type(self), name):  # a property that reads an invalid setting
        raise Unreadable(name)
    raise AttributeError(name)
