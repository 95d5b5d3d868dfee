"""What is behind a stage besides its settings: the code of its parts, and the libraries that this names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench_core.config import Config, configs_inside
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests, roots_of, roots_of_stage


@dataclass(frozen=True)
class StageCode:
    """The code and libraries behind a stage."""

    code: Mapping[str, str]  # what takes part, such as "model rnn-lm" -> the digest of its code
    libraries: Mapping[str, str]  # name -> version
    roots: Mapping[str, tuple[str, ...]]  # what takes part -> where its code begins, `module:name`


def stage_code(kind: str, parts: Iterable[tuple[str, Config]]) -> StageCode:
    """Return the code behind a kind of stage with these parts, and the Configs inside of their settings."""
    roots, libraries, digests = {kind: roots_of_stage(kind)}, set[str](), code_digests()
    for part_kind, config in parts:
        for one in (config, *configs_inside(config)):
            roots[f"{part_kind if one is config else 'inner'} {one.name}"] = roots_of(type(one))
            libraries |= one.libraries
    libraries = libraries.union(*map(digests.libraries, roots.values()))
    return StageCode(digests.of_stage(roots), {name: keys.library(name) for name in sorted(libraries)}, roots)


def changed_code(code: Mapping[str, str], roots: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return what takes part in a stage whose code here has another digest."""
    here = code_digests().of_stage(roots)
    return [name for name, digest in code.items() if here.get(name) != digest]
