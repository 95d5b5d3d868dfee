"""The map of the code in docs/: every file of the core and of the plugins, by the first line of its docstring.

`python tools/code_map.py` prints it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """<!-- Written by `make schema` from docstrings. Edit those. -->
# The code

What is in every file, by the first line of its docstring. Each layer of the core imports only what stands before
it: interfaces (the files beside the folders), `suites`, `planning`, `storage`, `computing`, `execution`, `runs`,
`commands`. Plugins see the interfaces; reports and exchange also what `suites`, `storage` and `runs` declare in
`PUBLIC`, exchange, which checks keys, what `planning` does, training what `suites`, `planning`, `storage` and
`computing` do, notebook what all layers do, and authors, which tests the interfaces, all of the core. A test holds
this ([`test_layers.py`](../tests/test_layers.py)).
"""
LAYERS = ("", "suites", "planning", "storage", "computing", "execution", "runs", "commands")


def page() -> str:
    """Return docs/code.md."""
    core = ROOT / "bench_core"
    packages = [core / name for name in LAYERS] + sorted(
        [
            *ROOT.glob("plugins/*/bench_*"),
            *ROOT.glob("plugins/*/block_bootstrap"),
            *ROOT.glob("plugins/*/code_digests"),
            *ROOT.glob("plugins/*/input_digests"),
            *ROOT.glob("plugins/*/placed_settings"),
            *ROOT.glob("plugins/*/plain_files"),
            *ROOT.glob("plugins/*/process_watch"),
        ]
    )
    return "\n".join([HEAD, *(line for folder in packages for line in _section(folder, folder != core))])


def _section(folder: Path, whole: bool) -> Iterator[str]:
    """Yield a section about a package, with its subfolders if that is `whole`."""
    yield f"## [`{_name(folder)}/`](../{_name(folder)})\n"
    yield f"{_doc(folder / '__init__.py').partition(chr(10) * 2)[2] or _doc(folder / '__init__.py')}\n"
    yield "| file | what |\n|---|---|"
    files = folder.rglob("*.py") if whole else folder.glob("*.py")
    for path in sorted(files, key=lambda path: (path.parent, path.name)):
        if path.name != "__init__.py":
            first = _doc(path).partition("\n")[0].replace("|", "\\|")
            yield f"| [`{path.relative_to(folder).as_posix()}`](../{_name(path)}) | {first} |"
    yield ""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _doc(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


if __name__ == "__main__":
    sys.stdout.write(page())
