"""Print the JSON schema of suites, for editors."""

from typing import Any

import click

from bench_core.terminal import say, to_json

# JSON schemas for the settings `grid` and `by_task` of models.
GRID = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "minItems": 1}}
BY_TASK = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "object"}}


@click.command()
def command() -> None:
    """Print the JSON schema of suites, with the settings of every installed part."""
    say(to_json(schema(), 1))


def schema() -> dict[str, Any]:
    """Return the JSON schema of suite files, with the settings of each part by name."""
    from bench_core.registry import IN_SUITES, parts
    from bench_core.suites.schema import SuiteFile
    from bench_core.suites.sections import added, schema_of
    from bench_core.suites.training import training_schema

    suite = SuiteFile.model_json_schema()
    definitions = suite.setdefault("$defs", {})
    for section in dict.fromkeys(map(schema_of, added().values())):
        more = section.model_json_schema()
        definitions |= more.pop("$defs", {})
        suite["properties"] |= more["properties"]
    training = training_schema().model_json_schema(ref_template="#/$defs/{model}")
    definitions |= training.pop("$defs", {})
    suite["properties"]["training"] = training
    model_keys = {"training": training, "grid": GRID, "by_task": BY_TASK}
    for kind in IN_SUITES:
        choices = []
        for name, part in parts(kind).items():
            choice = part.config.model_json_schema(ref_template="#/$defs/{model}")
            definitions |= choice.pop("$defs", {})
            names = {"enum": [*dict.fromkeys((name, part.whole_name))]}  # without and with the distribution's name
            common = model_keys if kind == "model" else {}
            choice["properties"] = {"name": names, **choice.get("properties", {}), **common}
            choice["required"] = ["name", *choice.get("required", [])]
            choices.append(choice)
        suite["properties"][f"{kind}s"]["additionalProperties"] = {"anyOf": choices}
    result: dict[str, Any] = _with_any_of(suite)
    return result


def _with_any_of(schema: Any) -> Any:
    """Replace oneOf by anyOf, because code decides which alternative applies."""
    if isinstance(schema, list):
        return [_with_any_of(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {"anyOf" if key == "oneOf" else key: _with_any_of(value) for key, value in schema.items()}
