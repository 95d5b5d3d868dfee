"""The ingredients of stages besides settings: the code of their parts, and the libraries that it uses."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from bench_core.config import Config, configs_inside
from bench_core.errors import SuiteError
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests, roots_of, roots_of_stage, stage_digests
from bench_core.planning.stages import Stage
from bench_core.registry import IN_SUITES, Part, configured, kinds, meaning, part, parts, stage_kinds


@dataclass(frozen=True)
class StageCode:
    """The code and libraries behind a stage."""

    code: Mapping[str, str]  # kind, part or class, such as "model rnn-lm" -> digest of its code
    libraries: Mapping[str, str]  # name -> version
    roots: Mapping[str, tuple[str, ...]]  # kind, part or class -> definitions where its code starts, `module:name`


def stage_code(
    kind: str, configs: Iterable[tuple[str, Config]], classes: Iterable[tuple[str, str]] = ()
) -> StageCode:
    """Return the code behind a kind of stage with these parts, including Configs inside their settings.

    `classes` are further classes that its settings name: pairs of a name for the result and `module:Class`.
    """
    roots, libraries = {kind: roots_of_stage(kind)}, set[str]()
    roots |= {name: (target,) for name, target in classes}
    for part_kind, config in configs:
        for inner in (config, *configs_inside(config)):
            part_roots, name = roots_of(type(inner)), f"{part_kind if inner is config else 'inner'} {inner.name}"
            if roots.setdefault(name, part_roots) != part_roots:
                _check_alone(roots[name][0], part_roots[0])
                roots[f"{name} ({part_roots[0]})"] = part_roots
            libraries |= inner.libraries
    code = stage_digests(roots)
    libraries = libraries.union(*map(code_digests().libraries, roots.values()))
    return StageCode(code, {name: keys.library(name) for name in sorted(libraries)}, roots)


def code_modules(stage: Stage) -> frozenset[str]:
    """Return the names of the modules whose code belongs to a stage."""
    return code_digests().covered(frozenset(stage.roots.values())).modules


def roots_inside(*configs: Config) -> list[str]:
    """Return the roots of the Configs of parts, including Configs inside their settings."""
    return [roots_of(type(nested))[0] for config in configs for nested in (config, *configs_inside(config))]


def _check_alone(*roots: str) -> None:
    """Raise SuiteError if a stage uses two parts of the same kind and name, as its settings contain only names."""
    for kind in kinds():
        names = sorted(part.whole_name for part in parts(kind).values() if part.root in roots)
        if len(names) > 1:
            text = f"{kind}s {' and '.join(names)} have the same name, and one stage uses both."
            raise SuiteError(f"{text} Use only one of them.")


def installed_roots(code: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the roots behind the code of a stored stage; digests in `code` decide between parts of the same name."""
    known = {name: [roots_of(candidate.config) for candidate in _parts_called(name)] for name in code}
    shared = [name for name, several in known.items() if len(several) > 1]
    if not shared:
        return dict(_roots_here(code, settings))
    candidates = []
    for choice in product(*(known[name] for name in shared)):
        with meaning(chain.from_iterable(choice)):
            roots = dict(_roots_here(code, settings))
        candidates.append((len(_changed_names(code, roots)), roots))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def meaning_of(stage: Stage) -> AbstractContextManager[None]:
    """Resolve names in the settings of a stage to the parts that it uses, in a `with` block."""
    roots = stage.roots or installed_roots(stage.code, stage.settings)
    return meaning(chain.from_iterable(roots.values()))


def recorded_config(kind: str, ingredients: Mapping[str, Any]) -> Config:
    """Return the Config of a part of a stored stage; raise SuiteError if it is not installed."""
    settings: Mapping[str, Any] = ingredients["settings"]
    roots = installed_roots(ingredients["code"], settings)
    with meaning(chain.from_iterable(roots.values())):
        return configured(kind, settings[kind])  # type: ignore[no-any-return]


def _parts_called(name: str) -> list[Part]:
    """Return the installed parts that an entry of the code of a stage, such as "model rnn-lm", may refer to."""
    kind, _, called = name.partition(" ")
    part_kinds = kinds() if kind == "inner" else [kind] if kind in IN_SUITES else []
    return [part for each in part_kinds for part in parts(each).values() if part.config.name == called]


def _changed_names(code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]]) -> list[str]:
    here = stage_digests(roots)
    return [name for name, digest in code.items() if here.get(name) != digest]


def changed_code(
    code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]
) -> list[str]:
    """Return the names in `code` whose installed code has a different digest, or is missing.

    If `roots` is empty, as for a stored artifact, installed parts are found by their names.
    """
    return _changed_names(code, roots or installed_roots(code, settings))


def _roots_here(names: Iterable[str], settings: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names in the code of a stage that are installed, with their roots."""
    inner = dict[str, type[Config]]()
    for name in names:
        kind, _, part_name = name.partition(" ")
        if name in stage_kinds():
            yield name, roots_of_stage(name)
        elif ":" in part_name:  # a class named by training settings
            yield name, (part_name,)
        elif kind in IN_SUITES and _parts_called(name):
            with suppress(SuiteError):  # an ambiguous name
                yield name, roots_of(part(kind, part_name).config)
            with suppress(KeyError, TypeError, ValueError, SuiteError):  # the installed part lacks a setting
                inner |= {nested.name: type(nested) for nested in configs_inside(configured(kind, settings[kind]))}
    yield from ((f"inner {name}", roots_of(config)) for name, config in inner.items())
