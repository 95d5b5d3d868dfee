"""Processors: Configs that change the distribution of every decoding step, and how suites name them."""

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
    """A processor in one method: `process` changes the distribution of every step of a decoder.

    Its name follows from that of the class: `MinPConfig` is the processor `min-p`. A plugin returns those that it
    provides from the hook `bench_processors`.
    """

    name: ClassVar[str] = "processor"

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    @abstractmethod
    def process(self, log_probs: Tensor, actions: Tensor) -> Tensor:
        """Return log-probabilities [M, A] in place of `log_probs` [M, A]; -inf excludes an action from its row.

        Those given are normalised, those returned need not be. `actions` [M, K] are what each row has chosen so far,
        without stop. A row must not depend on the others. An action that is excluded already cannot come back.
        """


def _chosen(value: Any) -> Any:
    """Return the processor that a suite names; raise ValueError or ValidationError, the latter with the wrong key."""
    if isinstance(value, ProcessorConfig):
        return value
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError("a processor is a name or a mapping with a name, such as `{name: min-p, share: 0.1}`")
    try:
        schema = part("processor", given["name"]).config
    except SuiteError as error:
        raise _wrong({"name": str(error)}, given) from None
    settings = {key: one for key, one in given.items() if key != "name"}
    known = [*schema.model_fields]
    if unknown := [key for key in settings if key not in known]:
        raise _wrong({key: f"there is no such key. {suggestion(str(key), known)}" for key in unknown}, given)
    return schema.model_validate(settings)


def _wrong(problems: Mapping[Any, str], given: Mapping[Any, Any]) -> ValidationError:
    """Return an error with a message for each wrong key."""
    errors: list[Any] = [
        {"type": "value_error", "loc": (str(key),), "input": given[key], "ctx": {"error": text}}
        for key, text in problems.items()
    ]
    return ValidationError.from_exception_data("processor", errors)


def _as_data(processor: ProcessorConfig) -> dict[str, Any]:
    return {"name": processor.name, **processor.model_dump(mode="json")}


class _InstalledProcessors:
    """Describes a processor in the schema of suites: the name or the settings of any that is installed."""

    @staticmethod
    def __get_pydantic_json_schema__(schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for name, found in parts("processor").items():
            one = dict(handler.resolve_ref_schema(handler(found.config.__pydantic_core_schema__)))
            names = {"enum": [*dict.fromkeys((name, found.whole_name))]}
            one["properties"] = {"name": names, **one.get("properties", {})}
            choices += [] if "required" in one else [names]
            choices.append({**one, "required": ["name", *one.get("required", [])]})
        return {"anyOf": choices}


#: A setting that is a list of processors, in the order in which they are applied.
Processors: TypeAlias = list[
    Annotated[
        ProcessorConfig,
        BeforeValidator(_chosen, json_schema_input_type=str | dict[str, Any]),
        PlainSerializer(_as_data),
        _InstalledProcessors,
    ]
]
