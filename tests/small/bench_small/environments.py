"""Virtual environments that lack what this one has: third parties are linked, those to hide are not."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import files
from pathlib import Path


def environment_without(folder: Path, hidden: Iterable[str], ours: bool = True) -> Path:
    """Make an environment without the distributions `hidden`, and without `ours` if so wished; return its programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    left_out = {path.parts[0] for name in hidden for path in files(name) or ()}
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        is_ours = entry.name.startswith(("bench", "_bench", "__editable__", "_editable")) or entry.suffix == ".pth"
        if entry.name not in left_out and (ours or not is_ours) and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    return folder / "bin"
