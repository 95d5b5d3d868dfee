"""YAML settings with the place of every value, and reports of all problems at once.

`yaml_files` reads YAML as plain data with the line and column of each value, and merges files; `yaml_messages`
explains text that is not valid YAML. `problems` validates data with pydantic schemas and collects problems with
their places; `value_messages` turns errors into sentences, and `partial` keeps valid settings so that further checks
can run.
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
