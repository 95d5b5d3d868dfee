"""Finds spaCy's pipelines; imports no spaCy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from bench_core import DataError

WAYS = (
    "Install one, such as by `python -m spacy download en_core_web_sm`, or let one be learnt: "
    "{kind: train, treebank: ud-english-ewt}"
)


def folder(name: str, data: Path) -> Path:
    """Return where a pipeline of spaCy is; raise DataError that says how to come by one."""
    if (data / name / "config.cfg").is_file():
        return data / name
    spec = find_spec(name) if str(name).isidentifier() else None
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    raise DataError(f"no pipeline of spaCy is installed as {name!r}, or in the folder {data / name}. {WAYS}.")
