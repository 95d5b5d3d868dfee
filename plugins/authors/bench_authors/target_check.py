"""Checks that the target class of a Config exists, by parsing its module: importing the module might load torch."""

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

UNSURE = "?"  # undecidable from the source of a module

#: Base classes of Configs that need a target class; Configs of kinds that plugins define may lack a target class.
NEEDS_TARGET = (TaskConfig, ModelConfig, DecoderConfig, MetricConfig, ProbeConfig, ExecutorConfig)


def report_targets(suite: Suite, problems: Problems) -> None:
    """Report every part of a suite whose class does not exist, at the name of the part."""
    for section in ("tasks", "decoders", "metrics", "probes"):
        for name, config in getattr(suite, section).items():
            _report((section, name, "name"), config, problems)
    for name, entry in suite.models.items():
        for variant in entry.all:
            _report(("models", suite.origins.get(name, name), "name"), variant.config, problems)


def _report(keys: tuple[str, ...], config: Config, problems: Problems) -> None:
    kinds = [type(config)]
    with suppress(Unreadable):
        kinds += [type(inner) for inner in configs_inside(config)]
    for kind in kinds:
        if text := target_problem(kind):
            problems.add(keys, text)


def target_problem(kind: type[Config]) -> str | None:
    """Return why the target of a Config cannot be imported, with advice; None if no problem is visible."""
    if kind.load.__func__ is not Config.load.__func__:  # type: ignore[attr-defined]
        return _import_problem(kind)
    if not hasattr(kind, "target") and not issubclass(kind, NEEDS_TARGET):
        return None
    target = str(getattr(kind, "target", ""))
    module, _, attribute = target.partition(":")
    problem = _problem(module, attribute) if module and attribute else "it is not `module:Class`."
    if problem == UNSURE:
        return _import_problem(kind)
    return f"{kind.__module__}.{kind.__qualname__}: its target is {target!r}, but {problem}" if problem else None


@cache
def _problem(module: str, attribute: str) -> str:
    """Return why a module lacks an attribute, the empty string if it has the attribute, or UNSURE."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError as error:
        return f"there is no module {error.name}. {_suggestion(str(error.name))}"
    except (Exception, SystemExit) as error:  # raised by the package
        return (
            f"its package cannot be imported: {type(error).__name__}: {error}. Correct it, or reinstall its plugin."
        )
    if spec is None:
        return f"there is no module {module}. {_suggestion(module)}"
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
    """Yield the names that the statements of a module define; `*` stands for star imports."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        else:
            inside = [getattr(node, field, []) for field in ("body", "orelse", "finalbody", "handlers")]
            yield from _names([statement for block in inside for statement in block])


def _suggestion(module: str) -> str:
    """Suggest similarly named modules of the same package, or return general advice."""
    package, _, name = module.rpartition(".")
    spec = find_spec(package) if package else None
    known = [sibling.name for sibling in iter_modules((spec and spec.submodule_search_locations) or [])]
    return suggestion(name, known, f"{package} has") if known else "Correct it, or install its distribution."


def _import_problem(kind: type[Config]) -> str | None:
    """Return the error raised by importing the target, or None."""
    try:
        kind.load()
    except PluginError as error:
        return str(error)
    except (Exception, SystemExit) as error:  # raised by the plugin
        name = f"{kind.__module__}.{kind.__qualname__}"
        return f"{name}: its target cannot be imported: {type(error).__name__}: {error}. Correct it in the plugin."
    return None
