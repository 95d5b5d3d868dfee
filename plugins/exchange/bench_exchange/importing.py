"""Puts what came from another machine into a store, and a run among others; what is there already is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from shutil import copyfile, copytree
from typing import TYPE_CHECKING

from bench_core.runs.results import write_run
from bench_core.storage.artifact import Artifact, unwritable
from bench_core.storage.contents import SCHEME
from bench_core.storage.partial import differing, kept_as
from bench_exchange.bundle import about
from bench_exchange.unbundle import WHOLE, Bundle, Name

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@dataclass
class Imported:
    """What became of a file."""

    run: Path
    scheme: int  # of its keys
    added: Counter[str] = field(default_factory=Counter)  # artifacts by kind
    known: int = 0  # artifacts that were there already
    aside: list[str] = field(default_factory=list)  # why others were set aside, and where


def take_in(bundle: Bundle, store: Store, runs: Path) -> Imported:
    """Put artifacts into a store, and the run among others; what is there already is kept."""
    told = Imported(Path(), bundle.about["scheme"])
    if told.scheme == SCHEME:
        with store.in_use():
            placed = _Placing(bundle, store, told)
            for (kind, key), files in bundle.artifacts.items():
                placed.place(kind, key, files)
    told.run = _placed_run(bundle, runs)
    return told


@dataclass
class _Placing:
    """Puts artifacts into a store."""

    bundle: Bundle
    store: Store
    told: Imported
    strangers: set[Name] = field(default_factory=set)  # set aside: what was computed from them is, too

    def place(self, kind: str, key: str, files: Sequence[str]) -> None:
        """Put one artifact where it belongs; set it aside if the store has another under its key."""
        whole = WHOLE.get(kind, kind)
        with self.bundle.artifact(kind, key, files) as artifact:
            why = self._stranger(whole, key, artifact)
            if why:
                self.strangers.add((whole, key))
                self._set_aside(kind, key, artifact, why)
            elif self.store.has(kept_as(self.store, whole, key), key):
                self.told.known += 1
            else:
                with self.store.writing(kind, key, about(artifact.manifest)) as folder:
                    for name in artifact.manifest["files"]:
                        copyfile(artifact.folder / name, folder / name)
                self.told.added[whole] += 1

    def _stranger(self, kind: str, key: str, artifact: Artifact) -> str:
        """Say why an artifact is not that of this store; nothing if it is, or the store has none."""
        here = kept_as(self.store, kind, key)
        if self.store.has(here, key):
            files = differing(self.store.get(here, key).manifest, artifact.manifest)
            return f"the one that is here has another content ({', '.join(files)})" if files else ""
        inputs = artifact.manifest["ingredients"]["inputs"].values()
        other = next((pair for pair in inputs if tuple(pair) in self.strangers), None)
        return f"it was computed from a {other[0]} whose content is another here" if other else ""

    def _set_aside(self, kind: str, key: str, artifact: Artifact, why: str) -> None:
        place = self.store.root / "set-aside" / f"{kind}-{key[:12]}-{token_hex(4)}" / key
        try:
            place.parent.mkdir(parents=True)
            copytree(artifact.folder, place)
        except OSError as error:
            raise unwritable(place, error) from error
        self.told.aside.append(f"{kind} {key} is set aside in {place}: {why}")


def _placed_run(bundle: Bundle, runs: Path) -> Path:
    """Put the run among others, unless it is there."""
    there: Path = runs / bundle.about["run"]
    if there.is_dir() and all(_same(there / name, bundle.content(f"run/{name}")) for name in bundle.run_files):
        return there
    return write_run(runs, bundle.about["run"], bundle.write_run)


def _same(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
