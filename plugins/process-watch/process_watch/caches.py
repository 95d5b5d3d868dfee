"""Caches of functions: what a block with replaced code computed must not be returned to others."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from process_watch.replacements import sort_of_module

CACHED = type(lru_cache(len))  #: type of functions with a cache


@dataclass
class Caches:
    """The caches of functions of user code and of the host; Python and libraries must cache what cannot change."""

    functions: dict[int, Any] = field(default_factory=dict)  # id -> function
    misses: dict[int, int] = field(default_factory=dict)  # id -> number of calls computed before the block

    def enter(self, module: str, function: Any) -> None:
        """Add a function of a module if it has a cache."""
        if type(function) is CACHED and sort_of_module(module) in ("own", "host"):
            self.functions[id(function)] = function

    def begin(self) -> None:
        """Record how many calls each function has computed."""
        self.misses = {key: function.cache_info().misses for key, function in self.functions.items()}

    def clear(self) -> None:
        """Clear the caches that were filled since `begin`."""
        for key, function in self.functions.items():
            if function.cache_info().misses > self.misses.get(key, 0):
                function.cache_clear()
