"""Checks that the class which a Config names exists, by the source of its module: importing it may load torch."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pkgutil import iter_modules

from bench_core.config import (
    Config,
    DecoderConfig,
    ExecutorConfig,
    MetricConfig,
    ModelConfig,
    ProbeConfig,
    TaskConfig,
    configs_inside,
)
from bench_core.errors import PluginError
from bench_core.registry import suggestion
from bench_core.suites.suite import Suite
from placed_settings import Problems, Unreadable

UNSURE = "?"  # what the source of a module does not show

#: Configs that need a class; those of kinds that plugins define may be whole by themselves.
WITH_CLASS = (TaskConfig, ModelConfig, DecoderConfig, MetricConfig, ProbeConfig, ExecutorConfig)


def report_targets(suite: Suite, problems: Problems) -> None:
    """Report every part of a suite whose class does not exist, at its name."""
    for section in ("tasks", "decoders", "metrics", "probes"):
        for name, config in getattr(suite, section).items():
            _report((section, name, "name"), config, problems)
    for name, entry in suite.models.items():
        for one in entry.all:
            _report(("models", suite.origins.get(name, name), "name"), one.config, problems)


def _report(keys: tuple[str, ...], config: Config, problems: Problems) -> None:
    kinds = [type(config)]
    with suppress(Unreadable):
        kinds += [type(one) for one in configs_inside(config)]
    for kind in kinds:
        if text := target_problem(kind):
            problems.add(keys, text)


def target_problem(kind: type[Config]) -> str | None:
    """Return why the target of a Config cannot be imported, and what to do; None if it can, as far as can be seen."""
    if kind.load.__func__ is not Config.load.__func__:  # type: ignore[attr-defined]
        return _on_import(kind)
    if not hasattr(kind, "target") and not issubclass(kind, WITH_CLASS):
        return None
    target = str(getattr(kind, "target", ""))
    module, _, attribute = target.partition(":")
    found = _problem(module, attribute) if module and attribute else "it is not `module:Class`."
    if found == UNSURE:
        return _on_import(kind)
    return f"{kind.__module__}.{kind.__qualname__}: its target is {target!r}, and {found}" if found else None


@cache
def _problem(module: str, attribute: str) -> str:
    """Return why a module has no such attribute, the empty string if it has, or UNSURE."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError as error:
        return f"there is no module {error.name}. {_near(str(error.name))}"
    except (Exception, SystemExit) as error:  # of the package
        return (
            f"its package cannot be imported: {type(error).__name__}: {error}. Correct it, or reinstall its plugin."
        )
    if spec is None:
        return f"there is no module {module}. {_near(module)}"
    try:
        source = _source(spec)
        names = None if source is None else {*_names(ast.parse(source).body)}
    except SyntaxError as error:
        return f"{error.filename if error.filename != '<unknown>' else spec.origin}:{error.lineno}: {error.msg}."
    if names is None or names & {"*", "__getattr__"}:
        return "" if names and attribute in names else UNSURE
    return (
        "" if attribute in names else f"{module} has no {attribute}. {suggestion(attribute, sorted(names), 'It has')}"
    )


def _source(spec: ModuleSpec) -> str | None:
    try:
        return spec.loader.get_source(spec.name)  # type: ignore[union-attr,no-any-return]
    except (AttributeError, ImportError, UnicodeDecodeError):
        return None


def _names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module define, `*` for those of another module."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
        else:
            inside = [getattr(node, name, []) for name in ("body", "orelse", "finalbody", "handlers")]
            yield from _names([one for several in inside for one in several])


def _near(module: str) -> str:
    """Return a question with the modules of its package that are called alike, or advice."""
    package, _, name = module.rpartition(".")
    spec = find_spec(package) if package else None
    known = [one.name for one in iter_modules((spec and spec.submodule_search_locations) or [])]
    return suggestion(name, known, f"{package} has") if known else "Correct it, or install what provides it."


def _on_import(kind: type[Config]) -> str | None:
    """Return what importing the target raises."""
    try:
        kind.load()
    except PluginError as error:
        return str(error)
    except (Exception, SystemExit) as error:  # whatever a plugin raises
        name = f"{kind.__module__}.{kind.__qualname__}"
        return f"{name}: its target cannot be imported: {type(error).__name__}: {error}. Correct it in the plugin."
    return None
