"""Former names of public classes and fields, accepted for one release with a warning."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from warnings import warn

T = TypeVar("T", bound=type)


def warn_of_former(old: str, new: str) -> None:
    """Warn the caller's caller; visible by default, because plugins are often run by others than their authors."""
    warn(f"`{old}` is now called `{new}`; the next release removes the old name.", FutureWarning, stacklevel=3)


def formerly(**names: str) -> Callable[[T], T]:
    """Return a decorator of dataclasses that accepts former names of fields (`old="new"`)."""

    def decorate(cls: T) -> T:
        construct = cls.__init__  # type: ignore[misc]

        @wraps(construct)
        def __init__(self: Any, *args: Any, **fields: Any) -> None:
            for old in names.keys() & fields.keys():
                warn_of_former(f"{cls.__name__}.{old}", names[old])
                fields[names[old]] = fields.pop(old)
            construct(self, *args, **fields)

        cls.__init__ = __init__  # type: ignore[misc]
        for old, new in names.items():
            setattr(cls, old, property(_read(f"{cls.__name__}.{old}", new)))
        return cls

    return decorate


def _read(old: str, new: str) -> Callable[[Any], Any]:
    def read(instance: Any) -> Any:
        warn_of_former(old, new)
        return getattr(instance, new)

    return read
