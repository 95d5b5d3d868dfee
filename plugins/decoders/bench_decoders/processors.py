"""Processors (Configs that change the distribution of every decoding step) and their syntax in suites."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainSerializer, ValidationError

from bench_core import Config, SuiteError, part, parts, suggestion
from bench_core.kit import name_by_convention

if TYPE_CHECKING:
    from torch import Tensor


class ProcessorConfig(Config):
    """A processor defined by a single method: `process` changes the distribution at every step of a decoder.

    Its name is derived from its class: `MinPConfig` is the processor `min-p`. A plugin returns its processors from
    the hook `bench_processors`.
    """

    name: ClassVar[str] = "processor"

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    @abstractmethod
    def process(self, log_probs: Tensor, actions: Tensor) -> Tensor:
        """Return log-probabilities [M, A] to replace `log_probs` [M, A]; -inf excludes an action from its row.

        The input is normalised; the result need not be. `actions` [M, K] are the previous actions of each row,
        without EOS. Rows must not depend on each other. Actions with -inf in the input stay excluded.
        """


def _resolve(value: Any) -> Any:
    """Return the processor named in a suite; raise ValueError, or ValidationError that names a wrong key."""
    if isinstance(value, ProcessorConfig):
        return value
    raw = {"name": value} if isinstance(value, str) else value
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise ValueError("expected a name or a mapping with `name`, such as `{name: min-p, share: 0.1}`")
    try:
        schema = part("processor", raw["name"]).config
    except SuiteError as error:
        raise _key_errors({"name": str(error)}, raw) from None
    settings = {key: item for key, item in raw.items() if key != "name"}
    known = [*schema.model_fields]
    if unknown := [key for key in settings if key not in known]:
        raise _key_errors({key: f"unknown key. {suggestion(str(key), known)}" for key in unknown}, raw)
    return schema.model_validate(settings)


def _key_errors(problems: Mapping[Any, str], raw: Mapping[Any, Any]) -> ValidationError:
    """Return an error with one message per wrong key."""
    errors: list[Any] = [
        {"type": "value_error", "loc": (str(key),), "input": raw[key], "ctx": {"error": text}}
        for key, text in problems.items()
    ]
    return ValidationError.from_exception_data("processor", errors)


def _dump(processor: ProcessorConfig) -> dict[str, Any]:
    return {"name": processor.name, **processor.model_dump(mode="json")}


class _InstalledProcessors:
    """Adds the names and settings of all installed processors to the schema of suites."""

    @staticmethod
    def __get_pydantic_json_schema__(schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for name, processor in parts("processor").items():
            variant = dict(handler.resolve_ref_schema(handler(processor.config.__pydantic_core_schema__)))
            names = {"enum": [*dict.fromkeys((name, processor.whole_name))]}
            variant["properties"] = {"name": names, **variant.get("properties", {})}
            choices += [] if "required" in variant else [names]
            choices.append({**variant, "required": ["name", *variant.get("required", [])]})
        return {"anyOf": choices}


#: The type of a setting with a list of processors, applied in order.
Processors: TypeAlias = list[
    Annotated[
        ProcessorConfig,
        BeforeValidator(_resolve, json_schema_input_type=str | dict[str, Any]),
        PlainSerializer(_dump),
        _InstalledProcessors,
    ]
]
