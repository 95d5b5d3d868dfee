"""Ad-hoc parts: classes, objects and functions that are not installed, as Configs for a single call.

Their code cannot be identified reliably, because notebook cells change without a trace. Each of these Configs
therefore targets a nonexistent module with a name unique to the call. That name represents the code in cache keys, so
results of ad-hoc parts are never reused.
"""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

from bench_core.config import Config, DecoderConfig, MetricConfig, ModelConfig, TaskConfig, configs_inside
from bench_core.data import Kind, Source
from bench_core.decoder import Decoder
from bench_core.errors import SuiteError
from bench_core.hooks import hookimpl
from bench_core.kit.configs import ExampleMetricConfig, conventional_name
from bench_core.metric import Metric
from bench_core.model import Model, Scorer
from bench_core.registry import kinds, name_here, parts
from bench_core.task import Task

if TYPE_CHECKING:
    from torch import nn

PLUGIN = "bench_notebook.adhoc_parts"  #: name of ad-hoc parts in the registry
#: The interface of each kind, and the Config of a part without settings.
INTERFACES: Mapping[str, tuple[type, type[Config]]] = {
    "task": (Task, TaskConfig),
    "model": (Model, ModelConfig),
    "decoder": (Decoder, DecoderConfig),
    "metric": (Metric, MetricConfig),
}


class ModuleConfig(ModelConfig):
    """The Config of a module evaluated with its current weights."""

    weights: str  #: digest of the parameters and buffers


class FunctionConfig(ExampleMetricConfig):
    """The Config of a metric that averages a function of an output and its references over examples."""

    function: ClassVar[Callable[[str, Sequence[str]], float]]

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Return the value of the function."""
        return type(self).function(hypothesis, references)


@dataclass
class AdHocParts:
    """The ad-hoc parts of a call, by kind."""

    token: str = field(default_factory=lambda: token_hex(8))
    configs: dict[str, list[type[Config]]] = field(default_factory=dict)

    def plugin(self) -> ModuleType:
        """Return a plugin that provides these parts."""
        module = ModuleType(PLUGIN)
        for kind, configs in self.configs.items():
            setattr(module, f"bench_{kind}s", hookimpl(_hook(configs)))
        return module

    def is_behind(self, roots: Iterable[Sequence[str]]) -> bool:
        """Return whether any root module of a stage's code belongs to one of these parts."""
        return any(root.partition(":")[0] == self._module for several in roots for root in several)

    def config(self, kind: str, config: Config) -> dict[str, Any]:
        """Return the suite entry of a Config; register the Config, and Configs in its settings, if not installed."""
        return {**self._settings(config), "name": self.config_class(kind, type(config))}

    def config_class(self, kind: str, config_type: type[Config]) -> str:
        """Return the name of a Config in suites, registering it if it is not installed."""
        if is_installed(kind, config_type):
            return name_here(kind, config_type)
        build = _class_of(config_type)
        known = [
            config.name
            for config in self.configs.get(kind, ())
            if config_type in config.__bases__ and config.load() is build
        ]
        return known[0] if known else self._add(kind, name_of(config_type), config_type, load=lambda: build)

    def part_class(self, kind: str, part_type: type) -> str:
        """Return the suite name of a class that implements an interface, registering the class if needed."""
        if config := _config_of(kind, part_type):
            return self.config_class(kind, config)
        return self._add(
            kind, name_of(part_type), INTERFACES[kind][1], load=lambda: part_type, **_declarations(kind, part_type)
        )

    def instance(self, kind: str, part: Any) -> dict[str, Any]:
        """Return the suite entry of a task, decoder or metric passed as an object."""
        config, base = getattr(part, "config", None), INTERFACES[kind][1]
        explicit = config if isinstance(config, base) else None
        declared = {} if explicit else _declarations(kind, type(part))

        def build(config: Config, *folder: Any) -> Any:
            fresh = copy.copy(part)
            vars(fresh).update(config=config, **({"folder": folder[0]} if folder else {}))
            return fresh

        settings = self._settings(explicit) if explicit else {}
        name = self._add(
            kind, name_of(type(part)), type(explicit) if explicit else base, load=lambda: build, **declared
        )
        return {**settings, "name": name}

    def module(self, module: nn.Module) -> dict[str, Any]:
        """Return the suite entry of a copy of a module with its current weights.

        Raises SuiteError if the module cannot be copied or its weights are not finite.
        """
        from bench_core.computing.fingerprint import fingerprint
        from bench_core.computing.result_checks import diverged

        if wrong := diverged(module):
            raise SuiteError(f"{wrong}; weights must be finite. Evaluate another model, or train it again.")
        try:
            snapshot = copy.deepcopy(module)
        except Exception as error:
            raise SuiteError(
                f"it cannot be copied to protect it from changes ({type(error).__name__}: {error}). Make its "
                "tensors parameters or buffers, or detach them."
            ) from None

        def build(config: Config, info: Any) -> nn.Module:
            fresh = copy.deepcopy(snapshot)
            vars(fresh).update(setup=_nothing, fit_statistics=_nothing, read_weights=_nothing)
            return fresh  # already set up

        weights = sorted(fingerprint(snapshot).weights.items())
        marks = hashlib.sha256("\n".join(f"{name} {mark}" for name, mark in weights).encode()).hexdigest()
        model_type = type(module)
        name = self._add(
            "model", name_of(model_type), ModuleConfig, load=lambda: build, **_declarations("model", model_type)
        )
        return {"name": name, "weights": marks, "training": dict(FIXED_TRAINING)}

    def function(self, function: Callable[[str, Sequence[str]], float]) -> str:
        """Register a function of an output and its references as a metric; return its name in suites."""
        attributes = {name: getattr(function, name) for name in ("better", "unit") if hasattr(function, name)}
        if attributes.get("better", 1) not in (-1, 0, 1) or not isinstance(attributes.get("unit", ""), str):
            raise SuiteError(
                "a function's `better` must be 1, -1 or 0 (neither), and its `unit` must be text, such as `%`."
            )
        load = FunctionConfig.load
        return self._add(
            "metric", name_of(function), FunctionConfig, load, function=staticmethod(function), **attributes
        )

    def text_function(self, function: Callable[[list[str]], Sequence[str]]) -> str:
        """Register a function of prompts as a model; return its name in suites."""
        from bench_notebook.text_functions import TextFunction, TextFunctionConfig

        def build(config: Config, info: Any) -> nn.Module:
            return TextFunction(function)

        return self._add("model", name_of(function), TextFunctionConfig, load=lambda: build)

    def decoder_of_functions(self) -> dict[str, Any] | None:
        """Return the suite entry of the decoder for prompt functions, or None if no model is a prompt function."""
        from bench_notebook.text_functions import AsWrittenConfig, TextFunctionConfig

        if not any(issubclass(config, TextFunctionConfig) for config in self.configs.get("model", ())):
            return None
        return {"name": self.config_class("decoder", AsWrittenConfig)}

    @property
    def _module(self) -> str:
        return f"notebook_{self.token}"

    def _add(self, kind: str, name: str, base: type[Config], load: Callable[[], Any], **declared: Any) -> str:
        """Register a Config with declarations; return its name, unique for the kind."""
        taken = {
            *(part.config.name for part in parts(kind).values()),
            *(part.name for part in self.configs.get(kind, ())),
        }
        free = next(candidate for candidate in name_candidates(name) if candidate not in taken)
        attributes = {
            **declared, "name": free, "target": f"{self._module}:{base.__name__}",
            "load": classmethod(lambda cls: load()), "__module__": base.__module__, "__doc__": base.__doc__,
        }  # fmt: skip
        make: Callable[..., type[Config]] = type(base)
        self.configs.setdefault(kind, []).append(make(base.__name__, (base,), attributes))
        return free

    def _settings(self, config: Config) -> dict[str, Any]:
        """Return the explicit settings of a Config as plain data, registering Configs inside them.

        Raises SuiteError if the settings do not survive serialization.
        """
        kinds_inside = [(_kind_of(type(inner)), type(inner)) for inner in configs_inside(config)]
        new = [(kind, nested) for kind, nested in kinds_inside if kind and not is_installed(kind, nested)]
        for kind, nested in new:
            self._inner(kind, nested)
        data = {
            name: value for name, value in config.model_dump(mode="json").items() if name in config.model_fields_set
        }
        if not new and type(config).model_validate(data) != config:
            raise SuiteError(
                f"the settings of {type(config).__name__} change when they are serialized and read again."
            )
        return data

    def _inner(self, kind: str, config: type[Config]) -> None:
        """Register a Config nested in the settings of another Config, under its own name."""
        known = {other.name: other for other in self.configs.get(kind, ())}
        if config.name in known and issubclass(known[config.name], config):
            return
        if self._add(kind, config.name, config, config.load) != config.name:
            raise SuiteError(
                f"there is another {kind} called {config.name!r}. Give {config.__name__} another `name`."
            )


#: The training settings of modules evaluated with their current weights; they override `training` of the suite.
FIXED_TRAINING: Mapping[str, Any] = {
    "mode": "evaluate",
    "updates": None,
    "epochs": None,
    "phases": [],
    "initial": None,
}


def is_installed(kind: str, config: type[Config]) -> bool:
    """Return whether a Config is installed."""
    return any(part.config is config for part in parts(kind).values())


def name_of(part: Any) -> str:
    """Return the default name of a part, derived from its class or function."""
    if isinstance(part, type) and issubclass(part, Config):
        return getattr(part, "name", "") or conventional_name(part.__name__.removesuffix("Config"))
    if isinstance(part, type):
        return conventional_name(part.__name__)
    return str(getattr(part, "__name__", "") or conventional_name(type(part).__name__)).strip("<>")


def _hook(configs: Sequence[type[Config]]) -> Callable[[], Sequence[type[Config]]]:
    return lambda: configs


def _nothing(*arguments: Any) -> None:
    """Do nothing; replaces a method."""


def name_candidates(name: str) -> Iterator[str]:
    """Yield a name, then variants `name (2)`, `name (3)`, ..."""
    yield name
    yield from (f"{name} ({number})" for number in range(2, sys.maxsize))


def _class_of(config: type[Config]) -> Any:
    """Return the class of a Config: its target, or for `XConfig` the class `X` in the same module.

    Raises SuiteError if both are missing.
    """
    try:
        return config.load()
    except (ImportError, AttributeError, ValueError):
        stem = config.__name__.removesuffix("Config")
        neighbor = getattr(sys.modules.get(config.__module__), stem, None)
        if isinstance(neighbor, type):
            return neighbor
    raise SuiteError(
        f"the class of {config.__name__} is missing: neither {getattr(config, 'target', '') or 'a target'} nor "
        f"{stem} exists. Define {stem} in {config.__module__}, or override `load`."
    )


def _config_of(kind: str, part_type: type) -> type[Config] | None:
    """Return the Config of a class: an installed Config that targets it, else `<class name>Config` in its module."""
    target, base = f"{part_type.__module__}:{part_type.__qualname__}", INTERFACES[kind][1]
    installed = [part.config for part in parts(kind).values() if getattr(part.config, "target", "") == target]
    if len(installed) > 1:
        names = ", ".join(config.__name__ for config in installed)
        raise SuiteError(f"several Configs build {part_type.__name__}: {names}. Pass a Config instead of the class.")
    neighbor = getattr(sys.modules.get(part_type.__module__), f"{part_type.__name__}Config", None)
    is_config = isinstance(neighbor, type) and issubclass(neighbor, base)
    return installed[0] if installed else neighbor if is_config else None


def _declarations(kind: str, part_type: type) -> dict[str, Any]:
    """Return the declarations for the Config of a class, read from the class."""
    if kind == "model":
        return _model_declarations(part_type)
    if kind == "task":
        return {"source": getattr(part_type, "source", Source.NONE)}
    needs = getattr(part_type, "needs", _model_interface(part_type, Decoder) if kind == "decoder" else Model)
    return {"needs": needs}


def _model_declarations(model_type: type) -> dict[str, Any]:
    """Return the capabilities, sources and likelihoods of a model, from its Config or else its class."""
    configs = (_config_of("model", parent) for parent in model_type.__mro__ if issubclass(parent, Model))
    if known := next((config for config in configs if config is not None and issubclass(config, ModelConfig)), None):
        return {name: getattr(known, name) for name in ("capabilities", "sources", "likelihoods", "probes")}
    from torch import nn

    from bench_core.kit import EncoderDecoder, LanguageModel

    capabilities = {
        parent
        for parent in model_type.__mro__
        if issubclass(parent, Model) and not issubclass(parent, nn.Module) and parent is not Model
    }
    likelihoods = getattr(model_type, "likelihoods", None)
    if likelihoods is None and issubclass(model_type, LanguageModel):
        likelihoods = {"exact": Kind.EXACT}
    elif likelihoods is None and issubclass(model_type, Scorer):
        raise SuiteError(
            f"{model_type.__name__} is a Scorer without declared likelihoods. Declare them in the class, such "
            'as `likelihoods = {"exact": Kind.EXACT}`.'
        )
    kit_sources = {Source.TOKENS if issubclass(model_type, EncoderDecoder) else Source.NONE}
    sources = getattr(model_type, "sources", None) or kit_sources
    return {"capabilities": capabilities or {Model}, "sources": sources, "likelihoods": likelihoods or {}}


def _model_interface(decoder_type: type, base: type) -> type:
    """Return the model interface that a decoder requires according to its base class, e.g. `Decoder[Stepper]`."""
    for parent in decoder_type.__mro__:
        for generic in getattr(parent, "__orig_bases__", ()):
            if get_origin(generic) is base:
                argument = get_args(generic)[0]
                argument = get_origin(argument) or argument
                return argument if isinstance(argument, type) and issubclass(argument, Model) else Model
    return Model


def _kind_of(config: type[Config]) -> str | None:
    """Return the kind of a nested Config, judging by installed Configs with the same root class."""
    family = next((parent for parent in config.__mro__ if Config in parent.__bases__), None)
    for kind in kinds():
        if family and any(issubclass(part.config, family) for part in parts(kind).values()):
            return kind
    return None
