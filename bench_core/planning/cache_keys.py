"""Cache keys of artifacts: hashes of settings, inputs, code and versions, known before anything runs."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bench_core.entry_points import installed_version
from bench_core.errors import DataError
from bench_core.files import digest

T = TypeVar("T")

SCHEME = 2  #: of keys; a change makes every stored artifact a stranger


#: Returns JSON data as text, the same for equal data.
canonical: Callable[[Any], str] = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def key_of(ingredients: Mapping[str, Any], text: Callable[[Any], str] = canonical) -> str:
    """Return the sha256 of canonical JSON; `text` gives that of each ingredient, and of each of its settings."""
    texts = {name: text(value) for name, value in ingredients.items() if name != "settings"}
    texts.setdefault("scheme", str(SCHEME))
    if "settings" in ingredients:
        texts["settings"] = _joined({name: text(value) for name, value in ingredients["settings"].items()})
    return hashlib.sha256(_joined(texts).encode()).hexdigest()


class TextCache:
    """Canonical JSON of values that are shared by many ingredients, made once."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._values: list[Any] = []  # so that no id is used again

    def keep(self, value: T) -> T:
        """Return a value, which must not change from now on, whose text is made once."""
        self._texts[id(value)] = canonical(value)
        self._values.append(value)
        return value

    def text(self, value: Any) -> str:
        """Return a value as canonical JSON."""
        return self._texts.get(id(value)) or canonical(value)


def _joined(texts: Mapping[str, str]) -> str:
    return f"{{{','.join([f'{canonical(name)}:{texts[name]}' for name in sorted(texts)])}}}"


#: Returns the version of a distribution, or "not installed".
library: Callable[[str], str] = installed_version


def file_digest(path: Path) -> str:
    """Return the sha256 of a file that settings name; raise DataError if it cannot be read."""
    try:
        return digest(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Give the path of a file of weights.") from None
