"""The digest of all code that writes reports."""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench_core.registry import hook

SUFFIXES = (".py", ".j2", ".css", ".js")


@cache
def code_digest() -> str:
    """Return the digest of this package, of the core, and of the plugins that draw figures."""
    drawing = (
        implementation.function.__module__.partition(".")[0] for implementation in hook().bench_figure.get_hookimpls()
    )
    whole = hashlib.sha256()
    for name in sorted({"bench_core", "bench_reports", *drawing}):
        spec = find_spec(name)
        home = Path(spec.origin or "").parent if spec else Path(name)
        for path in sorted(path for path in home.rglob("*") if path.suffix in SUFFIXES):
            whole.update(f"{name}/{path.relative_to(home).as_posix()}\n".encode() + path.read_bytes())
    return whole.hexdigest()
