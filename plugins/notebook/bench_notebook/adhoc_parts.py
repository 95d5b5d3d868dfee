"""Parts that no distribution provides: classes, objects and functions of a notebook, as Configs of one call.

Nobody can tell by a source file what their code is: a cell of a notebook changes without a trace. So each of these
Configs names a module that does not exist and that no other call names. It stands for the code in cache keys; nothing
that was computed with such a part is ever found again.
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

PLUGIN = "bench_notebook.adhoc_parts"  #: what the registry calls them
#: By kind: the interface of its classes, and the Config of one that has no settings.
INTERFACES: Mapping[str, tuple[type, type[Config]]] = {
    "task": (Task, TaskConfig),
    "model": (Model, ModelConfig),
    "decoder": (Decoder, DecoderConfig),
    "metric": (Metric, MetricConfig),
}


class ModuleConfig(ModelConfig):
    """The Config of a module that is evaluated with the weights that it has."""

    weights: str  #: the digest of its parameters and buffers


class FunctionConfig(ExampleMetricConfig):
    """The Config of a function of an output and its references, whose mean over examples is the metric."""

    function: ClassVar[Callable[[str, Sequence[str]], float]]

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Return what the function returns."""
        return type(self).function(hypothesis, references)


@dataclass
class AdHocParts:
    """The parts of a call that no distribution provides, by kind."""

    token: str = field(default_factory=lambda: token_hex(8))
    found: dict[str, list[type[Config]]] = field(default_factory=dict)

    def plugin(self) -> ModuleType:
        """Return a plugin that provides them."""
        module = ModuleType(PLUGIN)
        for kind, configs in self.found.items():
            setattr(module, f"bench_{kind}s", hookimpl(_returning(configs)))
        return module

    def is_behind(self, roots: Iterable[Sequence[str]]) -> bool:
        """Return whether one of them takes part in something, given where the code of each that does begins."""
        return any(root.partition(":")[0] == self._module for several in roots for root in several)

    def config(self, kind: str, given: Config) -> dict[str, Any]:
        """Return the entry of a Config in a suite, after adding what of it is not installed."""
        return {**self._settings(given), "name": self.config_class(kind, type(given))}

    def config_class(self, kind: str, given: type[Config]) -> str:
        """Return the name of a Config in suites, after adding it if it is not installed."""
        if is_installed(kind, given):
            return name_here(kind, given)
        build = _built_by(given)
        known = [one.name for one in self.found.get(kind, ()) if given in one.__bases__ and one.load() is build]
        return known[0] if known else self._add(kind, name_of(given), given, load=lambda: build)

    def part_class(self, kind: str, given: type) -> str:
        """Return the name in suites of a class that implements an interface, after adding it if need be."""
        if config := _config_of(kind, given):
            return self.config_class(kind, config)
        return self._add(kind, name_of(given), INTERFACES[kind][1], load=lambda: given, **_declared(kind, given))

    def instance(self, kind: str, given: Any) -> dict[str, Any]:
        """Return the entry in a suite of a task, decoder or metric that is built already."""
        config, base = getattr(given, "config", None), INTERFACES[kind][1]
        own = config if isinstance(config, base) else None
        declared = {} if own else _declared(kind, type(given))

        def build(config: Config, *folder: Any) -> Any:
            fresh = copy.copy(given)
            vars(fresh).update(config=config, **({"folder": folder[0]} if folder else {}))
            return fresh

        settings = self._settings(own) if own else {}
        name = self._add(kind, name_of(type(given)), type(own) if own else base, load=lambda: build, **declared)
        return {**settings, "name": name}

    def module(self, given: nn.Module) -> dict[str, Any]:
        """Return the entry in a suite of a model that is evaluated as it is: a copy of what it is now.

        Raises SuiteError if it cannot be copied or has weights that are not finite.
        """
        from bench_core.computing.fingerprint import fingerprint
        from bench_core.computing.result_checks import diverged

        if wrong := diverged(given):
            raise SuiteError(f"{wrong}; weights must be finite. Evaluate another model, or train it again.")
        try:
            taken = copy.deepcopy(given)
        except Exception as error:
            raise SuiteError(
                f"it cannot be copied, which protects it from changes ({type(error).__name__}: {error}). Give one "
                "whose tensors are parameters, buffers, or detached."
            ) from None

        def build(config: Config, info: Any) -> nn.Module:
            fresh = copy.deepcopy(taken)
            vars(fresh).update(setup=_nothing, fit_statistics=_nothing, read_weights=_nothing)
            return fresh  # it is set up already

        weights = sorted(fingerprint(taken).weights.items())
        marks = hashlib.sha256("\n".join(f"{name} {mark}" for name, mark in weights).encode()).hexdigest()
        kind = type(given)
        name = self._add("model", name_of(kind), ModuleConfig, load=lambda: build, **_declared("model", kind))
        return {"name": name, "weights": marks, "training": dict(AS_IT_IS)}

    def function(self, given: Callable[[str, Sequence[str]], float]) -> str:
        """Return the name in suites of a function of an output and its references, as a metric."""
        about = {name: getattr(given, name) for name in ("better", "unit") if hasattr(given, name)}
        if about.get("better", 1) not in (-1, 0, 1) or not isinstance(about.get("unit", ""), str):
            raise SuiteError("`better` of a function is 1, -1 or 0 (neither), and `unit` is text, such as `%`.")
        load = FunctionConfig.load
        return self._add("metric", name_of(given), FunctionConfig, load, function=staticmethod(given), **about)

    def text_function(self, given: Callable[[list[str]], Sequence[str]]) -> str:
        """Return the name in suites of a function of prompts, as a model."""
        from bench_notebook.text_functions import TextFunction, TextFunctionConfig

        def build(config: Config, info: Any) -> nn.Module:
            return TextFunction(given)

        return self._add("model", name_of(given), TextFunctionConfig, load=lambda: build)

    def decoder_of_functions(self) -> dict[str, Any] | None:
        """Return the entry of the decoder that functions of prompts need; None if there are no such models."""
        from bench_notebook.text_functions import AsWrittenConfig, TextFunctionConfig

        if not any(issubclass(one, TextFunctionConfig) for one in self.found.get("model", ())):
            return None
        return {"name": self.config_class("decoder", AsWrittenConfig)}

    @property
    def _module(self) -> str:
        return f"notebook_{self.token}"

    def _add(self, kind: str, name: str, base: type[Config], load: Callable[[], Any], **declared: Any) -> str:
        """Add a Config with declarations of its own; return its name, which no other part of the kind has."""
        taken = {*(one.config.name for one in parts(kind).values()), *(one.name for one in self.found.get(kind, ()))}
        free = next(one for one in numbered(name) if one not in taken)
        own = {
            **declared, "name": free, "target": f"{self._module}:{base.__name__}",
            "load": classmethod(lambda cls: load()), "__module__": base.__module__, "__doc__": base.__doc__,
        }  # fmt: skip
        make: Callable[..., type[Config]] = type(base)
        self.found.setdefault(kind, []).append(make(base.__name__, (base,), own))
        return free

    def _settings(self, given: Config) -> dict[str, Any]:
        """Return the settings of a Config that were given as plain data, after adding Configs that stand in them.

        Raises SuiteError if they are not the same when they are read again.
        """
        kinds_inside = [(_kind_of(type(one)), type(one)) for one in configs_inside(given)]
        new = [(kind, one) for kind, one in kinds_inside if kind and not is_installed(kind, one)]
        for kind, one in new:
            self._inner(kind, one)
        data = {name: one for name, one in given.model_dump(mode="json").items() if name in given.model_fields_set}
        if not new and type(given).model_validate(data) != given:
            raise SuiteError(f"the settings of {type(given).__name__} change when they are written and read again.")
        return data

    def _inner(self, kind: str, given: type[Config]) -> None:
        """Add a Config that stands inside of the settings of another, under its own name."""
        known = {one.name: one for one in self.found.get(kind, ())}
        if given.name in known and issubclass(known[given.name], given):
            return
        if self._add(kind, given.name, given, given.load) != given.name:
            raise SuiteError(f"there is another {kind} called {given.name!r}. Give {given.__name__} another `name`.")


#: The training of a model that is evaluated as it is, whatever that of the others is.
AS_IT_IS: Mapping[str, Any] = {"mode": "evaluate", "updates": None, "epochs": None, "phases": [], "initial": None}


def is_installed(kind: str, config: type[Config]) -> bool:
    """Return whether a distribution provides a Config."""
    return any(one.config is config for one in parts(kind).values())


def name_of(given: Any) -> str:
    """Return what a part is called that has no other name: by its class or function."""
    if isinstance(given, type) and issubclass(given, Config):
        return getattr(given, "name", "") or conventional_name(given.__name__.removesuffix("Config"))
    if isinstance(given, type):
        return conventional_name(given.__name__)
    return str(getattr(given, "__name__", "") or conventional_name(type(given).__name__)).strip("<>")


def _returning(configs: Sequence[type[Config]]) -> Callable[[], Sequence[type[Config]]]:
    return lambda: configs


def _nothing(*given: Any) -> None:
    """Do nothing, in place of a method."""


def numbered(name: str) -> Iterator[str]:
    """Yield a name, then others that begin with it."""
    yield name
    yield from (f"{name} ({number})" for number in range(2, sys.maxsize))


def _built_by(config: type[Config]) -> Any:
    """Return what a Config builds: the class that it names, or that of its name beside it.

    Raises SuiteError if there is none.
    """
    try:
        return config.load()
    except (ImportError, AttributeError, ValueError):
        stem = config.__name__.removesuffix("Config")
        beside = getattr(sys.modules.get(config.__module__), stem, None)
        if isinstance(beside, type):
            return beside
    raise SuiteError(
        f"{config.__name__} builds no class: there is neither {getattr(config, 'target', '') or 'a target'} nor "
        f"{stem} beside it. Define {stem} in {config.__module__}, or override `load`."
    )


def _config_of(kind: str, given: type) -> type[Config] | None:
    """Return the Config of a class: an installed one that builds it, else that of its name beside it."""
    target, base = f"{given.__module__}:{given.__qualname__}", INTERFACES[kind][1]
    installed = [one.config for one in parts(kind).values() if getattr(one.config, "target", "") == target]
    if len(installed) > 1:
        names = ", ".join(one.__name__ for one in installed)
        raise SuiteError(f"several Configs build {given.__name__}: {names}. Give one of them.")
    beside = getattr(sys.modules.get(given.__module__), f"{given.__name__}Config", None)
    own = isinstance(beside, type) and issubclass(beside, base)
    return installed[0] if installed else beside if own else None


def _declared(kind: str, given: type) -> dict[str, Any]:
    """Return what the Config of a class declares, by what the class itself says."""
    if kind == "model":
        return _of_model(given)
    if kind == "task":
        return {"source": getattr(given, "source", Source.NONE)}
    needs = getattr(given, "needs", _argument(given, Decoder) if kind == "decoder" else Model)
    return {"needs": needs}


def _of_model(given: type) -> dict[str, Any]:
    """Return capabilities, sources and likelihoods of a model: of its Config, else as its class says."""
    configs = (_config_of("model", one) for one in given.__mro__ if issubclass(one, Model))
    if known := next((one for one in configs if one is not None and issubclass(one, ModelConfig)), None):
        return {name: getattr(known, name) for name in ("capabilities", "sources", "likelihoods", "probes")}
    from torch import nn

    from bench_core.kit import EncoderDecoder, LanguageModel

    capabilities = {
        one for one in given.__mro__ if issubclass(one, Model) and not issubclass(one, nn.Module) and one is not Model
    }
    likelihoods = getattr(given, "likelihoods", None)
    if likelihoods is None and issubclass(given, LanguageModel):
        likelihoods = {"exact": Kind.EXACT}
    elif likelihoods is None and issubclass(given, Scorer):
        raise SuiteError(
            f"{given.__name__} is a Scorer that does not say by which likelihoods. Declare them in the class, such "
            'as `likelihoods = {"exact": Kind.EXACT}`.'
        )
    of_kit = {Source.TOKENS if issubclass(given, EncoderDecoder) else Source.NONE}
    sources = getattr(given, "sources", None) or of_kit
    return {"capabilities": capabilities or {Model}, "sources": sources, "likelihoods": likelihoods or {}}


def _argument(given: type, base: type) -> type:
    """Return the model that a decoder takes, by what its class inherits: `Decoder[Stepper]`."""
    for one in given.__mro__:
        for parent in getattr(one, "__orig_bases__", ()):
            if get_origin(parent) is base:
                argument = get_args(parent)[0]
                argument = get_origin(argument) or argument
                return argument if isinstance(argument, type) and issubclass(argument, Model) else Model
    return Model


def _kind_of(config: type[Config]) -> str | None:
    """Return the kind of a Config that stands inside of others, by those of its family that are installed."""
    family = next((one for one in config.__mro__ if Config in one.__bases__), None)
    for kind in kinds():
        if family and any(issubclass(one.config, family) for one in parts(kind).values()):
            return kind
    return None
