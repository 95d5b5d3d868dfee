"""The secret key of a server: from the environment, to the server alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from bench_core import DataError, reads

SHORTEST = 8  #: characters: shorter keys are no secrets, such as EMPTY, and may be words of an answer
HIDDEN = "[secret]"


@dataclass(frozen=True)
class Secret:
    """A key that nothing shows; the empty string where a server asks for none."""

    value: str = field(default="", repr=False)

    @classmethod
    def of_environment(cls, name: str | None) -> Secret:
        """Read the key from an environment variable; raise DataError that names it if it holds none."""
        if name is None:
            return cls()
        with reads():  # the key gives access, and is part of no result
            value = os.environ.get(name, "").strip()
        if not value:
            raise DataError(
                f"the environment variable {name} (`key_env`) is not set where the stage is computed, and the "
                "server's key is read from there. Set it, or leave out `key_env`."
            )
        if not (value.isascii() and value.isprintable()):
            raise DataError(f"the environment variable {name} has signs that no key has. Correct it.")
        return cls(value)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a request that prove the key."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def hide(self, text: str) -> str:
        """Return a text in which the key does not stand."""
        return text.replace(self.value, HIDDEN) if len(self.value) >= SHORTEST else text

    def hide_in(self, value: Any) -> Any:
        """Return JSON data in which the key does not stand, neither in keys nor in values."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(name): self.hide_in(one) for name, one in value.items()}
        return [*map(self.hide_in, value)] if isinstance(value, list) else value
