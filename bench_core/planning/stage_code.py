"""What is behind a stage besides its settings: the code of its parts, and the libraries that this names."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import product
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

    code: Mapping[str, str]  # what takes part, such as "model rnn-lm" -> the digest of its code
    libraries: Mapping[str, str]  # name -> version
    roots: Mapping[str, tuple[str, ...]]  # what takes part -> where its code begins, `module:name`


def stage_code(
    kind: str, configs: Iterable[tuple[str, Config]], classes: Iterable[tuple[str, str]] = ()
) -> StageCode:
    """Return the code behind a kind of stage with these parts, and the Configs inside of their settings.

    `classes` are others that its settings name, as `module:Class`, each with what it is called here.
    """
    roots, libraries = {kind: roots_of_stage(kind)}, set[str]()
    roots |= {name: (target,) for name, target in classes}
    for part_kind, config in configs:
        for one in (config, *configs_inside(config)):
            own, name = roots_of(type(one)), f"{part_kind if one is config else 'inner'} {one.name}"
            if roots.setdefault(name, own) != own:
                _check_alone(roots[name][0], own[0])
                roots[f"{name} ({own[0]})"] = own
            libraries |= one.libraries
    code = stage_digests(roots)
    libraries = libraries.union(*map(code_digests().libraries, roots.values()))
    return StageCode(code, {name: keys.library(name) for name in sorted(libraries)}, roots)


def roots_inside(*configs: Config) -> list[str]:
    """Return where the Configs of parts are defined, also of those inside their settings."""
    return [roots_of(type(one))[0] for config in configs for one in (config, *configs_inside(config))]


def _check_alone(*roots: str) -> None:
    """Raise SuiteError for two parts of one kind and name in a stage, whose settings have names alone."""
    for kind in kinds():
        both = sorted(one.whole_name for one in parts(kind).values() if one.root in roots)
        if len(both) > 1:
            raise SuiteError(
                f"{kind}s {' and '.join(both)} take part in one stage, and have the same name. Use one of them there."
            )


def meant(code: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the roots of what takes part in a stored stage; of parts that share a name, those with its code."""
    known = {name: [roots_of(one.config) for one in _called(name)] for name in code}
    shared = [name for name, several in known.items() if len(several) > 1]
    if not shared:
        return dict(_roots_here(code, settings))
    tried = []
    for chosen in product(*(known[name] for name in shared)):
        with meaning(root for roots in chosen for root in roots):
            roots = dict(_roots_here(code, settings))
        tried.append((len(_changed(code, roots)), roots))
    return min(tried, key=lambda one: one[0])[1]


def meaning_of(stage: Stage) -> AbstractContextManager[None]:
    """Have names in the settings of a stage mean the parts that take part in it."""
    return meaning(
        root for several in (stage.roots or meant(stage.code, stage.settings)).values() for root in several
    )


def as_recorded(kind: str, ingredients: Mapping[str, Any]) -> Config:
    """Return the Config of a part of a stored stage; raise SuiteError if there is none."""
    settings: Mapping[str, Any] = ingredients["settings"]
    roots = meant(ingredients["code"], settings)
    with meaning(root for several in roots.values() for root in several):
        found: Config = configured(kind, settings[kind])
    return found


def _called(name: str) -> list[Part]:
    """Return the installed parts that a stage may mean by the name of one that takes part in it."""
    kind, _, own = name.partition(" ")
    among = kinds() if kind == "inner" else [kind] if kind in IN_SUITES else []
    return [one for each in among for one in parts(each).values() if one.config.name == own]


def _changed(code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]]) -> list[str]:
    here = stage_digests(roots)
    return [name for name, digest in code.items() if here.get(name) != digest]


def changed_code(
    code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]
) -> list[str]:
    """Return what takes part in a stage whose code here has another digest, or is not installed.

    Where `roots` are not known, as of a stored artifact, they are those of the parts that are called so here.
    """
    return _changed(code, roots or meant(code, settings))


def _roots_here(names: Iterable[str], settings: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the roots of those that take part in a stage, by name, as far as they are installed."""
    inner = dict[str, type[Config]]()
    for name in names:
        kind, _, part_name = name.partition(" ")
        if name in stage_kinds():
            yield name, roots_of_stage(name)
        elif ":" in part_name:  # a class that a training names
            yield name, (part_name,)
        elif kind in IN_SUITES and _called(name):
            with suppress(SuiteError):  # shared by several
                yield name, roots_of(part(kind, part_name).config)
            with suppress(KeyError, TypeError, ValueError, SuiteError):  # settings that this part does not have here
                inner |= {one.name: type(one) for one in configs_inside(configured(kind, settings[kind]))}
    yield from ((f"inner {name}", roots_of(config)) for name, config in inner.items())
