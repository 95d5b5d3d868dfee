"""Print the folders of tests that a change affects: of each changed distribution and of those that require it.

`python tools/affected.py [COMMIT]` compares the working tree with a commit, by default the last one before the newest
landing on the main branch, whose commits are made within some hours. Without such a commit, as in a shallow clone,
all folders are printed. `tests/` tries all distributions together and is always printed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from projects import META, ROOT, Project, projects, split

CORE = "bench-core"
MAIN = ("origin/main", "main")
LANDING = 12 * 3600  # seconds within which the commits of a landing are made
SHARED = ("conftest.py", "constraints.txt", "tests/small/")  # which tests of all distributions use


def folders(changed: Iterable[str] | None) -> list[str]:
    """Return the folders of tests that changed files affect, all if `changed` is None."""
    known = projects()
    affected = set(known) if changed is None else _affected(changed, known)
    found = (known[name].folder / "tests" for name in sorted(affected - {CORE, META}))
    return ["tests", *(folder.relative_to(ROOT).as_posix() for folder in found if folder.is_dir())]


def _affected(changed: Iterable[str], known: dict[str, Project]) -> set[str]:
    """Return the distributions with changed tests, and those that use changed code of their own or of others."""
    tested: set[str] = set()
    code: set[str] = set()
    for name in changed:
        owner = _owner(name, known)
        if name.startswith(SHARED):
            return set(known)
        if owner is not None:
            (tested if "/tests/" in f"/{name}" else code).add(owner)
    return tested | {name for name in known if code & {name, *_required(name, known)}}


def _owner(name: str, known: dict[str, Project]) -> str | None:
    """Return the distribution whose file that is; None if no tests but those in `tests/` look at it."""
    if name.startswith("bench_core/") or name == "pyproject.toml":
        return CORE
    return next((one.name for one in known.values() if name.startswith(f"plugins/{one.folder.name}/")), None)


def _required(name: str, known: dict[str, Project]) -> set[str]:
    """Return the distributions of this repository that one requires, with or without extras, in turn."""
    found, left = set[str](), [name]
    while left:
        project = known[left.pop()]
        others = {split(requirement)[0] for requirement in project.requires(project.extras)}
        left += (others & known.keys()) - found
        found |= others & known.keys()
    return found


def changed_files(since: str | None = None) -> list[str] | None:
    """Return the files that differ from a commit, or from that before the last landing; None if it is not known."""
    since = since or _before_last_landing()
    names = _git("diff", "--name-only", "--no-renames", since, "--") if since else None
    new = _git("ls-files", "--others", "--exclude-standard")
    return None if names is None or new is None else [*names.splitlines(), *new.splitlines()]


def _before_last_landing() -> str | None:
    bases = (_git("merge-base", "HEAD", branch) for branch in MAIN)
    last = next(filter(None, bases), "HEAD").strip()
    made = int(_git("show", "--no-patch", "--format=%ct", last) or 0)
    found = _git("rev-list", "--max-count=1", f"--min-age={made - LANDING}", last)
    return found.strip() or None if found else None


def _git(*words: str) -> str | None:
    """Return what git prints; None if it fails or is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def main() -> None:
    """Print the folders on one line."""
    print(*folders(changed_files(*sys.argv[1:2])))


if __name__ == "__main__":
    main()
