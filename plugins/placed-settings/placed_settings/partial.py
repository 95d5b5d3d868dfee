"""Settings some of whose values are invalid: what of them is valid, so that checks can go on."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)


class Unreadable(AttributeError):
    """The setting that a check reads is invalid, so the check says nothing."""


def partial(schema: type[T], data: Any, invalid: set[str]) -> T:
    """Return the valid settings in `data` as a `schema`; reading one of `invalid` raises Unreadable.

    No validator of the settings as a whole has been applied. All settings are unreadable if `data` is no mapping.
    """
    keys = {name: {name, field.alias or name} for name, field in schema.model_fields.items()}
    known = {key for name, both in keys.items() if name not in invalid for key in both}
    given = {key: value for key, value in data.items() if key in known} if isinstance(data, Mapping) else {}
    absent = {
        name for name, field in schema.model_fields.items() if field.is_required() and not keys[name] & {*given}
    }
    lost = ({*schema.model_fields} if not isinstance(data, Mapping) else invalid) | absent
    found: T
    try:
        found = _loose(schema, frozenset(lost)).model_validate(given)
    except (ValidationError, Unreadable):
        lost = {*schema.model_fields}
        found = _loose(schema, frozenset(lost)).model_construct()
    for name in lost:
        found.__dict__.pop(name, None)
    return found


def objections(schema: type[T], found: T) -> Iterator[str]:
    """Yield what each validator of whole settings has against valid ones; one that reads an invalid one is silent."""
    for name in _whole(schema):
        try:
            getattr(schema, name)(found)
        except Unreadable:
            continue
        except (ValueError, AssertionError) as error:
            yield str(error)


@lru_cache(maxsize=256)  # the combinations of a grid have the same mistakes
def _loose(schema: type[T], lost: frozenset[str]) -> type[T]:
    """Return a subclass that applies no validator of the whole, nor of the fields in `lost`, which are optional."""
    silent = {name: (lambda self: self) for name in _whole(schema)}
    fields = schema.__pydantic_decorators__.field_validators
    mute = {name: classmethod(_same) for name, one in fields.items() if lost & {*one.info.fields}}
    metaclass: Any = type(schema)
    kind = metaclass(
        schema.__name__,
        (schema,),
        {
            "__module__": schema.__module__, "__qualname__": schema.__qualname__, "__doc__": schema.__doc__,
            "__annotations__": dict.fromkeys(sorted(lost), Any), **dict.fromkeys(lost), **silent, **mute,
            "__getattr__": _unreadable,
        },
    )  # fmt: skip
    return kind  # type: ignore[no-any-return]


def _whole(schema: type[BaseModel]) -> list[str]:
    """Return the names of the validators of settings as a whole."""
    known = schema.__pydantic_decorators__.model_validators
    return [name for name, one in known.items() if one.info.mode == "after"]


def _same(cls: type[BaseModel], value: Any) -> Any:
    return value


def _unreadable(self: BaseModel, name: str) -> Any:
    if name in type(self).model_fields or hasattr(type(self), name):  # a property, which reads an invalid setting
        raise Unreadable(name)
    raise AttributeError(name)
