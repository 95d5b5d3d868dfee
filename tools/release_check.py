"""Check the preconditions of a release: consistent versions, valid wheels, an entry in the changelog."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import wheels
from projects import ROOT, projects, split


def problems() -> Iterator[str]:
    """Yield problems with the files of the repository."""
    ours = projects()
    version = ours["bench-core"].version
    for project in ours.values():
        if project.version != version:
            yield f"{project.name} has version {project.version}, bench-core {version}."
        for requirement in project.requires(project.extras):
            name, _, rest = split(requirement)
            if name in ours and rest != f"=={version}":
                yield f"{project.name} requires {requirement!r}, which should be {name}=={version}."
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M):
        yield f"CHANGELOG.md has no section '## {version}'."
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text("utf-8"):
        yield f"CITATION.cff does not contain 'version: {version}'."
    for name in ("LICENSE", "SECURITY.md", "Dockerfile", ".github/workflows/test.yml"):
        if not (ROOT / name).is_file():
            yield f"{name} is missing."


def main() -> int:
    """Print the problems; return 1 if there are any."""
    errors = list(problems())
    with tempfile.TemporaryDirectory() as folder:
        wheels.main(Path(folder) / "dist")
        files = sorted(map(str, (Path(folder) / "dist").glob("*.whl")))
        result = subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
        )
        if result.returncode:
            errors.append(f"twine check: {result.stdout}{result.stderr}")
    print("\n".join(errors) or f"{len(files)} wheels of {projects()['bench-core'].version} are ready for release.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
