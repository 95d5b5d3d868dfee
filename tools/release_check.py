"""Check that a release can be made: versions agree, wheels build and are whole, the changelog has the version."""

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
    """Yield what is wrong with the files."""
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
        yield f"CITATION.cff does not say 'version: {version}'."
    for name in ("LICENSE", "SECURITY.md", "Dockerfile", ".github/workflows/test.yml"):
        if not (ROOT / name).is_file():
            yield f"{name} is missing."


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    found = list(problems())
    with tempfile.TemporaryDirectory() as folder:
        wheels.main(Path(folder) / "dist")
        files = sorted(map(str, (Path(folder) / "dist").glob("*.whl")))
        checked = subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
        )
        if checked.returncode:
            found.append(f"twine check: {checked.stdout}{checked.stderr}")
    print("\n".join(found) or f"{len(files)} wheels of {projects()['bench-core'].version} can be released.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
