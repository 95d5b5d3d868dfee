"""Methods whose results are computed once."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Once(Generic[P, R]):
    """A method whose result is computed once for each argument, and kept as long as its object lives."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, one: Any, kind: Any = None) -> Callable[P, R]:
        if one is None:
            return self.method  # type: ignore[return-value]
        kept: Any = cache(partial(self.method, one))
        return vars(one).setdefault(self.method.__name__, kept)  # type: ignore[no-any-return]
