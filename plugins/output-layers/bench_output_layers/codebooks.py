"""Codebooks, Configs that assign codewords to tokens, and their syntax in suites; does not import torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    BeforeValidator,
    GetJsonSchemaHandler,
    PlainSerializer,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from bench_core import Config, Rng, SuiteError, part, parts, suggestion
from bench_core.kit import name_by_convention

if TYPE_CHECKING:
    from torch import Tensor

    from bench_output_layers.vectors import Vectors


class CodebookConfig(Config):
    """A codebook defined by a single method: `codewords` assigns a codeword to each token.

    Its name is derived from its class: `DenseConfig` is the codebook `dense`. A plugin returns its codebooks from the
    hook `bench_codebooks`.
    """

    name: ClassVar[str] = "codebook"
    one_bit_per_token: ClassVar[bool] = False  #: whether the codeword length is the number of tokens
    allows_constant_bits: ClassVar[bool] = False  #: whether bits may be equal in all codewords
    without_vector: ClassVar[str] = ""  #: what tokens without a word vector receive, such as "random codewords"

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        name_by_convention(cls)

    @model_serializer(mode="wrap")
    def _with_kind(self, settings: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.name, **settings(self)}

    def needs_counts(self) -> bool:
        """Return whether the task must have token counts; otherwise, `counts` may be all ones."""
        return False

    def needs_vectors(self) -> bool:
        """Return whether `codewords` needs word vectors; otherwise, `vectors` is None."""
        return False

    def vector_file(self) -> Path | None:
        """Return the file of word vectors; without one, vectors are learned from the training split."""
        return None

    def learns_vectors(self) -> bool:
        """Return whether word vectors are learned from the training split."""
        return self.needs_vectors() and self.vector_file() is None

    def simplified(self) -> CodebookConfig:
        """Return the simplest codebook with the same codewords, so that equal models have equal keys."""
        return self

    @abstractmethod
    def codewords(self, counts: Tensor, bits: int, rng: Rng, vectors: Vectors | None) -> Tensor:
        """Return the codeword of each token, uint8 [R, d] of 0 and 1, with d = `bits` and no equal rows.

        `counts` [R] are frequencies in the training split, `vectors` the word vectors of the same tokens.
        """


class VectorCodebookConfig(CodebookConfig):
    """A codebook that needs word vectors."""

    vectors: Path | None = None  #: word vector file; default: skip-gram vectors learned from the training split
    vector_size: PositiveInt = 300  #: dimensions of learned vectors

    def model_post_init(self, context: Any) -> None:
        if not self.needs_vectors() or self.vectors is not None:  # unused, so equal models have equal keys
            vars(self).update(vector_size=type(self).model_fields["vector_size"].default)

    def needs_vectors(self) -> bool:
        return True

    def vector_file(self) -> Path | None:
        return self.vectors


def _resolve(value: Any) -> Any:
    """Return the codebook selected in a suite; raise ValueError, or ValidationError that names a wrong key."""
    if isinstance(value, CodebookConfig):
        return value.simplified()
    raw = {"kind": value} if isinstance(value, str) else value
    if not isinstance(raw, Mapping) or not isinstance(raw.get("kind"), str):
        raise ValueError("expected a kind or a mapping with `kind`, such as `{kind: gray-walk, order: embedding}`")
    try:
        schema = part("codebook", raw["kind"]).config
    except SuiteError as error:
        raise _key_errors({"kind": str(error)}, raw) from None
    settings = {str(key): item for key, item in raw.items() if key != "kind"}
    if unknown := [key for key in settings if key not in schema.model_fields]:
        raise _key_errors({key: f"unknown key. {suggestion(key, [*schema.model_fields])}" for key in unknown}, raw)
    return _resolve(schema.model_validate(settings))


def _key_errors(problems: Mapping[str, str], raw: Mapping[Any, Any]) -> ValidationError:
    """Return an error with one message per wrong key."""
    errors: list[Any] = [
        {"type": "value_error", "loc": (key,), "input": raw.get(key), "ctx": {"error": text}}
        for key, text in problems.items()
    ]
    return ValidationError.from_exception_data("codebook", errors)


def _dump(codebook: CodebookConfig) -> dict[str, Any]:
    return codebook.model_dump(mode="json")


class _InstalledCodebooks:
    """Adds the kinds and settings of all installed codebooks to the schema of suites."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for name, codebook in parts("codebook").items():
            if self.includes(codebook.config):
                variant = dict(handler.resolve_ref_schema(handler(codebook.config.__pydantic_core_schema__)))
                kinds = {"enum": [*dict.fromkeys((name, codebook.whole_name))]}
                variant["properties"] = {"kind": kinds, **variant.get("properties", {})}
                choices += [] if "required" in variant else [kinds]
                choices.append({**variant, "required": ["kind", *variant.get("required", [])]})
        return {"anyOf": choices}

    def includes(self, config: type[Config]) -> bool:
        return True


class _InstalledPlainCodebooks(_InstalledCodebooks):
    """Omits codebooks that contain other codebooks."""

    def includes(self, config: type[Config]) -> bool:
        return "rest" not in config.model_fields


_READ = BeforeValidator(_resolve, json_schema_input_type=str | dict[str, Any])

#: The type of a setting that selects a codebook.
Codes: TypeAlias = Annotated[CodebookConfig, _READ, PlainSerializer(_dump), _InstalledCodebooks()]
#: The type of a setting that selects a codebook for the tokens outside a softmax.
RestCodes: TypeAlias = Annotated[CodebookConfig, _READ, PlainSerializer(_dump), _InstalledPlainCodebooks()]
