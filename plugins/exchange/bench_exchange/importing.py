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
from bench_exchange.unpacking import MAX_UNPACKED_BYTES, recorded_kind, refusal, unpack
from bench_exchange.verifying import verify_export


@dataclass
class Imported:
    """Summary of an import."""

    run: Path = Path()
    added: Counter[str] = field(default_factory=Counter)  # number of artifacts by kind
    known: int = 0  # number of artifacts already present
    left_out: dict[str, str] = field(default_factory=dict)  # key -> reason
    unchecked: list[str] = field(default_factory=list)  # messages about unchecked items


def import_run(
    path: Path, store: Store, runs: Path, limit: int = MAX_UNPACKED_BYTES, trust: bool = False
) -> Imported:
    """Add the artifacts of a file to a store, and its run to the folder `runs`; existing files are kept.

    Raises StoreError for an invalid file, for more than `limit` bytes unpacked, and, unless `trust` is set, for
    stages whose code is not installed here.
    """
    with tempfile.TemporaryDirectory(prefix="bench-import-") as name:
        folder = Path(name)
        contents, artifacts = unpack(path, folder, limit)
        remarks = [*verify_export(folder)]
        if wrong := [remark.text.replace(f"{name}/", "") for remark in remarks if remark.wrong]:
            raise refusal(path, f"{wrong[0]}" + (f"; and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""))
        stages = read_stages(folder / "run")
        missing = _missing_code(stages)
        if missing and not trust:
            raise refusal(path, _describe_missing(missing, len(stages)))
        if unknown := [key for artifact in artifacts if (key := artifact.manifest["key"]) not in stages]:
            raise refusal(path, f"the run records no stage {unknown[0]}")
        imported = _add(artifacts, store, missing)
        imported.unchecked = [remark.text.replace(f"{name}/", "") for remark in remarks]
        imported.run = _add_run(folder / "run", runs, contents.run)
        with extending(imported.run):
            write_unverified(imported.run, missing)
    return imported


def _missing_code(stages: Mapping[str, RecordedStage]) -> dict[str, list[str]]:
    """Return the stages whose code is missing or different here, with the names of the code."""

    @cache
    def settings(key: str) -> dict[str, Any]:
        """Return the settings of all parts of a stage, including its input stages."""
        stage, settings_of_inputs = stages[key], dict[str, Any]()
        for _, inner in stage.inputs.values():
            settings_of_inputs |= settings(inner) if inner in stages else {}
        select = at(stage.settings, ("training", "select"))
        chosen = {kind: select.get(kind) for kind in ("metric", "decoder")} if isinstance(select, Mapping) else {}
        return settings_of_inputs | chosen | {**stage.settings}

    missing = {}
    for key, stage in stages.items():
        code = stage.ingredients.get("code")
        if names := changed_code(code if isinstance(code, Mapping) else {"code": ""}, {}, settings(key)):
            missing[key] = names
    return missing


def _add(artifacts: Sequence[Artifact], store: Store, missing: Mapping[str, Sequence[str]]) -> Imported:
    imported = Imported()
    with store.in_use():
        if missing:
            (store.root / TRUSTED).touch()
        for artifact in artifacts:
            manifest, key = artifact.manifest, artifact.manifest["key"]
            kind = recorded_kind(manifest["kind"])
            here = store.stored_kind(kind, key)
            if why := _conflict(manifest, store, here, imported.left_out):
                imported.left_out[key] = f"{kind} {key} is left out: {why}"
            elif store.has(here, key):
                imported.known += 1
            else:
                imported.added[kind] += 1
                entries = {name: value for name, value in about(manifest).items() if name != TRUSTED}
                entries |= {TRUSTED: missing[key]} if key in missing else {}
                with store.writing(manifest["kind"], key, entries) as folder:
                    for name in manifest["files"]:
                        copyfile(artifact.folder / name, folder / name)
    return imported


def _describe_missing(missing: Mapping[str, Sequence[str]], stages: int) -> str:
    """Describe the missing code of stages and how to proceed."""
    names = [name for name, _ in Counter(name for several in missing.values() for name in several).most_common()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    what = f"{len(missing):,} of {stages:,} stages were computed by code that is not installed here"
    return f"{what}: {', '.join(names[:3])}{more}; install that version, or import them unverified with --trust"


def _conflict(manifest: Mapping[str, Any], store: Store, here: str, left_out: Mapping[str, str]) -> str:
    """Return why an artifact cannot be added to a store, or an empty string."""
    if manifest.get("scheme", SCHEME) != SCHEME:
        return f"its key has scheme {manifest['scheme']}, but this version of bench uses scheme {SCHEME}"
    if store.has(here, manifest["key"]):
        files = differing(store.get(here, manifest["key"]).manifest, manifest)
        return f"the store has other content under this key ({', '.join(files)})" if files else ""
    other = next((kind for kind, key in manifest["ingredients"]["inputs"].values() if key in left_out), None)
    return f"its input {other} is left out" if other else ""


def _add_run(folder: Path, runs: Path, name: str) -> Path:
    """Add a run to the folder `runs` unless it is already present."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if cmpfiles(folder, runs / name, files, shallow=False)[0] == files:
        return runs / name
    return write_run(runs, name, partial(copytree, folder, dirs_exist_ok=True))
