"""Second looks at what parts return: `bench-authors` computes or reads some of it again, where it is installed."""

from __future__ import annotations

from typing import Any

from bench_core.optional import AUTHORS, installed_module


class NoLook:
    """Stands for a second look where there is none: whatever is asked of it, it does nothing."""

    def __getattr__(self, name: str) -> Any:
        return self._nothing

    def _nothing(self, *given: object) -> None:
        """Do nothing."""


def second_look(kind: str, *about: object) -> Any:
    """Return the second look at `models` (what is decoded or scored by them), `metrics` or `tasks`."""
    module = installed_module(AUTHORS, f"looks.{kind}")
    return module.LOOK(*about) if module else NoLook()
