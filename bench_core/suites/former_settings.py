"""Former names of settings, read for one release with a note."""

from collections.abc import Iterator
from typing import Any

from placed_settings import Keys, Located, Problems

FORMER = {("training", "together"): "vmap_seeds"}  #: enclosing key and former name of a setting -> its name


def rename_settings(source: Located, problems: Problems) -> None:
    """Rename former settings in place and note each; a setting that is present under both names is a problem."""
    for keys, settings in [*former(source.data, ())]:
        old, new = keys[-1], FORMER[keys[-2:]]  # type: ignore[index]
        if new in settings:
            problems.add(keys, f"`{old}` is the former name of `{new}`, which is also set. Remove `{old}`.")
        text = f"`{old}` is now called `{new}`. Rename it, or run `python tools/rename_settings.py` on the file."
        problems.notes.append(f"{source.place(keys)}: {text}")
        source.places[*keys[:-1], new] = source.places.get(keys, "1:1")
        if old in settings:  # YAML aliases share mappings
            settings.setdefault(new, settings.pop(old))


def former(data: Any, keys: Keys) -> Iterator[tuple[Keys, dict[str, Any]]]:
    """Yield the keys of former settings and the mappings that contain them."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        if (*keys[-1:], key) in FORMER:
            yield (*keys, key), data
        yield from former(value, (*keys, key))
