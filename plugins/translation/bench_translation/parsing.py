"""Selects the dependency parser of the target language, and digests its files; does not import spaCy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from bench_core import DataError, Split
from bench_text.api import corpora
from bench_translation import conllu
from bench_translation.settings import WAYS, Conllu, Parse, Pipeline, Treebank

ADVICE = "Correct `parse:`, or put the files there."

#: Maps a split, all lines of its target and the indices of the wanted lines to the heads of their words, counted from
#: 0; a root is its own head. Returns None if the split has no trees.
Heads: TypeAlias = Callable[[Split, Sequence[str], Sequence[int]], list[list[int]] | None]


@dataclass(frozen=True)
class Parser:
    """A dependency parser, as a function that returns heads, and its description in reports."""

    heads: Heads
    about: Mapping[str, Any]  # name, and percentage of correct heads, if known


def reads(settings: Parse, data: Path) -> Mapping[str, str]:
    """Return the digest of each file; raise DataError if some are missing."""
    if isinstance(settings, Pipeline):
        folder = pipeline_folder(settings.pipeline, data)
        pipeline_files = sorted(
            path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
        )
        return {f"{settings.pipeline}/{path.relative_to(folder)}": corpora.digest(path) for path in pipeline_files}
    paths = _trees(settings, data) if isinstance(settings, Conllu) else _treebank(settings, data)
    return corpora.digests((path for group in paths.values() for path in group), data)


def parser(settings: Parse, to_lower: Callable[[str], str], data: Path) -> Parser:
    """Create the parser; raise DataError if files are missing or wrong, or contain no parser."""
    if isinstance(settings, Conllu):
        trees = _trees(settings, data)
        names = ", ".join(path.name for path in trees["train"])
        return Parser(_aligned_trees(trees, to_lower), {"kind": "conllu", "name": names, "uas": None})
    from bench_translation import spacy_parser

    if isinstance(settings, Pipeline):
        pipeline, about = spacy_parser.load(settings.pipeline, pipeline_folder(settings.pipeline, data))
    else:
        pipeline, about = spacy_parser.train_parser(settings, _treebank(settings, data), to_lower)

    def heads(split: Split, lines: Sequence[str], wanted: Sequence[int]) -> list[list[int]]:
        return [*spacy_parser.parse(pipeline, (lines[number].split() for number in wanted))]

    return Parser(heads, {"kind": settings.kind, **about})


def pipeline_folder(name: str, data: Path) -> Path:
    """Return the folder of a spaCy pipeline; raise DataError, with ways to obtain a pipeline, if it is missing."""
    if (data / name / "config.cfg").is_file():
        return data / name
    spec = find_spec(name) if str(name).isidentifier() else None
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    raise DataError(f"no spaCy pipeline {name!r} is installed or found in {data / name}. {WAYS}.")


def _aligned_trees(trees: Mapping[Split, Sequence[Path]], to_lower: Callable[[str], str]) -> Heads:
    def heads(split: Split, lines: Sequence[str], wanted: Sequence[int]) -> list[list[int]] | None:
        if split not in trees:
            return None
        ends = ", ".join(map(str, trees[split]))
        all_heads = conllu.align(lines, conllu.sentences(trees[split]), to_lower, ends)
        return [all_heads[number] for number in wanted]

    return heads


def _trees(settings: Conllu, data: Path) -> dict[Split, list[Path]]:
    groups = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    paths = {split: [data / path for path in group] for split, group in groups.items() if group}
    corpora.check_files((path for group in paths.values() for path in group), ADVICE)
    return paths


def _treebank(settings: Treebank, data: Path) -> dict[str, list[Path]]:
    """Return the files to train a parser on, and to evaluate it on."""
    folder = data / settings.treebank
    paths_of = {part: sorted(folder.glob(f"*-{part}.conllu")) for part in ("train", "dev")}
    missing = [f"*-{part}.conllu" for part, paths in paths_of.items() if not paths]
    if missing:
        raise DataError(
            f"training a parser needs {' and '.join(missing)} in {folder}. Put the files of a treebank "
            "of https://universaldependencies.org there, such as UD_English-EWT, or correct `parse:`."
        )
    corpora.check_files((path for paths in paths_of.values() for path in paths), ADVICE)
    return paths_of
