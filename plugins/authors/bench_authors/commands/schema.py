"""Print the JSON schema of suites, for editors."""

from typing import Any

import click

from bench_core.terminal import say, to_json

GRID = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "minItems": 1}}  # of a model
BY_TASK = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "object"}}  # likewise


@click.command()
def command() -> None:
    """Print the JSON schema of suites, with the settings of every installed part."""
    say(to_json(schema(), 1))


def schema() -> dict[str, Any]:
    """Return the JSON schema of suite files, with the settings of each part by its name."""
    from bench_core.registry import IN_SUITES, parts
    from bench_core.suites.schema import SuiteFile
    from bench_core.suites.sections import added, schema_of
    from bench_core.suites.training import training_schema

    whole = SuiteFile.model_json_schema()
    definitions = whole.setdefault("$defs", {})
    for section in dict.fromkeys(map(schema_of, added().values())):
        more = section.model_json_schema()
        definitions |= more.pop("$defs", {})
        whole["properties"] |= more["properties"]
    training = training_schema().model_json_schema(ref_template="#/$defs/{model}")
    definitions |= training.pop("$defs", {})
    whole["properties"]["training"] = training
    of_models = {"training": training, "grid": GRID, "by_task": BY_TASK}
    for kind in IN_SUITES:
        choices = []
        for name, part in parts(kind).items():
            one = part.config.model_json_schema(ref_template="#/$defs/{model}")
            definitions |= one.pop("$defs", {})
            names = {
                "enum": [*dict.fromkeys((name, part.whole_name))]
            }  # its own name, and that with its distribution
            own = of_models if kind == "model" else {}
            one["properties"] = {"name": names, **one.get("properties", {}), **own}
            one["required"] = ["name", *one.get("required", [])]
            choices.append(one)
        whole["properties"][f"{kind}s"]["additionalProperties"] = {"anyOf": choices}
    found: dict[str, Any] = _lenient(whole)
    return found


def _lenient(schema: Any) -> Any:
    """Replace oneOf by anyOf: which alternative applies is decided by code."""
    if isinstance(schema, list):
        return [_lenient(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {"anyOf" if key == "oneOf" else key: _lenient(value) for key, value in schema.items()}
