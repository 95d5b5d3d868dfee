"""The secret key of a server, which is read from the environment and sent only to the server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from bench_core import DataError, reads

MIN_CHARS = 8  #: shorter keys, such as EMPTY, are not secrets and may occur in outputs
HIDDEN = "[secret]"


@dataclass(frozen=True)
class Secret:
    """A key that is never printed; the empty string if the server needs no key."""

    value: str = field(default="", repr=False)

    @classmethod
    def of_environment(cls, name: str | None) -> Secret:
        """Read the key from an environment variable; raise DataError if it is missing or invalid."""
        if name is None:
            return cls()
        with reads():  # the key only gives access: it affects no result
            value = os.environ.get(name, "").strip()
        if not value:
            raise DataError(
                f"the environment variable {name} (`key_env`) is not set where the stage is computed, but it must "
                "hold the server's key. Set it, or remove `key_env`."
            )
        if not (value.isascii() and value.isprintable()):
            raise DataError(f"the environment variable {name} has characters other than printable ASCII. Correct it.")
        return cls(value)

    @property
    def headers(self) -> dict[str, str]:
        """Return the authorization headers of a request."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def hide(self, text: str) -> str:
        """Replace the secret key in a text."""
        return text.replace(self.value, HIDDEN) if len(self.value) >= MIN_CHARS else text

    def hide_in(self, value: Any) -> Any:
        """Replace the secret key in JSON data, in both keys and values."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(name): self.hide_in(item) for name, item in value.items()}
        return [*map(self.hide_in, value)] if isinstance(value, list) else value
