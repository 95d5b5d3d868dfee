"""What is behind a stage besides its settings: the code of its parts, and the libraries that this names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench_core.config import Config, configs_inside
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import STAGES, code_digests, roots_of, roots_of_stage
from bench_core.registry import IN_SUITES, configured, parts


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
    roots, libraries, digests = {kind: roots_of_stage(kind)}, set[str](), code_digests()
    roots |= {name: (target,) for name, target in classes}
    for part_kind, config in configs:
        for one in (config, *configs_inside(config)):
            roots[f"{part_kind if one is config else 'inner'} {one.name}"] = roots_of(type(one))
            libraries |= one.libraries
    code = digests.of_stage(roots)
    libraries = libraries.union(*map(digests.libraries, roots.values()))
    return StageCode(code, {name: keys.library(name) for name in sorted(libraries)}, roots)


def changed_code(
    code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]
) -> list[str]:
    """Return what takes part in a stage whose code here has another digest, or is not installed.

    Where `roots` are not known, as of a stored artifact, they are those of the parts that are called so here.
    """
    here = code_digests().of_stage(roots or dict(_roots_here(code, settings)))
    return [name for name, digest in code.items() if here.get(name) != digest]


def _roots_here(names: Iterable[str], settings: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the roots of those that take part in a stage, by name, as far as they are installed."""
    inner = dict[str, type[Config]]()
    for name in names:
        kind, _, part_name = name.partition(" ")
        if name in STAGES:
            yield name, roots_of_stage(name)
        elif ":" in part_name:  # a class that a training names
            yield name, (part_name,)
        elif kind in IN_SUITES and part_name in parts(kind):
            yield name, roots_of(parts(kind)[part_name].config)
            with suppress(KeyError, TypeError, ValueError):  # settings that this part does not have here
                inner |= {one.name: type(one) for one in configs_inside(configured(kind, settings[kind]))}
    yield from ((f"inner {name}", roots_of(config)) for name, config in inner.items())
