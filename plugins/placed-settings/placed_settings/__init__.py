"""Settings files in YAML whose values know their places, and all problems with them at once, in plain words.

`yaml_files` reads YAML as plain data with the line and column of each value, and merges files; `yaml_messages` says
what is wrong with text that is no YAML. `problems` validates data by schemas of pydantic and collects what is wrong,
at its place; `value_messages` says it in sentences, and `partial` keeps what is valid, so that checks go on.
"""

from placed_settings.errors import SettingsError
from placed_settings.partial import Unreadable, objections
from placed_settings.problems import Problems, listing
from placed_settings.value_messages import sentence, suggestion
from placed_settings.yaml_files import MOST_LEVELS, NO_LETTER, Keys, Located, as_yaml, content, parse, read, scalar

__all__ = [
    "MOST_LEVELS",
    "NO_LETTER",
    "Keys",
    "Located",
    "Problems",
    "SettingsError",
    "Unreadable",
    "as_yaml",
    "content",
    "listing",
    "objections",
    "parse",
    "read",
    "scalar",
    "sentence",
    "suggestion",
]
