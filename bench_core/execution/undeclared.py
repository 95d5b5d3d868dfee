"""Observed inputs of a stage that its key does not cover; they are recorded in its artifact or refused."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bench_core.errors import PluginError
from bench_core.planning.code_digests import CARRYING_LIBRARIES, code_digests, content_digests
from bench_core.planning.stage_code import code_modules
from bench_core.planning.stages import Stage
from code_digests import Covered, distributions
from input_digests import IN_PROVENANCE, current_digest, described, named
from process_watch import Input, Reading, earlier

MAX_NAMES = 5  # limit for inputs in a message
#: Kind of inputs whose content matters -> the kind under which their digest is stored.
CONTENTS = {"file": "file", "module": "file", "declared": "declared"}
_digests: dict[tuple[Input, object], str] = {}  # digests of files at the time this process read them
REMEDY = (
    "Pass files as settings of type `Path` or in a task's `reads`, import modules with `import` statements, pass "
    "values as settings, and declare files read by child processes or compiled code with "
    "`with bench_core.reads(...)`."
)


def undeclared(stage: Stage, observed: Mapping[Input, Reading], data: Path) -> dict[Input, Reading]:
    """Return the observed inputs that the key of a stage does not cover."""
    if not observed:
        return {}
    code = code_digests().covered(frozenset(stage.roots.values()))
    files = {*stage.places, *_reads(stage, data)}
    files |= {os.path.realpath(path) for path in files if ".." in Path(path).parts}
    _check_unchanged(item.name for item in observed if item.sort == "file" and item.name in code.data)
    declared = {item for item in observed if _is_declared(item, stage, code, files, observed)}
    uncovered = {item: reading for item, reading in observed.items() if item not in declared}
    for item, reading in uncovered.items():
        if item.sort in CONTENTS and item.is_unchanged(reading):
            _digests.setdefault((item, reading.mark), current_digest(CONTENTS[item.sort], item.name))
    return uncovered


def _check_unchanged(paths: Iterable[str]) -> None:
    """Raise PluginError if a data file of a package changed after the code was digested."""
    changed = [path for path in paths if not content_digests.get(path, "").startswith(current_digest("file", path))]
    if changed:
        text = f"{abridged(changed)}: changed since the code of this stage was digested."
        raise PluginError(f"{text} Run the suite again.")


def with_earlier(stage: Stage, inputs: Mapping[Input, Reading], data: Path) -> dict[Input, Reading]:
    """Return undeclared inputs of a stage, including those that its modules read earlier in this process."""
    dynamic = {item.module for item in inputs if item.sort == "module"}
    return {**undeclared(stage, earlier(code_modules(stage) | dynamic), data), **inputs}


def digests(inputs: Mapping[Input, Reading]) -> dict[str, dict[str, str]]:
    """Return the digests of inputs by kind and name; raise PluginError if a file changed since it was read."""
    if changed := [item.name for item, reading in inputs.items() if not _is_same(item, reading)]:
        raise PluginError(
            f"{', '.join(changed[:MAX_NAMES])}: changed after a stage had read it, so nothing was stored. "
            "Run the suite again; a part must not write a file that it reads."
        )
    by_sort: dict[str, dict[str, str]] = {}
    for item, reading in inputs.items():
        for sort, name in _stored_names(item, reading):
            mark = ", ".join(sorted(reading.modules)) if sort == "unobserved" else current_digest(sort, name)
            by_sort.setdefault(sort, {})[name] = mark
    return by_sort


def _is_same(item: Input, reading: Reading) -> bool:
    """Return whether a file is unchanged since it was read, or has the same content."""
    old = _digests.get((item, reading.mark))
    return item.is_unchanged(reading) or old == current_digest(CONTENTS[item.sort], item.name)


def refusal(inputs: Mapping[Input, Reading], strict: bool) -> str:
    """Return why a stage with these inputs is refused; empty if the stage is accepted."""
    if refused := {item: reading for item, reading in inputs.items() if item.sort == "refused"}:
        return f"it read {describe(refused)}, which cannot be read again. Read a file instead, or use a setting."
    hidden = {item: reading for item, reading in inputs.items() if item.sort != "declared"}
    return f"it read {describe(hidden)}, which no cache key covers (--strict). {REMEDY}" if hidden and strict else ""


def warning(inputs: Mapping[Input, Reading]) -> str:
    """Return a warning about inputs that are neither declared nor covered by a key; empty without such inputs."""
    hidden = {item: reading for item, reading in inputs.items() if item.sort == "unobserved"}
    observed = {item: reading for item, reading in inputs.items() if item.sort not in ("unobserved", "declared")}
    texts = []
    if observed:
        reused = "the stored result is reused only while this is unchanged"
        texts.append(f"it read {describe(observed)}, which the cache key does not cover; {reused}")
    if hidden:
        texts.append(f"unobserved: {describe(hidden)}; changes in its inputs are not detected")
    return "; ".join(texts) + "." if texts else ""


def describe(inputs: Mapping[Input, Reading]) -> str:
    """Return a description of the first inputs, with the modules that read them."""
    words: dict[str, list[str]] = {}
    for item, reading in inputs.items():
        names = [described(sort, name) for sort, name in _stored_names(item, reading)]
        words.setdefault(", ".join(sorted(reading.modules)), []).extend(names)
    return "; ".join(f"{abridged(names)}{f' (in {module})' if module else ''}" for module, names in words.items())


def abridged(names: list[str]) -> str:
    """Return the first names and the number of the remaining names, as text."""
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


def _reads(stage: Stage, data: Path) -> Iterator[str]:
    """Yield the paths of data files and pretrained files whose digests are part of the key."""
    for section in ("data", "files"):
        for name in stage.settings.get(section, {}):
            yield str(data.absolute() / name)


def _is_declared(item: Input, stage: Stage, code: Covered, files: set[str], seen: Mapping[Input, Reading]) -> bool:
    """Return whether an input is covered by the key of a stage or by a more specific input."""
    if item.sort in ("unobserved", "refused"):
        return False
    if item.sort == "variable":
        return item.name.startswith(IN_PROVENANCE)
    if item.sort == "library":
        if item.name in sys.stdlib_module_names or ("." not in item.name and code_digests().code.homes(item.name)):
            return True
        providers = distributions(item.name)
        return providers <= {*stage.libraries, *CARRYING_LIBRARIES} if providers else item.name in code.libraries
    if item.name in code.data or (item.sort in ("module", "existence") and item.name in code.files):
        return True
    path = Path(item.name)
    if not files.isdisjoint((item.name, *map(str, path.parents))):
        return True
    if item.sort == "existence" and any(path in Path(file).parents for file in files):
        return True
    others = (Input(sort, item.name) in seen for sort in (*CONTENTS, "listing", "entries", "status"))  # type: ignore[arg-type]
    return item.sort == "existence" and (any(others) or bool(item.module))


def _stored_names(item: Input, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the kind and name under which an artifact records an input."""
    if item.sort == "library":
        yield from ((item.sort, name) for name in distributions(item.name) or {item.name})
    elif item.sort in ("unobserved", "refused", "variable"):
        yield item.sort, item.name
    else:
        yield "file" if item.sort == "module" else item.sort, named(item.name, reading.relative)
