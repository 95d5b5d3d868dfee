"""Methods whose results are cached."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Once(Generic[P, R]):
    """A method whose result is computed once for given arguments and cached for the lifetime of its object."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Any, kind: Any = None) -> Callable[P, R]:
        if instance is None:
            return self.method  # type: ignore[return-value]
        cached: Any = cache(partial(self.method, instance))
        return vars(instance).setdefault(self.method.__name__, cached)  # type: ignore[no-any-return]
