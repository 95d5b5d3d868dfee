"""Rewrite former names of settings in suites: `python tools/rename_settings.py SUITE.yaml...`, in place.

Only the names change; comments, anchors and layout stay. See `bench_core.suites.former_settings`.
"""

import sys
from pathlib import Path

from bench_core.errors import SuiteError
from bench_core.suites import yaml_source
from bench_core.suites.former_settings import FORMER, former


def renamed(text: str, path: str = "<text>") -> str:
    """Return the text of a suite with current names; raise SuiteError if it is not YAML."""
    source, lines = yaml_source.parse(text, path, tolerant=True), text.split("\n")
    places = {source.places[keys]: keys[-2:] for keys, _ in former(source.data, ()) if keys in source.places}
    for place in sorted(places, key=_position, reverse=True):
        (line, column), (section, key) = _position(place), map(str, places[place])
        before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        lines[line - 1] = before + after.replace(key, FORMER[section, key], 1)
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
