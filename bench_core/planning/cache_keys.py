"""Cache keys of artifacts: hashes of settings, inputs, code and versions, computed before anything runs."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bench_core.entry_points import installed_version
from bench_core.errors import DataError
from bench_core.files import digest

T = TypeVar("T")

SCHEME = 2  #: version of keys; a change invalidates every stored artifact

#: Returns canonical JSON text: equal for equal data.
canonical: Callable[[Any], str] = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def key_of(ingredients: Mapping[str, Any], text: Callable[[Any], str] = canonical) -> str:
    """Return the sha256 of canonical JSON; `text` encodes each ingredient and each setting."""
    texts = {name: text(value) for name, value in ingredients.items() if name != "settings"}
    texts.setdefault("scheme", str(SCHEME))
    if "settings" in ingredients:
        texts["settings"] = _join({name: text(value) for name, value in ingredients["settings"].items()})
    return hashlib.sha256(_join(texts).encode()).hexdigest()


class TextCache:
    """Canonical JSON of values that many ingredients share, encoded once."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._values: list[Any] = []  # keeps ids from being reused

    def keep(self, value: T) -> T:
        """Encode a value once and return it; it must not change afterwards."""
        self._texts[id(value)] = canonical(value)
        self._values.append(value)
        return value

    def text(self, value: Any) -> str:
        """Return the canonical JSON of a value."""
        return self._texts.get(id(value)) or canonical(value)


def _join(texts: Mapping[str, str]) -> str:
    return f"{{{','.join([f'{canonical(name)}:{texts[name]}' for name in sorted(texts)])}}}"


#: Returns the version of a distribution, or "not installed".
library: Callable[[str], str] = installed_version


def file_digest(path: Path) -> str:
    """Return the sha256 of a file that settings name; raise DataError if it cannot be read."""
    try:
        return digest(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Set the path of a weights file.") from None
