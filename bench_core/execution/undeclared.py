"""Observed inputs of a stage that its key does not cover: they are recorded in its artifact, or refused."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bench_core.errors import PluginError
from bench_core.planning.code_digests import CARRYING_LIBRARIES, code_digests, content_digests
from bench_core.planning.stages import Stage
from code_digests import Covered, distributions
from input_digests import IN_PROVENANCE, current_digest, described, named
from process_watch import Input, Reading, earlier

SHOWN = 5  # inputs in a message
#: Sorts of inputs of which the content counts -> the sort under which their digest is kept.
CONTENTS = {"file": "file", "module": "file", "declared": "declared"}
_digests: dict[tuple[Input, object], str] = {}  # of files as they were read by this process
REMEDY = (
    "Give files as settings of type `Path` or in a task's `reads`, import modules by `import` statements, give "
    "values as settings, and declare what a child process or compiled code reads by `with bench_core.reads(...)`."
)


def undeclared(stage: Stage, found: Mapping[Input, Reading], data: Path) -> dict[Input, Reading]:
    """Return the observed inputs that the key of a stage does not cover."""
    if not found:
        return {}
    code, files = code_digests().covered(frozenset(stage.roots.values())), {*stage.places, *_reads(stage, data)}
    _check_unchanged(one.name for one in found if one.sort == "file" and one.name in code.data)
    kept = {one: reading for one, reading in found.items() if not _is_declared(one, stage, code, files, found)}
    for one, reading in kept.items():
        if one.sort in CONTENTS and one.is_unchanged(reading):
            _digests.setdefault((one, reading.mark), current_digest(CONTENTS[one.sort], one.name))
    return kept


def _check_unchanged(paths: Iterable[str]) -> None:
    """Raise PluginError if a file beside a module is not what it was when the code was digested."""
    changed = [path for path in paths if not content_digests.get(path, "").startswith(current_digest("file", path))]
    if changed:
        raise PluginError(
            f"{abridged(changed)}: changed since the code of this stage was digested. Run the suite again."
        )


def with_earlier(stage: Stage, found: Mapping[Input, Reading], data: Path) -> dict[Input, Reading]:
    """Return undeclared inputs of a stage, and those that its modules have read earlier in this process."""
    dynamic = {one.module for one in found if one.sort == "module"}
    return {**undeclared(stage, earlier(code_modules(stage) | dynamic), data), **found}


def digests(inputs: Mapping[Input, Reading]) -> dict[str, dict[str, str]]:
    """Return the digests of inputs by sort and name; raise PluginError if a file changed since it was read."""
    changed = [one.name for one, reading in inputs.items() if not _is_same(one, reading)]
    if changed:
        raise PluginError(
            f"{', '.join(changed[:SHOWN])}: changed after a stage had read it, so nothing was stored. "
            "Run the suite again; a part must not write a file that it reads."
        )
    kept: dict[str, dict[str, str]] = {}
    for one, reading in inputs.items():
        for sort, name in _kept_as(one, reading):
            mark = ", ".join(sorted(reading.modules)) if sort == "unobserved" else current_digest(sort, name)
            kept.setdefault(sort, {})[name] = mark
    return kept


def _is_same(one: Input, reading: Reading) -> bool:
    """Return whether a file is the one that was read, or has the same content."""
    known = _digests.get((one, reading.mark))
    return one.is_unchanged(reading) or known == current_digest(CONTENTS[one.sort], one.name)


def refusal(inputs: Mapping[Input, Reading], strict: bool) -> str:
    """Return why a stage with these inputs is refused; the empty string if it is not."""
    refused = {one: reading for one, reading in inputs.items() if one.sort == "refused"}
    if refused:
        return f"it read {listed(refused)}, which cannot be read again. Read a file instead, or use a setting."
    hidden = {one: reading for one, reading in inputs.items() if one.sort != "declared"}
    return f"it read {listed(hidden)}, which no cache key covers (--strict). {REMEDY}" if hidden and strict else ""


def warning(inputs: Mapping[Input, Reading]) -> str:
    """Return the warning about inputs that neither a key covers nor a part declares; empty if there are none."""
    hidden = {one: reading for one, reading in inputs.items() if one.sort == "unobserved"}
    known = {one: reading for one, reading in inputs.items() if one.sort not in ("unobserved", "declared")}
    texts = []
    if known:
        reused = "the stored result is reused only while this is unchanged"
        texts.append(f"it read {listed(known)}, which the cache key does not cover; {reused}")
    if hidden:
        texts.append(f"unobserved: {listed(hidden)}; changes of its inputs are not detected")
    return "; ".join(texts) + "." if texts else ""


def listed(inputs: Mapping[Input, Reading]) -> str:
    """Return the first inputs in words, with the modules that read them."""
    words: dict[str, list[str]] = {}
    for one, reading in inputs.items():
        names = [described(sort, name) for sort, name in _kept_as(one, reading)]
        words.setdefault(", ".join(sorted(reading.modules)), []).extend(names)
    texts = [f"{abridged(names)}{f' (in {module})' if module else ''}" for module, names in words.items()]
    return "; ".join(texts)


def abridged(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def code_modules(stage: Stage) -> frozenset[str]:
    """Return the names of the modules whose code takes part in a stage."""
    return code_digests().covered(frozenset(stage.roots.values())).modules


def _reads(stage: Stage, data: Path) -> Iterator[str]:
    """Yield the paths of data and of pretrained files whose digests are in a key."""
    for section in ("data", "files"):
        for name in stage.settings.get(section, {}):
            yield str(data.absolute() / name)


def _is_declared(one: Input, stage: Stage, code: Covered, files: set[str], found: Mapping[Input, Reading]) -> bool:
    """Return whether the key of a stage covers an input, or a more specific input does."""
    if one.sort in ("unobserved", "refused"):
        return False
    if one.sort == "variable":
        return one.name.startswith(IN_PROVENANCE)
    if one.sort == "library":
        if one.name in sys.stdlib_module_names or ("." not in one.name and code_digests().code.homes(one.name)):
            return True
        known = distributions(one.name)
        return known <= {*stage.libraries, *CARRYING_LIBRARIES} if known else one.name in code.libraries
    if one.name in code.data or (one.sort in ("module", "existence") and one.name in code.files):
        return True
    if not files.isdisjoint((one.name, *map(str, Path(one.name).parents))):
        return True
    others = (Input(sort, one.name) in found for sort in (*CONTENTS, "listing", "entries", "status"))  # type: ignore[arg-type]
    return one.sort == "existence" and (any(others) or bool(one.module))


def _kept_as(one: Input, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the sort and the name under which an artifact has an input."""
    if one.sort == "library":
        yield from ((one.sort, name) for name in distributions(one.name) or {one.name})
    elif one.sort in ("unobserved", "refused", "variable"):
        yield one.sort, one.name
    else:
        yield "file" if one.sort == "module" else one.sort, named(one.name, reading.relative)
