"""Rewrite former names of settings in suites: `python tools/rename_settings.py SUITE.yaml...`, in place.

Only the names change; comments, anchors and layout stay. See `bench_core.suites.former_settings`.
"""

import re
import sys
from pathlib import Path

from bench_core.errors import SuiteError
from bench_core.suites import yaml_source
from bench_core.suites.former_settings import FORMER, former


def renamed(text: str, path: str = "<text>") -> str:
    """Return the text of a suite with current names; raise SuiteError if it is not YAML."""
    source, lines = yaml_source.parse(text, path, tolerant=True), text.split("\n")
    places = {source.places[keys]: keys for keys, _ in former(source.data, ()) if keys in source.places}
    for place, keys in sorted(places.items(), key=lambda item: _position(item[0]), reverse=True):
        line, column = _position(place)
        key, name = str(keys[-1]), FORMER[str(keys[-2]), str(keys[-1])]
        while not (
            matches := [*re.finditer(rf"\b{re.escape(key)}(?=[\"']?\s*:)", lines[line - 1][: column - 1 or None])]
        ):
            line, column = line - 1, 0  # the value is on a later line than its key
        start = matches[-1].start()
        lines[line - 1] = lines[line - 1][:start] + name + lines[line - 1][start + len(key) :]
    return "\n".join(lines)


def _position(place: str) -> tuple[int, int]:
    line, column = place.split(":")
    return int(line), int(column)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument)
        try:
            old = yaml_source.content(path)
            new = renamed(old, argument)
        except SuiteError as error:
            sys.exit(str(error))
        if new != old:
            path.write_bytes(new.encode())
            print(f"{path}: renamed")
