"""Create a plugin or a suite from a template."""

import re
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from string import Template

import click

from bench_core.errors import SuiteError
from bench_core.terminal import say

TEMPLATES = Path(__file__).parent / "templates"
PARTS = ("model", "decoder", "task", "metric", "processor")
NEEDS = {"task": ["bench-text"], "processor": ["bench-decoders"]}
RESERVED_NAMES = (
    "ExampleMetric", "False", "LanguageModel", "None", "Processor", "SequenceTask", "StepDecoder", "True",
)  # fmt: skip
NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MAX_NAME_CHARACTERS = 30  # keeps generated lines short


@click.command()
@click.argument("kind", type=click.Choice([*PARTS, "suite"]))
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder to create it in [default: the current one].",
)
def command(kind: str, name: str, folder: Path) -> None:
    """Create a plugin with one working part and its tests, or a suite that runs.

    Replace the simple example implementation with your own.
    """
    name = name.removeprefix("bench-")
    _check_name(name)
    written = new_suite(name, folder) if kind == "suite" else new_plugin(kind, name, folder)
    say(_suite_steps(written) if kind == "suite" else _plugin_steps(kind, name, written))


def _check_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise SuiteError(
            f"{name[: MAX_NAME_CHARACTERS + 1]!r} is not a valid name. Use lowercase letters and digits, joined "
            f"by -, such as small-lstm, with at most {MAX_NAME_CHARACTERS} characters."
        )


def new_plugin(kind: str, name: str, folder: Path) -> Path:
    """Create a distribution with one part; return its new folder. Raise SuiteError if the name is taken."""
    from bench_core.kit.configs import conventional_name
    from bench_core.registry import parts

    package = f"bench_{name.replace('-', '_')}"
    for part in parts(kind).values():
        if part.config.name == name:
            raise SuiteError(
                f"a {kind} called {name!r} is already installed (by {part.distribution}). Choose another name."
            )
    if find_spec(package):
        raise SuiteError(f"a package called {package!r} is already installed. Choose another name.")
    stem = class_name(name)
    needed = [f"{ours}{_compatible(version(ours))}" for ours in ("bench-core", *NEEDS.get(kind, ()))]
    words = {
        "part": name,
        "distribution": f"bench-{name}",
        "package": package,
        "class_name": stem,
        "naming": "" if conventional_name(stem) == name else f'\n    name = "{name}"',
        "authors": f"bench-authors{_compatible(version('bench-authors'))}",
        "dependencies": ", ".join(f'"{requirement}"' for requirement in (*needed, "torch")),
    }
    return _write(folder / f"bench-{name}", _files(kind, words))


def new_suite(name: str, folder: Path) -> Path:
    """Create a suite file and return its path; raise SuiteError if it exists."""
    return _write(folder, {f"{name}.yaml": _fill("suite.yaml.tmpl", {"part": name})}, new=False) / f"{name}.yaml"


def class_name(name: str) -> str:
    """Return a class name, such as `SmallLstm`, that differs from Python keywords and the base classes."""
    stem = "".join(word.capitalize() for word in name.split("-"))
    return f"My{stem}" if stem in RESERVED_NAMES else stem


def _compatible(release: str) -> str:
    """Return the range of versions that are compatible with a release."""
    major, minor = map(int, release.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def _files(kind: str, words: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of a distribution's files by path."""
    package = words["package"]
    places = {"test.py": f"tests/test_{package.removeprefix('bench_')}.py"}
    names = [path.name.removesuffix(".tmpl") for path in sorted((TEMPLATES / kind).iterdir())]
    files = {places.get(name, f"{package}/{name}"): _fill(f"{kind}/{name}.tmpl", words) for name in names}
    return {"pyproject.toml": _fill("pyproject.toml.tmpl", words), **files}


def _fill(template: str, words: Mapping[str, str]) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)


def _write(folder: Path, files: Mapping[str, str], new: bool = True) -> Path:
    """Write files to a folder, which must not exist if `new`; raise SuiteError if a file exists."""
    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=not new)
        for name, text in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        raise SuiteError(f"{place} already exists. Choose another name, or a --folder.") from None
    except OSError as error:
        raise SuiteError(f"{place}: cannot be written ({error.strerror}). Choose another --folder.") from None
    return folder


def _plugin_steps(kind: str, name: str, folder: Path) -> str:
    package = folder / f"bench_{name.replace('-', '_')}"
    use = f"{kind}s.{name}={{name: {name}}}" if kind != "processor" else f"decoders.DECODER.processors=[{name}]"
    return f"""{folder} is a distribution with the {kind} {name!r}. Next steps:

    python -m pip install -e '{folder}[test]'    # without a network, add --no-build-isolation --no-deps
    python -m pytest {folder}
    bench describe {kind} {name}
    bench run SUITE --set '{use}'

Then write your own {kind} in {package}; docs/tutorial.md shows how."""


def _suite_steps(path: Path) -> str:
    return f"""{path} is a suite. Next steps:

    bench check {path}
    bench plan {path}
    bench run {path}"""
