"""`bench new KIND NAME`"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from string import Template

import click

from bench_core.terminal import say

TEMPLATES = Path(__file__).parent / "templates"
PARTS = ("model", "decoder", "task", "metric")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 30  # letters of a name, so that no line becomes too long


@click.command()
@click.argument("kind", type=click.Choice([*PARTS, "suite"]))
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(), help="Where it is put [default: here].")
def command(kind: str, name: str, folder: Path) -> None:
    """Write a plugin with one part that works, and tests that pass: or a suite that runs.

    What it does is simple, and to be replaced by what yours does.
    """
    name = name.removeprefix("bench-")
    _check_name(name)
    written = new_suite(name, folder) if kind == "suite" else new_plugin(kind, name, folder)
    say(_suite_steps(written) if kind == "suite" else _plugin_steps(kind, name, written))


def _check_name(name: str) -> None:
    from bench_core.errors import SuiteError

    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise SuiteError(
            f"{name[: LONGEST + 1]!r} is no name. Write words of small letters and digits joined by -, such as "
            f"small-lstm, with {LONGEST} signs at most."
        )


def new_plugin(kind: str, name: str, folder: Path) -> Path:
    """Write a distribution with one part into a new folder, and return that; raise SuiteError for a name in use."""
    from bench_core.errors import SuiteError
    from bench_core.registry import parts

    package = f"bench_{name.replace('-', '_')}"
    known = parts(kind)
    if name in known:
        raise SuiteError(
            f"a {kind} called {name!r} is installed already, by {known[name].distribution}. Name another."
        )
    if find_spec(package):
        raise SuiteError(f"a package called {package!r} is installed already. Name another.")
    words = {
        "kind": kind,
        "part": name,
        "distribution": f"bench-{name}",
        "package": package,
        "class_name": class_name(kind, name),
        "core": _compatible(version("bench-core")),
    }
    return _write(folder / f"bench-{name}", _files(kind, words))


def new_suite(name: str, folder: Path) -> Path:
    """Write a suite file and return its path; raise SuiteError if there is one."""
    return _write(folder, {f"{name}.yaml": _filled("suite.yaml.tmpl", {"part": name})}, new=False) / f"{name}.yaml"


def class_name(kind: str, name: str) -> str:
    """Return what a class is called, such as `SmallLstmModel`, which no name of the core can be."""
    words = [word.capitalize() for word in name.split("-")]
    return "".join(words if words[-1] == kind.capitalize() and len(words) > 1 else [*words, kind.capitalize()])


def _compatible(release: str) -> str:
    """Return the releases that a plugin written for one may hope to work with."""
    major, minor = map(int, release.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def _files(kind: str, words: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file of a distribution."""
    package = words["package"]
    return {
        "pyproject.toml": _filled("pyproject.toml.tmpl", words),
        "README.md": _filled("README.md.tmpl", words),
        f"{package}/__init__.py": f'"""The {kind} {words["part"]} for bench."""\n',
        f"{package}/py.typed": "",
        f"{package}/plugin.py": _filled(f"{kind}/plugin.py.tmpl", words),
        f"{package}/{kind}.py": _filled(f"{kind}/{kind}.py.tmpl", words),
        f"tests/test_{package.removeprefix('bench_')}.py": _filled(f"{kind}/test.py.tmpl", words),
    }


def _filled(template: str, words: Mapping[str, str]) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)


def _write(folder: Path, files: Mapping[str, str], new: bool = True) -> Path:
    """Write files into a folder, by default a new one; raise SuiteError rather than change what is there."""
    from bench_core.errors import SuiteError

    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=not new)
        for name, text in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        raise SuiteError(
            f"{place} is there already, and nothing is written over. Name another, or a --folder."
        ) from None
    except OSError as error:
        raise SuiteError(f"{place}: cannot be written ({error.strerror}). Name another place by --folder.") from None
    return folder


def _plugin_steps(kind: str, name: str, folder: Path) -> str:
    module = folder / f"bench_{name.replace('-', '_')}" / f"{kind}.py"
    return f"""{folder} is a distribution with the {kind} {name!r}. What to do next:

    python -m pip install -e '{folder}[test]'    # without a network, add --no-build-isolation --no-deps
    python -m pytest {folder}
    bench describe {kind} {name}
    bench run SUITE --set '{kind}s.{name}={{name: {name}}}'

Then write your own {kind} into {module}, and its settings into plugin.py."""


def _suite_steps(path: Path) -> str:
    return f"""{path} is a suite. What to do next:

    bench check {path}
    bench plan {path}
    bench run {path}"""
