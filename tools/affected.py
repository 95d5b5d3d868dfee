"""Print the test folders of the distributions that a change affects: changed distributions and all that require them.

`python tools/affected.py [COMMIT]` compares the working tree with a commit, by default the last commit before the
newest batch of commits on the main branch. Without such a commit, e.g. in a shallow clone, all folders are printed.
`tests/` tests all distributions together and is always printed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from projects import META, ROOT, Project, projects, split

CORE = "bench-core"
MAIN = ("origin/main", "main")
BATCH_SECONDS = 12 * 3600  # maximum time between the first and the last commit of a batch
SHARED = ("conftest.py", "constraints.txt", "tests/small/")  # used by the tests of all distributions


def folders(changed: Iterable[str] | None) -> list[str]:
    """Return the test folders affected by changed files; all folders if `changed` is None."""
    ours = projects()
    affected = set(ours) if changed is None else _affected(changed, ours)
    tests = (ours[name].folder / "tests" for name in sorted(affected - {CORE, META}))
    return ["tests", *(folder.relative_to(ROOT).as_posix() for folder in tests if folder.is_dir())]


def _affected(changed: Iterable[str], ours: dict[str, Project]) -> set[str]:
    """Return the distributions whose tests changed, and the distributions that contain or require changed code."""
    tested: set[str] = set()
    code: set[str] = set()
    for name in changed:
        owner = _owner(name, ours)
        if name.startswith(SHARED):
            return set(ours)
        if owner is not None:
            (tested if "/tests/" in f"/{name}" else code).add(owner)
    return tested | {name for name in ours if code & {name, *_required(name, ours)}}


def _owner(name: str, ours: dict[str, Project]) -> str | None:
    """Return the distribution that contains a file; None if only the tests in `tests/` cover it."""
    if name.startswith("bench_core/") or name == "pyproject.toml":
        return CORE
    return next((each.name for each in ours.values() if name.startswith(f"plugins/{each.folder.name}/")), None)


def _required(name: str, ours: dict[str, Project]) -> set[str]:
    """Return the distributions of this repository that a distribution requires, even indirectly or by extras."""
    required, queue = set[str](), [name]
    while queue:
        project = ours[queue.pop()]
        others = {split(requirement)[0] for requirement in project.requires(project.extras)}
        queue += (others & ours.keys()) - required
        required |= others & ours.keys()
    return required


def changed_files(since: str | None = None) -> list[str] | None:
    """Return the files changed since a commit, by default the last before the newest batch; None if it is unknown."""
    since = since or _before_last_batch()
    names = _git("diff", "--name-only", "--no-renames", since, "--") if since else None
    new = _git("ls-files", "--others", "--exclude-standard")
    return None if names is None or new is None else [*names.splitlines(), *new.splitlines()]


def _before_last_batch() -> str | None:
    bases = (_git("merge-base", "HEAD", branch) for branch in MAIN)
    last = next(filter(None, bases), "HEAD").strip()
    newest = int(_git("show", "--no-patch", "--format=%ct", last) or 0)
    before = _git("rev-list", "--max-count=1", f"--min-age={newest - BATCH_SECONDS}", last)
    return before.strip() or None if before else None


def _git(*words: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    try:
        result = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout if result.returncode == 0 else None


def main() -> None:
    """Print the folders on one line."""
    print(*folders(changed_files(*sys.argv[1:2])))


if __name__ == "__main__":
    main()
