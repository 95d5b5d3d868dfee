"""Generate the code map in docs/: every file of the core and the plugins with the first line of its docstring.

Run `python tools/code_map.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import split_pages
from split_pages import anchor

ROOT = Path(__file__).parent.parent
HEAD = """<!-- Written by `make schema` from docstrings. Edit those. -->
# The code

Every file with the first line of its docstring. A layer of the core imports only from layers to its left: interfaces
(the files at the top level of `bench_core`), `suites`, `planning`, `storage`, `computing`, `execution`, `runs`,
`commands`. Plugins import only the interfaces, except for

- `bench_reports`: also `suites`, `storage` and `runs`,
- `bench_exchange`: these and `planning`,
- `bench_upkeep`: these, `planning` and `execution`,
- `bench_notebook` and `bench_training`: all layers except `commands`,

each limited to the modules that a layer lists in `PUBLIC`, and `bench_authors`, which tests the interfaces and may
import the whole core. [`test_layers.py`](../tests/test_layers.py) enforces these rules.
"""
LIBRARIES = ("block_bootstrap", "code_digests", "input_digests", "placed_settings", "plain_files", "process_watch")
LAYERS = ("", "suites", "planning", "storage", "computing", "execution", "runs", "commands")


def pages() -> dict[str, str]:
    """Return the index docs/code.md, and a page in docs/code/ for each folder of the core and each plugin."""
    core = ROOT / "bench_core"
    packages = [core / name for name in LAYERS] + sorted(
        path for name in ("bench_*", *LIBRARIES) for path in ROOT.glob(f"plugins/*/{name}")
    )
    index = [f"| [`{_name(folder)}/`](#{anchor(_name(folder) + '/')}) | {_purpose(folder)} |" for folder in packages]
    sections = [line for folder in packages for line in _section(folder, folder != core)]
    text = "\n".join([HEAD, "| folder | content |\n|---|---|", *index, "", *sections])
    return split_pages.split(text, "code", lambda heading: heading.split("`")[1].strip("/").rpartition("/")[2])


def _purpose(folder: Path) -> str:
    return _doc(folder / "__init__.py").partition("\n")[0].replace("|", "\\|")


def _section(folder: Path, whole: bool) -> Iterator[str]:
    """Yield the section of a package, with its subfolders if `whole`."""
    yield f"## [`{_name(folder)}/`](../{_name(folder)})\n"
    yield f"{_doc(folder / '__init__.py').partition(chr(10) * 2)[2] or _doc(folder / '__init__.py')}\n"
    yield "| file | content |\n|---|---|"
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
    split_pages.write(pages())
