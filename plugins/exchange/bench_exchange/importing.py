"""Imports an exported file into a store; everything is checked before anything is written."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from filecmp import cmpfiles
from functools import cache, partial
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

from bench_core.planning.cache_keys import SCHEME
from bench_core.planning.stage_code import changed_code
from bench_core.runs.manifest import extending
from bench_core.runs.provenance import RecordedStage, at, read_stages
from bench_core.runs.results import write_run
from bench_core.runs.unverified import TRUSTED, write_unverified
from bench_core.storage.artifact import Artifact
from bench_core.storage.contents import differing
from bench_core.storage.store import Store
from bench_exchange.exporting import about
from bench_exchange.unpacking import LIMIT, recorded_kind, refused, unpacked
from bench_exchange.verifying import verify_export


@dataclass
class Imported:
    """What became of a file."""

    run: Path = Path()
    added: Counter[str] = field(default_factory=Counter)  # artifacts by kind
    known: int = 0  # artifacts that were there already
    left_out: dict[str, str] = field(default_factory=dict)  # key -> why an artifact was not added
    unchecked: list[str] = field(default_factory=list)  # what of it could not be checked


def import_run(path: Path, store: Store, runs: Path, limit: int = LIMIT, trust: bool = False) -> Imported:
    """Add artifacts to a store and the run to others; what is there already is kept.

    Raises StoreError that says what is wrong with the file, which may hold at most `limit` bytes unpacked, and for
    stages whose code is not installed here, unless they are taken on `trust`.
    """
    with tempfile.TemporaryDirectory(prefix="bench-import-") as name:
        folder = Path(name)
        contents, artifacts = unpacked(path, folder, limit)
        remarks = [*verify_export(folder)]
        if wrong := [remark.text.replace(f"{name}/", "") for remark in remarks if remark.wrong]:
            raise refused(path, f"{wrong[0]}" + (f"; and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""))
        stages = read_stages(folder / "run")
        lacking = _lacking_code(stages)
        if lacking and not trust:
            raise refused(path, _lacks(lacking, len(stages)))
        if strange := [key for one in artifacts if (key := one.manifest["key"]) not in stages]:
            raise refused(path, f"the run records no stage {strange[0]}")
        imported = _add(artifacts, store, lacking)
        imported.unchecked = [remark.text.replace(f"{name}/", "") for remark in remarks]
        imported.run = _add_run(folder / "run", runs, contents.run)
        with extending(imported.run):
            write_unverified(imported.run, lacking)
    return imported


def _lacking_code(stages: Mapping[str, RecordedStage]) -> dict[str, list[str]]:
    """Return the stages whose code has another digest here, or is not installed, each with what of it."""

    @cache
    def settings(key: str) -> dict[str, Any]:
        """Return the settings of all parts of a stage, which are those of the stages that it reads, too."""
        stage, found = stages[key], dict[str, Any]()
        for _, inner in stage.inputs.values():
            found |= settings(inner) if inner in stages else {}
        select = at(stage.settings, ("training", "select"))
        chosen = {kind: select.get(kind) for kind in ("metric", "decoder")} if isinstance(select, Mapping) else {}
        return found | chosen | {**stage.settings}

    found = {}
    for key, stage in stages.items():
        code = stage.ingredients.get("code")
        if names := changed_code(code if isinstance(code, Mapping) else {"code": ""}, {}, settings(key)):
            found[key] = names
    return found


def _add(artifacts: Sequence[Artifact], store: Store, lacking: Mapping[str, Sequence[str]]) -> Imported:
    imported = Imported()
    with store.in_use():
        if lacking:
            (store.root / TRUSTED).touch()
        for artifact in artifacts:
            manifest, key = artifact.manifest, artifact.manifest["key"]
            kind = recorded_kind(manifest["kind"])
            here = store.kept_as(kind, key)
            if why := _conflict(manifest, store, here, imported.left_out):
                imported.left_out[key] = f"{kind} {key} is left out: {why}"
            elif store.has(here, key):
                imported.known += 1
            else:
                imported.added[kind] += 1
                told = {name: value for name, value in about(manifest).items() if name != TRUSTED}
                told |= {TRUSTED: lacking[key]} if key in lacking else {}
                with store.writing(manifest["kind"], key, told) as folder:
                    for name in manifest["files"]:
                        copyfile(artifact.folder / name, folder / name)
    return imported


def _lacks(lacking: Mapping[str, Sequence[str]], stages: int) -> str:
    """Say that stages are not taken, what code they lack, and what to do."""
    names = [name for name, _ in Counter(name for several in lacking.values() for name in several).most_common()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    what = f"{len(lacking):,} of {stages:,} stages were computed by code that is not installed here"
    return f"{what}: {', '.join(names[:3])}{more}; install that version, or take them unverified: --trust"


def _conflict(manifest: Mapping[str, Any], store: Store, here: str, left_out: Mapping[str, str]) -> str:
    """Say why an artifact does not belong to a store; nothing if it does."""
    if manifest.get("scheme", SCHEME) != SCHEME:
        return f"its key is of scheme {manifest['scheme']}, and this bench makes keys of scheme {SCHEME}"
    if store.has(here, manifest["key"]):
        files = differing(store.get(here, manifest["key"]).manifest, manifest)
        return f"the one that is here has another content ({', '.join(files)})" if files else ""
    inputs = manifest["ingredients"]["inputs"].values()
    other = next((kind for kind, key in inputs if key in left_out), None)
    return f"it was computed from a {other} that is left out" if other else ""


def _add_run(folder: Path, runs: Path, name: str) -> Path:
    """Put a run among others, unless it is there."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if cmpfiles(folder, runs / name, files, shallow=False)[0] == files:
        return runs / name
    return write_run(runs, name, partial(copytree, folder, dirs_exist_ok=True))
