"""Ways in which parts of a user's own package reach files, modules and variables that no setting names.

A case is a small package and what it reaches. Text in files has `HERE` for the folder of the case, which is the working
directory, and `PORT` for the port of a server; packages are in `site/`. What a part reaches is called `reached`, so that
messages can be searched for it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

Content: TypeAlias = str | Callable[[float], bytes]  # text that has the number in it, or bytes made from the number

BEFORE, AFTER = 1.0, 2.0

OBSERVED = "observed"  # the number after the edit is the new one
EITHER = "either"  # the new one, or the part is refused by name, perhaps from the first run on
UNOBSERVED = "unobserved"  # as before, or both runs warn by name


@dataclass(frozen=True)
class Case:
    """A part that gives a number, and an edit after which it gives another one."""

    name: str
    files: Mapping[str, Content]  # by path
    suite: str
    edit: Callable[[Path], None]
    links: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str | None] = field(default_factory=dict)  # environment variables
    after: Mapping[str, str | None] = field(default_factory=dict)
    stdin: tuple[str, str] = ("", "")
    answers: tuple[float, float] = (BEFORE, AFTER)
    expected: str = OBSERVED
    steady: bool = True  # whether a second run without an edit computes nothing
    reached: str = "reached"  # a pattern of what warnings and refusals name
    needs: tuple[str, ...] = ()  # modules and programs without which it is skipped
    slow: bool = False
    forgotten: tuple[str, ...] = ()  # modules that another test may have imported, and that this one has its own of

    def write(self, here: Path, port: int) -> None:
        """Write the package, the suite and what they read."""
        for name, content in self.files.items():
            path = here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(filled(content, here, port) if isinstance(content, str) else content(BEFORE))
            if path.parent.name == "bin":
                path.chmod(0o755)
        for name, target in self.links.items():
            (here / name).symlink_to(target)
        (here / "suite.yaml").write_bytes(filled(dedent(self.suite), here, port))


def filled(text: str, here: Path, port: int) -> bytes:
    """Return a text with what it has places for."""
    return text.replace("HERE", str(here)).replace("PORT", str(port)).encode()


SUITE = """
    suite: inputs
    tasks:
      one: {name: references, references: [references.txt]}
    models:
      system: {name: recorded, outputs: outputs.txt}
    decoders:
      recorded: {name: as-recorded}
    metrics:
      mine: {name: mine}
    hardware: {threads: 1, device: cpu}
"""

METRIC = """
from bench_core import MetricConfig, hookimpl


class MineConfig(MetricConfig):
    name, target = "mine", "bench_mine.parts:Mine"


@hookimpl
def bench_metrics():
    return [MineConfig]
"""

MEASURE = """

from bench_core import Metric


class Mine(Metric):
    better, unit, signature = 1, "", ""

    def measure(self, predictions):
        return [float(number()) for _ in predictions]

    def combine(self, parts):
        return sum(parts) / len(parts)
"""

READ = """
from bench_core import Metric


class Read(Metric):
    better, unit, signature = 1, "", ""

    def measure(self, predictions):
        return [float(one.{what}[0]) for one in predictions]

    def combine(self, parts):
        return sum(parts) / len(parts)
"""

DECODER = """
from bench_core import DecoderConfig, MetricConfig, hookimpl
from bench_recorded.plugin import Recorded


class MineConfig(DecoderConfig):
    name, target, needs = "mine", "bench_mine.parts:Mine", Recorded


class ReadConfig(MetricConfig):
    name, target = "read", "bench_mine.reading:Read"


@hookimpl
def bench_decoders():
    return [MineConfig]


@hookimpl
def bench_metrics():
    return [ReadConfig]
"""

DECODE = """

from bench_core import Hypothesis, TextDecoder


class Mine(TextDecoder):
    def decode_texts(self, model, prompts, generation):
        return [[Hypothesis([], True, text=str(float(number())))] for _ in prompts]
"""

MODEL = """
from bench_core import DecoderConfig, MetricConfig, ModelConfig, TextGenerator, hookimpl


class Written(TextGenerator):
    pass


class MineConfig(ModelConfig):
    name, target = "mine", "bench_mine.parts:Mine"
    capabilities = {Written}

    def seeds(self, asked):
        return asked[:1]


class WriteConfig(DecoderConfig):
    name, target, needs = "write", "bench_core:TextDecoder", Written
    times: int = 1


class ReadConfig(MetricConfig):
    name, target = "read", "bench_mine.reading:Read"


@hookimpl
def bench_models():
    return [MineConfig]


@hookimpl
def bench_decoders():
    return [WriteConfig]


@hookimpl
def bench_metrics():
    return [ReadConfig]
"""

GENERATE = """

from torch import nn

from bench_core import Hypothesis
from bench_mine.plugin import Written


class Mine(nn.Module, Written):
    def __init__(self, config, info):
        super().__init__()
        self.config = config
        self.number = BUILT

    def generate(self, prompts, generation):
        return [[Hypothesis([], True, text=str(float(GENERATED)))] for _ in prompts]
"""

TASK = """
from bench_core import MetricConfig, Purpose, TaskConfig, hookimpl


class MineConfig(TaskConfig):
    name, target = "mine", "bench_mine.parts:Mine"

    def purposes(self, split):
        return {Purpose.DECODE} if split == "test" else set()


class ReadConfig(MetricConfig):
    name, target = "read", "bench_mine.reading:Read"


@hookimpl
def bench_tasks():
    return [MineConfig]


@hookimpl
def bench_metrics():
    return [ReadConfig]
"""

PREPARE = """

import torch

from bench_core import STOP, Batch, Task, TaskInfo


class Mine(Task):
    def prepare(self, data):
        (self.folder / "number.txt").write_text(str(float(PREPARED)))
        return TaskInfo(["<stop>"])

    def batches(self, split, purpose, size, noise=None):
        stops = torch.full((1, 1), STOP)
        yield Batch(torch.arange(1), stops, stops, torch.ones(1, dtype=torch.long))

    def text(self, tokens):
        return ""

    def references(self, split):
        return {0: [str(float(REFERRED))]}
"""
KEPT = '(self.folder / "number.txt").read_text()'

TRAINED = """
from bench_core import DecoderConfig, MetricConfig, ModelConfig, Sampler, TaskConfig, hookimpl


class OneConfig(TaskConfig):
    name, target = "one", "bench_mine.task:One"


class MineConfig(ModelConfig):
    name, target = "mine", "bench_mine.parts:Mine"
    capabilities = {Sampler}


class SampleConfig(DecoderConfig):
    name, target, needs = "one-sample", "bench_mine.task:Sample", Sampler


class SizeConfig(MetricConfig):
    name, target = "size", "bench_mine.task:Size"


@hookimpl
def bench_tasks():
    return [OneConfig]


@hookimpl
def bench_models():
    return [MineConfig]


@hookimpl
def bench_decoders():
    return [SampleConfig]


@hookimpl
def bench_metrics():
    return [SizeConfig]
"""

TRAINED_TASK = """
import torch

from bench_core import Batch, Decoder, Metric, Task, TaskInfo


class One(Task):
    def prepare(self, data):
        return TaskInfo(["<stop>", "a"])

    def batches(self, split, purpose, size, noise=None):
        yield Batch(torch.arange(1), torch.zeros(1, 1).long(), torch.tensor([[1, 0]]), torch.tensor([2]))

    def text(self, tokens):
        return "a" * len(tokens)

    def references(self, split):
        return {0: ["a"]}


class Sample(Decoder):
    def decode(self, model, batch, noise):
        return [[one] for one in model.sample(batch, self.config.max_tokens, noise)]


class Size(Metric):
    better, unit, signature = 1, "", ""

    def measure(self, predictions):
        return [float(len(one.texts[0])) for one in predictions]

    def combine(self, parts):
        return sum(parts) / len(parts)
"""

TRAIN = """

import torch
from torch import nn

from bench_core import Hypothesis, Loss, Sampler


class Mine(nn.Module, Sampler):
    def __init__(self, config, info):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("size", torch.zeros(()))

    def METHOD:
        self.size.fill_(float(number()))

    def sample(self, batch, max_tokens, noise):
        return [Hypothesis([1] * round(self.size.item()), True) for _ in range(len(batch))]
"""
LOSS = """
    def loss(self, batch, training):
        return Loss((self.weight - 1) ** 2, batch.mask.sum())
"""
TRAINED_SUITE = """
    suite: inputs
    tasks:
      one: {name: one}
    models:
      mine: {name: mine}
    decoders:
      sample: {name: one-sample}
    metrics:
      size: {name: size}
    training: {epochs: 1, batch_size: 1, lr: 0.1}
    limits: {max_tokens: 4}
    hardware: {threads: 1, device: cpu}
"""

CASES: list[Case] = []  # each has a number that is the old one where an input escapes
NAMED: list[str] = []  # of those, the idioms that were found to escape
VARIABLES: list[Case] = []
BAD: list[Case] = []
HARMLESS: list[Case] = []  # after whose edit nothing is computed


def package(plugin: str, parts: str, **modules: str) -> dict[str, Content]:
    """Return the files of the user's package."""
    named = {
        f"site/bench_mine/{name}.py": text for name, text in {"plugin": plugin, "parts": parts, **modules}.items()
    }
    return {"site/bench_mine/__init__.py": "", **named, "references.txt": "a\n", "outputs.txt": "a\n"}


def changed(files: Mapping[str, Content]) -> Callable[[Path], None]:
    """Return an edit that puts 2.0 in place of 1.0 in all files of a case."""

    def edit(here: Path) -> None:
        for name, content in files.items():
            path = here / name
            if not isinstance(content, str):
                path.write_bytes(content(AFTER))
            elif "1.0" in content:
                path.write_text(path.read_text().replace("1.0", "2.0"))

    return edit


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return an edit of a text in a file."""

    def edit(here: Path) -> None:
        text = (here / name).read_text()
        assert text.count(old) == 1, name
        (here / name).write_text(text.replace(old, new))

    return edit


def written(name: str, text: str) -> Callable[[Path], None]:
    """Return an edit that writes a file."""

    def edit(here: Path) -> None:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)

    return edit


def unedited(here: Path) -> None:
    """Edit nothing."""


def case(
    name: str,
    own: Mapping[str, Content],
    files: Mapping[str, Content],
    suite: str = SUITE,
    edit: Callable[[Path], None] | None = None,
    to: list[Case] = CASES,
    **rest: Any,
) -> None:
    """Add a case whose edit is by default that of all numbers in the files that its package reaches."""
    prepared = {path: dedent(content) if isinstance(content, str) else content for path, content in files.items()}
    to.append(Case(name, {**own, **prepared}, suite, edit or changed(prepared), **rest))


def metric(
    name: str,
    code: str,
    files: Mapping[str, Content] | None = None,
    plugin: str = METRIC,
    measure: str = MEASURE,
    **rest: Any,
) -> None:
    """Add a metric whose score is `number()`."""
    case(name, package(plugin, dedent(code).strip() + "\n" + measure), files or {}, **rest)


def named(name: str, code: str, files: Mapping[str, Content] | None = None, **rest: Any) -> None:
    """Add one of the idioms that were found to escape."""
    NAMED.append(name)
    metric(name, code, files, **rest)


def decoder(
    name: str, code: str, files: Mapping[str, Content], reading: str = READ.format(what="texts"), **rest: Any
) -> None:
    """Add a decoder that writes `number()`."""
    suite = SUITE.replace("recorded: {name: as-recorded}", "mine: {name: mine}")
    suite = suite.replace("mine: {name: mine}\n    hardware", "read: {name: read}\n    hardware")
    own = package(DECODER, dedent(code).strip() + DECODE, reading=reading)
    case(name, own, files, suite, **rest)


def model(name: str, code: str, files: Mapping[str, Content], built: str, generated: str, **rest: Any) -> None:
    """Add a model that writes a number, for two decoders."""
    suite = SUITE.replace("system: {name: recorded, outputs: outputs.txt}", "mine: {name: mine}")
    suite = suite.replace(
        "recorded: {name: as-recorded}", "write: {name: write}\n      twice: {name: write, times: 2}"
    )
    suite = suite.replace("mine: {name: mine}\n    hardware", "read: {name: read}\n    hardware")
    parts = dedent(code).strip() + GENERATE.replace("BUILT", built).replace("GENERATED", generated)
    case(name, package(MODEL, parts, reading=READ.format(what="texts")), files, suite, **rest)


def task(
    name: str, code: str, files: Mapping[str, Content], prepared: str, referred: str = KEPT, **rest: Any
) -> None:
    """Add a task whose reference is a number."""
    suite = SUITE.replace("one: {name: references, references: [references.txt]}", "mine: {name: mine}")
    suite = suite.replace("mine: {name: mine}\n    hardware", "read: {name: read}\n    hardware")
    parts = dedent(code).strip() + PREPARE.replace("PREPARED", prepared).replace("REFERRED", referred)
    case(name, package(TASK, parts, reading=READ.format(what="references")), files, suite, **rest)


def trained(name: str, code: str, files: Mapping[str, Content], method: str, **rest: Any) -> None:
    """Add a model that is trained, and whose samples are of a size that a method reads."""
    parts = dedent(code).strip() + TRAIN.replace("METHOD", method)
    if method.startswith("loss"):
        parts += LOSS.replace("def loss(self", "def _loss(self")
        parts = parts.replace(
            "fill_(float(number()))\n", "fill_(float(number()))\n        return self._loss(batch, training)\n"
        )
    else:
        parts += LOSS
    case(name, package(TRAINED, parts, task=TRAINED_TASK), files, TRAINED_SUITE, **rest)


def variable(
    name: str, code: str, key: str = "REACHED", values: tuple[Any, Any] = ("1.0", "2.0"), **rest: Any
) -> None:
    """Add a metric whose score depends on an environment variable."""
    to = rest.pop("to", VARIABLES)
    metric(name, code, rest.pop("files", None), to=to, before={key: values[0]}, after={key: values[1]},
           **{"reached": key, **rest})  # fmt: skip


# --- the idioms that were found to escape

TEXT = {"reached.txt": "1.0"}

named(
    "a relative path",
    """
    def number():
        with open("reached.txt") as file:
            return file.read()
    """,
    TEXT,
)
own = package(
    METRIC.replace('Mine"\n', 'Mine"\n    words: str\n', 1),
    MEASURE.replace("number()", "open(self.config.words).read()"),
)
NAMED.append("a setting that is the text of a path")
case(NAMED[-1], own, TEXT, SUITE.replace("{name: mine}", "{name: mine, words: reached.txt}"))
named(
    "the file of a sibling package",
    """
    from pathlib import Path

    import mine_reached


    def number():
        return (Path(mine_reached.__file__).parent / "reached.txt").read_text()
    """,
    {"site/mine_reached/__init__.py": "", "site/mine_reached/reached.txt": "1.0"},
)
named(
    "the path of a package",
    """
    from pathlib import Path

    import mine_reached


    def number():
        (folder,) = mine_reached.__path__
        return Path(folder, "reached.txt").read_text()
    """,
    {"site/mine_reached/__init__.py": "", "site/mine_reached/reached.txt": "1.0"},
)
named(
    "a file beside the class that inspect finds",
    """
    import inspect
    from pathlib import Path

    from mine_reached.shapes import Shape


    def number():
        return Path(inspect.getfile(Shape)).with_name("reached.txt").read_text()
    """,
    {
        "site/mine_reached/__init__.py": "",
        "site/mine_reached/shapes.py": "class Shape:\n    pass\n",
        "site/mine_reached/reached.txt": "1.0",
    },
)
named(
    "a file of a distribution",
    """
    from importlib.metadata import distribution


    def number():
        return distribution("mine-reached").read_text("reached.txt")
    """,
    {
        "site/mine_reached-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine-reached\nVersion: 1\n",
        "site/mine_reached-1.dist-info/reached.txt": "1.0",
    },
)
HELPER = "def number():\n    return 1.0\n"
named(
    "import_module of a relative name",
    """
    from importlib import import_module


    def number():
        return import_module(".reached", __package__).number()
    """,
    {"site/bench_mine/reached.py": HELPER},
)
named(
    "import_module under another name",
    """
    from importlib import import_module as load


    def number():
        return load("bench_mine." + "reached").number()
    """,
    {"site/bench_mine/reached.py": HELPER},
)
named(
    "pydoc.locate",
    """
    import json
    import pydoc


    def number():
        target = json.loads('{"_target_": "mine_reached.helping.number"}')["_target_"]
        return pydoc.locate(".".join(target.split(".")))()
    """,
    {"site/mine_reached/__init__.py": "", "site/mine_reached/helping.py": HELPER},
)
named(
    "an entry point of another group",
    """
    from importlib.metadata import entry_points


    def number():
        (found,) = entry_points(group="mine.numbers")
        return found.load()()
    """,
    {
        "site/mine_reached.py": HELPER,
        "site/mine_reached-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine-reached\nVersion: 1\n",
        "site/mine_reached-1.dist-info/entry_points.txt": "[mine.numbers]\none = mine_reached:number\n",
    },
    edit=replaced("site/mine_reached.py", "1.0", "2.0"),
)
named(
    "a wrapped function in an assignment",
    """
    import bench_mine.reached  # which wires what is looked up
    from bench_mine.table import TABLE


    def number():
        return TABLE["one"]()
    """,
    {
        "site/bench_mine/table.py": "TABLE = {}\n\n\ndef wire(name, f):\n    TABLE[name] = f\n    return f\n",
        "site/bench_mine/reached.py": """
            from bench_mine.table import wire


            def _one():
                return 1.0


            _g = wire("one", _one)
        """,
    },
)
named(
    "a spec from a file beside this one",
    """
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path


    def number():
        spec = spec_from_file_location("reached", Path(__file__).with_name("reached.py"))
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.number()
    """,
    {"site/bench_mine/reached.py": HELPER},
)
named(
    "a docstring by getattr",
    """
    def reached():
        \"\"\"1.0\"\"\"


    def number():
        return getattr(reached, "__doc__")
    """,
    edit=replaced("site/bench_mine/parts.py", "1.0", "2.0"),
)
named(
    "the source of a function",
    """
    import inspect


    def reached():
        return None  # 1.0


    def number():
        return inspect.getsource(reached).split("#")[1]
    """,
    edit=replaced("site/bench_mine/parts.py", "# 1.0", "# 2.0"),
)
named(
    "the line of a function",
    """
    # a line above
    def reached():
        pass


    def number():
        return reached.__code__.co_firstlineno - 1
    """,
    edit=replaced("site/bench_mine/parts.py", "# a line above", "# a line above\n# and another"),
)

# --- data, by Python's own ways

metric("pathlib", 'from pathlib import Path\n\n\ndef number():\n    return Path("reached.txt").read_text()\n', TEXT)
metric(
    "os.open",
    """
    import os


    def number():
        handle = os.open("reached.txt", os.O_RDONLY)
        try:
            return os.read(handle, 100)
        finally:
            os.close(handle)
    """,
    TEXT,
)
metric(
    "os.open in a folder",
    """
    import os


    def number():
        folder = os.open("lists", os.O_RDONLY)
        handle = os.open("reached.txt", os.O_RDONLY, dir_fd=folder)
        try:
            return os.read(handle, 100)
        finally:
            os.close(handle)
            os.close(folder)
    """,
    {"lists/reached.txt": "1.0"},
)
metric(
    "open with an opener",
    """
    import os


    def opener(name, flags):
        return os.open(os.path.join("lists", name), flags)


    def number():
        with open("reached.txt", opener=opener) as file:
            return file.read()
    """,
    {"lists/reached.txt": "1.0"},
)
metric("io.FileIO", 'import io\n\n\ndef number():\n    return io.FileIO("reached.txt").read()\n', TEXT)
metric("codecs.open", 'import codecs\n\n\ndef number():\n    return codecs.open("reached.txt").read()\n', TEXT)
metric("open under another name", 'read = open\n\n\ndef number():\n    return read("reached.txt").read()\n', TEXT)
metric("a path in bytes", 'def number():\n    return open(b"reached.txt", "rb").read()\n', TEXT)
metric(
    "after chdir",
    """
    import os


    def number():
        before = os.getcwd()
        os.chdir("lists")
        try:
            return open("reached.txt").read()
        finally:
            os.chdir(before)
    """,
    {"lists/reached.txt": "1.0"},
)
metric(
    "contextlib.chdir",
    """
    from contextlib import chdir


    def number():
        with chdir("lists"):
            return open("reached.txt").read()
    """,
    {"lists/reached.txt": "1.0"},
)
metric(
    "a file in the home directory",
    'import os\n\n\ndef number():\n    return open(os.path.expanduser("~/reached.txt")).read()\n',
    {"home/reached.txt": "1.0"}, before={"HOME": "HERE/home"}, after={"HOME": "HERE/home"},
)  # fmt: skip
metric(
    "a folder above the package",
    """
    from pathlib import Path


    def number():
        return (Path(__file__).parents[2] / "shared" / "reached.txt").read_text()
    """,
    {"shared/reached.txt": "1.0"},
)
metric("an absolute path in the code", 'def number():\n    return open("HERE/reached.txt").read()\n', TEXT)
metric(
    "a file in the folder of temporary files that another program left",
    """
    import os
    import tempfile


    def number():
        return open(os.path.join(tempfile.gettempdir(), "reached.txt")).read()
    """,
    {"tmp/reached.txt": "1.0"}, before={"TMPDIR": "HERE/tmp"}, after={"TMPDIR": "HERE/tmp"},
)  # fmt: skip
metric(
    "a constant of the module",
    'WORDS = open("reached.txt").read()\n\n\ndef number():\n    return WORDS\n',
    TEXT,
)
metric(
    "a constant of a module that is imported late",
    """
    def number():
        from bench_mine.constants import WORDS

        return WORDS
    """,
    {"site/bench_mine/constants.py": 'WORDS = open("reached.txt").read()\n', **TEXT},
)
metric(
    "a default argument",
    'def number(read=open("reached.txt").read()):\n    return read\n',
    TEXT,
)
metric(
    "a file once for two metrics",
    """
    from functools import cache


    @cache
    def number():
        return open("reached.txt").read()
    """,
    TEXT,
    suite=SUITE.replace(
        "      mine: {name: mine}\n", "      mine: {name: mine}\n      other: {name: mine, most: 2}\n"
    ),
    plugin=METRIC.replace('Mine"\n', 'Mine"\n    most: int = 1\n', 1),
)
metric("linecache", 'import linecache\n\n\ndef number():\n    return linecache.getline("reached.txt", 1)\n', TEXT)
metric(
    "fileinput",
    'import fileinput\n\n\ndef number():\n    return next(iter(fileinput.input(files=["reached.txt"])))\n',
    TEXT,
)
metric(
    "mmap",
    """
    import mmap


    def number():
        with open("reached.txt", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content[:]
    """,
    TEXT,
)
metric(
    "json",
    'import json\n\n\ndef number():\n    return json.load(open("reached.json"))["a"]\n',
    {"reached.json": '{"a": 1.0}'},
)
metric(
    "csv",
    'import csv\n\n\ndef number():\n    return [*csv.DictReader(open("reached.csv"))][0]["b"]\n',
    {"reached.csv": "a,b\nx,1.0\n"},
)
metric(
    "configparser",
    """
    from configparser import ConfigParser


    def number():
        found = ConfigParser()
        found.read(["nowhere.ini", "reached.ini"])
        return found["a"]["b"]
    """,
    {"reached.ini": "[a]\nb = 1.0\n"},
)
metric(
    "tomllib",
    'import tomllib\n\n\ndef number():\n    return tomllib.load(open("reached.toml", "rb"))["a"]\n',
    {"reached.toml": "a = 1.0\n"},
)
metric(
    "xml",
    'import xml.etree.ElementTree as tree\n\n\ndef number():\n    return tree.parse("reached.xml").getroot().text\n',
    {"reached.xml": "<a>1.0</a>"},
)
metric(
    "yaml",
    'from ruamel.yaml import YAML\n\n\ndef number():\n    return YAML(typ="safe").load(open("reached.yaml"))["a"]\n',
    {"reached.yaml": "a: 1.0\n"},
)
metric(
    "gzip", 'import gzip\n\n\ndef number():\n    return gzip.open("reached.gz", "rt").read()\n',
    {"reached.gz": lambda number: gzip.compress(str(number).encode())},
)  # fmt: skip
metric(
    "bz2", 'import bz2\n\n\ndef number():\n    return bz2.open("reached.bz2").read()\n',
    {"reached.bz2": lambda number: bz2.compress(str(number).encode())},
)  # fmt: skip
metric(
    "lzma", 'import lzma\n\n\ndef number():\n    return lzma.open("reached.xz").read()\n',
    {"reached.xz": lambda number: lzma.compress(str(number).encode())},
)  # fmt: skip


def _zip(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in members.items():
            file.writestr(name.replace("__", "."), text)
    return packed.getvalue()


def _tar(number: float) -> bytes:
    packed, text = io.BytesIO(), str(number).encode()
    with tarfile.open(fileobj=packed, mode="w") as file:
        about = tarfile.TarInfo("a.txt")
        about.size = len(text)
        file.addfile(about, io.BytesIO(text))
    return packed.getvalue()


def _sqlite(number: float) -> bytes:
    file = sqlite3.connect(":memory:")
    file.execute("create table numbers (value real)")
    file.execute("insert into numbers values (?)", [number])
    file.commit()
    return file.serialize()


def _npy(number: float) -> bytes:
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<d", number)


def _npz(number: float) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("a.npy", _npy(number))
    return packed.getvalue()


def _raw(number: float) -> bytes:
    return struct.pack("<d", number)


def _safetensors(number: float) -> bytes:
    header = json.dumps({"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + _raw(number)


def _torch(number: float) -> bytes:
    import torch

    packed = io.BytesIO()
    torch.save({"a": torch.tensor(number)}, packed)
    return packed.getvalue()


def _matlab(number: float) -> bytes:
    from scipy.io import savemat

    packed = io.BytesIO()
    savemat(packed, {"a": number})
    return packed.getvalue()


def _tokenizer(number: float) -> bytes:
    words = {"a": round(number), "b": 3 - round(number), "?": 0}
    return json.dumps(
        {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "?"},
        }
    ).encode()  # fmt: skip


def _pieces(number: float) -> bytes:
    from sentencepiece import SentencePieceTrainer

    model, text = io.BytesIO(), ["a b", "a b c"][number == AFTER]
    SentencePieceTrainer.train(
        sentence_iterator=iter([text]), model_writer=model, model_type="char", hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def _image(number: float) -> bytes:
    return f"P2\n1 1\n255\n{round(number)}\n".encode()  # a gray map of one pixel


metric(
    "a member of an archive",
    'import zipfile\n\n\ndef number():\n    return zipfile.ZipFile("reached.zip").read("a.txt")\n',
    {"reached.zip": lambda number: _zip(a__txt=str(number))},
)
metric(
    "zipfile.Path",
    'import zipfile\n\n\ndef number():\n    return (zipfile.Path("reached.zip") / "a.txt").read_text()\n',
    {"reached.zip": lambda number: _zip(a__txt=str(number))},
)
metric(
    "tarfile",
    'import tarfile\n\n\ndef number():\n    return tarfile.open("reached.tar").extractfile("a.txt").read()\n',
    {"reached.tar": _tar},
)
metric(
    "sqlite3",
    """
    import sqlite3


    def number():
        (row,) = sqlite3.connect("reached.db").execute("select value from numbers")
        return row[0]
    """,
    {"reached.db": _sqlite},
)
metric(
    "np.load", 'import numpy as np\n\n\ndef number():\n    return np.load("reached.npy")[0]\n', {"reached.npy": _npy}
)
metric(
    "np.load of an archive",
    'import numpy as np\n\n\ndef number():\n    return np.load("reached.npz")["a"][0]\n',
    {"reached.npz": _npz},
)
metric(
    "np.load mapped",
    'import numpy as np\n\n\ndef number():\n    return np.load("reached.npy", mmap_mode="r")[0]\n',
    {"reached.npy": _npy},
)
metric("np.loadtxt", 'import numpy as np\n\n\ndef number():\n    return np.loadtxt("reached.txt")\n', TEXT)
metric("np.genfromtxt", 'import numpy as np\n\n\ndef number():\n    return np.genfromtxt("reached.txt")\n', TEXT)
metric(
    "np.fromfile",
    'import numpy as np\n\n\ndef number():\n    return np.fromfile("reached.bin")[0]\n',
    {"reached.bin": _raw},
)
metric(
    "np.memmap",
    'import numpy as np\n\n\ndef number():\n    return np.memmap("reached.bin", "<f8", "r")[0]\n',
    {"reached.bin": _raw},
)
metric(
    "torch.load",
    'import torch\n\n\ndef number():\n    return torch.load("reached.pt")["a"]\n',
    {"reached.pt": _torch},
)
metric(
    "scipy.io.loadmat",
    'from scipy.io import loadmat\n\n\ndef number():\n    return loadmat("reached.mat")["a"][0, 0]\n',
    {"reached.mat": _matlab},
    needs=("scipy",),
)
metric(
    "an image",
    'from PIL import Image\n\n\ndef number():\n    return Image.open("reached.pgm").getpixel((0, 0))\n',
    {"reached.pgm": lambda number: _image(number)}, needs=("PIL",),
)  # fmt: skip
metric(
    "importlib.resources of a sibling package",
    """
        from importlib.resources import files


        def number():
            return (files("mine_" + "reached") / "reached.txt").read_text()
        """,
    {"site/mine_reached/__init__.py": "", "site/mine_reached/reached.txt": "1.0"},
)
metric(
    "importlib.resources.as_file",
    """
    from importlib.resources import as_file, files


    def number():
        import mine_reached

        with as_file(files(mine_reached) / "reached.txt") as path:
            return path.read_text()
    """,
    {"site/mine_reached/__init__.py": "", "site/mine_reached/reached.txt": "1.0"},
)
metric(
    "pkgutil.get_data of a sibling package",
    'import pkgutil\n\n\ndef number():\n    return pkgutil.get_data("mine_reached", "reached.txt")\n',
    {"site/mine_reached/__init__.py": "", "site/mine_reached/reached.txt": "1.0"},
)
metric(
    "a resource of a namespace package",
    """
        from importlib.resources import files


        def number():
            return (files("mine_reached") / "reached.txt").read_text()
        """,
    {"site/mine_reached/reached.txt": "1.0"},
)
metric(
    "a copy that is read back",
    """
    import shutil
    import tempfile
    from pathlib import Path


    def number():
        with tempfile.TemporaryDirectory() as folder:
            return Path(shutil.copy("reached.txt", folder)).read_text()
    """,
    TEXT,
)
metric(
    "shutil.copytree",
    """
    import shutil
    import tempfile
    from pathlib import Path


    def number():
        with tempfile.TemporaryDirectory() as folder:
            return (Path(shutil.copytree("lists", Path(folder, "copy"))) / "reached.txt").read_text()
    """,
    {"lists/reached.txt": "1.0"},
)
metric(
    "shutil.unpack_archive",
    """
    import shutil
    import tempfile
    from pathlib import Path


    def number():
        with tempfile.TemporaryDirectory() as folder:
            shutil.unpack_archive("reached.zip", folder)
            return Path(folder, "a.txt").read_text()
    """,
    {"reached.zip": lambda number: _zip(a__txt=str(number))},
)
metric(
    "a hard link that is read back",
    """
    import os
    import tempfile


    def number():
        with tempfile.TemporaryDirectory(dir=".") as folder:
            os.link("reached.txt", os.path.join(folder, "a.txt"))
            return open(os.path.join(folder, "a.txt")).read()
    """,
    TEXT,
)
metric(
    "a digest of a file",
    """
    import hashlib


    def number():
        with open("reached.txt", "rb") as file:
            return {"d0": 1.0, "d8": 2.0}[hashlib.file_digest(file, "sha256").hexdigest()[:2]]
    """,
    TEXT,
)
metric(
    "a file in a thread",
    """
    from concurrent.futures import ThreadPoolExecutor


    def read():
        return open("reached.txt").read()


    def number():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(read).result()
    """,
    TEXT,
)
metric(
    "a thread that has begun before",
    """
    from concurrent.futures import ThreadPoolExecutor

    POOL = ThreadPoolExecutor(1)
    POOL.submit(int).result()


    def number():
        return POOL.submit(lambda: open("reached.txt").read()).result()
    """,
    TEXT,
)
metric(
    "a file in asyncio",
    """
    import asyncio


    async def read():
        return await asyncio.to_thread(lambda: open("reached.txt").read())


    def number():
        return asyncio.run(read())
    """,
    TEXT,
)
metric(
    "a dataset of torch",
    """
    from torch.utils.data import DataLoader, Dataset


    class Lines(Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, place):
            return float(open("reached.txt").readlines()[place])


    def number():
        return next(iter(DataLoader(Lines())))
    """,
    TEXT,
)
metric(
    "a generator that reads late",
    """
    def lines():
        with open("reached.txt") as file:
            yield from file


    LINES = lines()
    READ = []


    def number():
        READ.extend(LINES)
        return READ[0]
    """,
    TEXT,
)
metric("a template", """
    from string import Template


    def number():
        return Template(open("reached.txt").read()).substitute(a="0")
    """, {"reached.txt": "1.$a"}, edit=written("reached.txt", "2.$a"))  # fmt: skip
metric(
    "a template of jinja2",
    """
    from jinja2 import Environment, FileSystemLoader


    def number():
        return Environment(loader=FileSystemLoader("lists")).get_template("reached.txt").render(a=0)
    """,
    {"lists/reached.txt": "1.{{ a }}"}, edit=written("lists/reached.txt", "2.{{ a }}"), needs=("jinja2",),
)  # fmt: skip
metric(
    "a file of a library's own format",
    'import plistlib\n\n\ndef number():\n    return plistlib.load(open("reached.plist", "rb"))["a"]\n',
    {"reached.plist": '<plist version="1"><dict><key>a</key><real>1.0</real></dict></plist>'},
)
metric(
    "a file that a library opens",
    'import sacrebleu.utils\n\n\ndef number():\n    return next(iter(sacrebleu.utils.smart_open("reached.txt")))\n',
    TEXT, needs=("sacrebleu",),
)  # fmt: skip

# --- which files there are

LISTS = {"lists/a.txt": "a"}
more = {"reached": "lists", "expected": EITHER, "edit": written("lists/b.txt", "b")}

metric("os.listdir", 'import os\n\n\ndef number():\n    return len(os.listdir("lists"))\n', LISTS, **more)
metric(
    "os.scandir",
    'import os\n\n\ndef number():\n    return sum(one.is_file() for one in os.scandir("lists"))\n',
    LISTS,
    **more,
)
metric(
    "os.walk",
    'import os\n\n\ndef number():\n    return sum(len(files) for _, _, files in os.walk("lists"))\n',
    LISTS,
    **more,
)
metric("glob", 'import glob\n\n\ndef number():\n    return len(glob.glob("lists/*.txt"))\n', LISTS, **more)
metric(
    "Path.iterdir",
    'from pathlib import Path\n\n\ndef number():\n    return len([*Path("lists").iterdir()])\n',
    LISTS,
    **more,
)
metric(
    "Path.rglob",
    'from pathlib import Path\n\n\ndef number():\n    return len([*Path("lists").rglob("*.txt")])\n',
    LISTS,
    **more,
)
metric(
    "the sum of files in a folder",
    """
        from pathlib import Path


        def number():
            return sum(float(one.read_text()) for one in Path("lists").glob("*"))
        """,
    {"lists/a.txt": "1.0"}, reached="lists", edit=written("lists/b.txt", "1.0"), expected=EITHER,
)  # fmt: skip
exists = {"edit": written("reached.txt", ""), "expected": EITHER}
metric("os.path.exists", 'import os\n\n\ndef number():\n    return 1 + os.path.exists("reached.txt")\n', **exists)
metric(
    "Path.is_file",
    'from pathlib import Path\n\n\ndef number():\n    return 1 + Path("reached.txt").is_file()\n',
    **exists,
)
metric("os.access", 'import os\n\n\ndef number():\n    return 1 + os.access("reached.txt", os.R_OK)\n', **exists)
metric(
    "a question to the parent folder",
    'import os\n\n\ndef number():\n    return 1 + os.path.isdir("lists/inner/reached")\n',
    {"lists/a": ""}, edit=written("lists/inner/reached/a", ""), expected=EITHER,
)  # fmt: skip
metric(
    "a file that overrides, if there is one",
    """
    def number():
        try:
            return open("reached.txt").read()
        except FileNotFoundError:
            return 1.0
    """,
    edit=written("reached.txt", "2.0"),
)
metric(
    "a file that overrides, until it is removed",
    """
    from pathlib import Path


    def number():
        return Path("reached.txt").read_text() if Path("reached.txt").exists() else 2.0
    """,
    TEXT,
    edit=lambda here: (here / "reached.txt").unlink(),
)
metric(
    "the first of several places",
    """
    from pathlib import Path


    def number():
        return next(one for one in (Path("first/reached.txt"), Path("second/reached.txt")) if one.exists()).read_text()
    """,
    {"second/reached.txt": "1.0"},
    edit=written("first/reached.txt", "2.0"),
)
metric(
    "os.path.getsize",
    'import os\n\n\ndef number():\n    return os.path.getsize("reached.txt")\n',
    {"reached.txt": "a"},
    edit=written("reached.txt", "ab"),
    expected=EITHER,
)
metric(
    "os.path.getmtime", 'import os\n\n\ndef number():\n    return os.path.getmtime("reached.txt") // 1e9\n', TEXT,
    edit=lambda here: os.utime(here / "reached.txt", (2e9, 2e9)), expected=EITHER,
)  # fmt: skip
metric(
    "the mode of a file", """
        import os


        def number():
            return 1 + bool(os.stat("reached.txt").st_mode & 0o100)
        """, TEXT,
    edit=lambda here: (here / "reached.txt").chmod(0o755), expected=EITHER,
)  # fmt: skip


def _linked(here: Path) -> None:
    (here / "reached").unlink()
    (here / "reached").symlink_to("other")


metric(
    "where a link leads", 'def number():\n    return open("reached/a.txt").read()\n',
    {"lists/a.txt": "1.0", "other/a.txt": "2.0"}, edit=_linked, links={"reached": "lists"},
)  # fmt: skip
metric(
    "the text of a link",
    'import os\n\n\ndef number():\n    return {"lists": 1.0, "other": 2.0}[os.readlink("reached")]\n',
    edit=_linked,
    expected=EITHER,
    links={"reached": "lists"},
)


def _swapped(here: Path) -> None:
    (here / "lists").rename(here / "former")
    (here / "other").rename(here / "lists")


metric(
    "a folder that another one replaces",
    'def number():\n    return open("lists/reached.txt").read()\n',
    {"lists/reached.txt": "1.0", "other/reached.txt": "2.0"},
    edit=_swapped,
)
metric(
    "shutil.which", """
        import shutil


        def number():
            return 1 + bool(shutil.which("reached", path="bin"))
        """, {"bin/a": ""},
    edit=lambda here: (written("bin/reached", "")(here), (here / "bin/reached").chmod(0o755)), expected=EITHER,
)  # fmt: skip

# --- code

PLUGINS = {"site/bench_mine/added/__init__.py": "", "site/bench_mine/added/reached.py": HELPER}

metric(
    "__import__",
    'def number():\n    return __import__("mine_" + "reached").number()\n',
    {"site/mine_reached.py": HELPER},
)
metric(
    "a module by a computed name",
    'from importlib import import_module\n\n\ndef number():\n    return import_module("mine_" + "reached").number()\n',
    {"site/mine_reached.py": HELPER},
)
metric(
    "pkgutil.resolve_name",
    'import pkgutil\n\n\ndef number():\n    return pkgutil.resolve_name("mine_" + "reached:number")()\n',
    {"site/mine_reached.py": HELPER},
)
metric(
    "a target in a file of settings",
    """
    import json
    from importlib import import_module


    def number():
        module, _, name = json.load(open("settings.json"))["target"].rpartition(".")
        return getattr(import_module(module), name)()
    """,
    {"settings.json": '{"target": "mine_reached.number"}', "site/mine_reached.py": HELPER},
)
metric(
    "sys.modules",
    'import sys\n\nimport mine_reached\n\n\ndef number():\n    return sys.modules["mine_" + "reached"].number()\n',
    {"site/mine_reached.py": HELPER},
)
metric(
    "a module by attributes of a package",
    """
    from operator import attrgetter

    import mine_tools


    def number():
        return attrgetter("reached.number")(mine_tools)()
    """,
    {
        "site/mine_tools/__init__.py": "from importlib import import_module\n\nimport_module('.reached', __name__)\n",
        "site/mine_tools/reached.py": HELPER,
    },
)
metric(
    "runpy.run_path",
    'import runpy\n\n\ndef number():\n    return runpy.run_path("reached.py")["number"]()\n',
    {"reached.py": HELPER},
)
metric(
    "runpy.run_module",
    'import runpy\n\n\ndef number():\n    return runpy.run_module("mine_" + "reached")["number"]()\n',
    {"site/mine_reached.py": HELPER},
)
metric(
    "the text of a program",
    """
    def number():
        names = {}
        exec(compile(open("reached.py").read(), "reached.py", "exec"), names)
        return names["number"]()
    """,
    {"reached.py": HELPER},
)
metric(
    "the text of an expression",
    'def number():\n    return eval(open("reached.txt").read())\n',
    {"reached.txt": "1.0 + 0"},
)
metric(
    "SourceFileLoader",
    """
    from importlib.machinery import SourceFileLoader
    from types import ModuleType


    def number():
        module = ModuleType("reached")
        SourceFileLoader("reached", "reached.py").exec_module(module)
        return module.number()
    """,
    {"reached.py": HELPER},
)
metric(
    "a folder that is put on sys.path",
    """
    import sys


    def number():
        sys.path.insert(0, "HERE/more")
        try:
            import reached
        finally:
            sys.path.remove("HERE/more")
        return reached.number()
    """,
    {"more/reached.py": HELPER},
)
metric(
    "a module of an archive on sys.path",
    """
    import sys
    from importlib import import_module


    def number():
        sys.path.insert(0, "HERE/reached.zip")
        try:
            return import_module("zipped").number()
        finally:
            sys.path.remove("HERE/reached.zip")
    """,
    {"reached.zip": lambda number: _zip(zipped__py=f"def number():\n    return {number}\n")},
)
metric(
    "a side module of the folder, as conftest.py is",
    """
    import sys
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path


    def number():
        for folder in (Path.cwd(), *Path.cwd().parents):
            if (folder / "reached.py").exists():
                spec = spec_from_file_location("reached", folder / "reached.py")
                module = sys.modules["reached"] = module_from_spec(spec)
                spec.loader.exec_module(module)
                return module.number()
    """,
    {"reached.py": HELPER},
)
metric(
    "all modules of a folder",
    """
    import pkgutil
    from importlib import import_module

    from bench_mine import added


    def number():
        return sum(import_module(f"{added.__name__}.{one.name}").number() for one in pkgutil.iter_modules(added.__path__))
    """,
    PLUGINS,
)
metric(
    "one more module in a folder",
    """
    import pkgutil
    from importlib import import_module

    import mine_added


    def number():
        found = pkgutil.iter_modules(mine_added.__path__)
        return sum(import_module(f"{mine_added.__name__}.{one.name}").number() for one in found)
    """,
    {"site/mine_added/__init__.py": "", "site/mine_added/reached.py": HELPER},
    edit=written("site/mine_added/more.py", HELPER), reached="mine_added", expected=EITHER,
)  # fmt: skip
metric(
    "subclasses in modules of a folder",
    """
    import pkgutil
    from importlib import import_module

    import mine_added
    from mine_added import Shape


    def number():
        for one in pkgutil.walk_packages(mine_added.__path__, "mine_added."):
            import_module(one.name)
        return sum(one().number() for one in Shape.__subclasses__())
    """,
    {
        "site/mine_added/__init__.py": "class Shape:\n    pass\n",
        "site/mine_added/reached.py": """
            from mine_added import Shape


            class Square(Shape):
                def number(self):
                    return 1.0
        """,
    },
)
metric(
    "a registry by __init_subclass__",
    """
    from importlib import import_module

    from mine_added import KNOWN


    def number():
        import_module("mine_added" + ".reached")
        return KNOWN["Square"].number()
    """,
    {
        "site/mine_added/__init__.py": """
            KNOWN = {}


            class Shape:
                def __init_subclass__(cls):
                    KNOWN[cls.__name__] = cls()
        """,
        "site/mine_added/reached.py": """
            from mine_added import Shape


            class Square(Shape):
                def number(self):
                    return 1.0
        """,
    },
)
metric(
    "a registry by a metaclass",
    """
    from mine_added import load
    from mine_added.shapes import KNOWN


    def number():
        load()
        return KNOWN["Square"]().number()
    """,
    {
        "site/mine_added/__init__.py": """
            from importlib import import_module


            def load(names=("reached",)):
                for name in names:
                    import_module(f"mine_added.{name}")
        """,
        "site/mine_added/shapes.py": """
            KNOWN = {}


            class Known(type):
                def __init__(cls, name, bases, names):
                    KNOWN[name] = cls
        """,
        "site/mine_added/reached.py": """
            from mine_added.shapes import Known


            class Square(metaclass=Known):
                def number(self):
                    return 1.0
        """,
    },
)
metric(
    "singledispatch",
    """
    import bench_mine.reached
    from bench_mine.generic import of


    def number():
        return of(1)
    """,
    {
        "site/bench_mine/generic.py": """
            from functools import singledispatch


            @singledispatch
            def of(one):
                return 0.0
        """,
        "site/bench_mine/reached.py": """
            from bench_mine.generic import of

            _of = of.register(int, lambda one: 1.0)
        """,
    },
)
metric(
    "functools.partial of what is looked up",
    """
    from functools import partial

    import mine_tools


    number = partial(vars(mine_tools)["num" + "ber"], mine_tools.reached)
    """,
    {
        "site/mine_tools/__init__.py": """
            from mine_tools import reached


            def number(module):
                return module.number()
            """,
        "site/mine_tools/reached.py": HELPER,
    },
)
metric(
    "inspect.getmembers",
    """
    import inspect

    import mine_reached


    def number():
        (found,) = inspect.getmembers(mine_reached, inspect.isfunction)
        return found[1]()
    """,
    {"site/mine_reached.py": HELPER},
)
metric(
    "a class attribute that another module sets",
    """
    from bench_mine import tuning
    from bench_mine.shapes import Shape


    def number():
        return Shape.size
    """,
    {
        "site/bench_mine/shapes.py": "class Shape:\n    size = 0.0\n",
        "site/bench_mine/tuning.py": "from bench_mine.reached import tune\n\n_done = tune()\n",
        "site/bench_mine/reached.py": """
            from bench_mine.shapes import Shape


            def tune():
                Shape.size = 1.0
        """,
    },
)
metric(
    "a class attribute that a module sets when somebody loads it",
    """
    from importlib import import_module

    from bench_mine.shapes import Shape


    def number():
        import_module("mine_" + "reached")
        return Shape.size
    """,
    {
        "site/bench_mine/shapes.py": "class Shape:\n    size = 0.0\n",
        "site/mine_reached.py": "from bench_mine.shapes import Shape\n\nShape.size = 1.0\n",
    },
)
metric(
    "a function that another module decorates",
    """
    import bench_mine.reached
    from bench_mine import shapes


    def number():
        return shapes.size()
    """,
    {
        "site/bench_mine/shapes.py": "def size():\n    return 0.0\n",
        "site/bench_mine/reached.py": """
            from bench_mine import shapes


            def twice(f):
                return lambda: f() + 1.0


            shapes.size = twice(shapes.size)
        """,
    },
)
metric(
    "a decorator that looks up its work",
    """
    from mine_tools import by_name


    @by_name
    def reached():
        pass


    def number():
        return reached()
    """,
    {
        "site/mine_tools/__init__.py": """
            from importlib import import_module


            def by_name(f):
                return lambda: import_module(f"mine_tools.{f.__name__}").number()
        """,
        "site/mine_tools/reached.py": HELPER,
    },
)
metric(
    "a module with __getattr__",
    "import mine_lazy\n\n\ndef number():\n    return mine_lazy.number()\n",
    {
        "site/mine_lazy/__init__.py": """
            from importlib import import_module

            HOMES = {"number": "reached"}


            def __getattr__(name):
                return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
        """,
        "site/mine_lazy/reached.py": HELPER,
    },
)
metric(
    "a LazyLoader",
    """
    import sys
    from importlib.util import LazyLoader, find_spec, module_from_spec


    def number():
        spec = find_spec("mine_" + "reached")
        loader = spec.loader = LazyLoader(spec.loader)
        module = sys.modules["mine_reached"] = module_from_spec(spec)
        loader.exec_module(module)
        return module.number()
    """,
    {"site/mine_reached.py": HELPER},
)
metric(
    "a namespace package of two folders",
    """
    import sys
    from importlib import import_module


    def number():
        sys.path.append("HERE/more")
        try:
            return import_module("mine_names.here").number() + import_module("mine_names." + "reached").number()
        finally:
            sys.path.remove("HERE/more")
    """,
    {"site/mine_names/here.py": "def number():\n    return 0\n", "more/mine_names/reached.py": HELPER},
)
metric(
    "a finder of modules of its own",
    """
    import sys
    from importlib import import_module
    from importlib.machinery import ModuleSpec
    from pathlib import Path


    class Texts:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return ModuleSpec(name, cls) if Path(f"{name}.txt").exists() else None

        @staticmethod
        def create_module(spec):
            return None

        @staticmethod
        def exec_module(module):
            exec(Path(f"{module.__name__}.txt").read_text(), vars(module))


    def number():
        sys.meta_path.append(Texts)
        try:
            return import_module("reached").number()
        finally:
            sys.meta_path.remove(Texts)
    """,
    {"reached.txt": HELPER},
)
metric(
    "an import in a thread",
    """
    from importlib import import_module
    from threading import Thread


    def number():
        found = []
        thread = Thread(target=lambda: found.append(import_module("mine_" + "reached").number()))
        thread.start()
        thread.join()
        return found[0]
    """,
    {"site/mine_reached.py": HELPER},
)
metric(
    "an import in a method",
    """
    class Late:
        def number(self):
            from bench_mine.reached import number

            return number()


    def number():
        return Late().number()
    """,
    {"site/bench_mine/reached.py": HELPER},
)
metric(
    "a module that shadows another",
    """
    try:
        from mine_fast_reached import number
    except ImportError:
        from bench_mine.slow import number
    """,
    {"site/bench_mine/slow.py": HELPER},
    edit=written("site/mine_fast_reached.py", "def number():\n    return 2.0\n"),
)
metric(
    "a module that is reloaded",
    """
    from importlib import import_module, reload


    def number():
        return reload(import_module("mine_" + "reached")).number()
    """,
    {"site/mine_reached.py": HELPER},
)
metric(
    "the version of a distribution",
    'from importlib.metadata import version\n\n\ndef number():\n    return version("mine-" + "reached")\n',
    {"site/mine_reached-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine-reached\nVersion: 1.0\n"},
)
metric(
    "all names of a module",
    "from mine_reached import *\n",
    {"site/mine_reached.py": "from mine_inner import *\n", "site/mine_inner.py": HELPER},
    edit=replaced("site/mine_inner.py", "1.0", "2.0"),
)
metric(
    "a hook of pluggy",
    """
    from importlib.metadata import entry_points

    from mine_hooks import manager


    def number():
        for one in entry_points(group="mine.hooks"):
            manager.register(one.load(), one.name)
        return manager.hook.number()[0]
    """,
    {
        "site/mine_hooks.py": """
            import pluggy

            spec, impl, manager = pluggy.HookspecMarker("mine"), pluggy.HookimplMarker("mine"), pluggy.PluginManager("mine")


            class Hooks:
                @spec
                def number(self):
                    pass


            manager.add_hookspecs(Hooks)
        """,
        "site/mine_reached.py": "from mine_hooks import impl\n\n\n@impl\ndef number():\n    return 1.0\n",
        "site/mine_reached-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine-reached\nVersion: 1\n",
        "site/mine_reached-1.dist-info/entry_points.txt": "[mine.hooks]\none = mine_reached\n",
    },
    edit=replaced("site/mine_reached.py", "1.0", "2.0"),
)
metric(
    "the annotations of a function",
    """
    import typing

    from mine_reached import size


    def number():
        return typing.get_args(vars(typing)["get_type_" + "hints"](size, include_extras=True)["one"])[1]
    """,
    {"site/mine_reached.py": "from typing import Annotated\n\n\ndef size(one: Annotated[float, 1.0]):\n    pass\n"},
)
metric(
    "the text of an error",
    """
    from mine_reached import fail


    def number():
        try:
            fail()
        except ValueError as error:
            return error.args[0]
    """,
    {"site/mine_reached.py": 'def fail():\n    raise ValueError("1.0")\n'},
)
metric(
    "the constants of a code object",
    """
    import mine_reached


    def number():
        return next(one for one in mine_reached.size.__code__.co_consts if isinstance(one, float))
    """,
    {"site/mine_reached.py": "def size():\n    if False:\n        pass\n    return 1.0\n"},
)
metric(
    "a library of C",
    'import ctypes\n\n\ndef number():\n    return ctypes.CDLL("HERE/reached.so").number()\n',
    {"reached.so": lambda number: _compiled(number)},
    needs=("gcc",),
)


def _compiled(number: float) -> bytes:
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "a.c"), Path(folder, "a.so")
        source.write_text(f"int number(void) {{ return {round(number)}; }}\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        return library.read_bytes()


# --- readers that are not Python

metric(
    "Tokenizer.from_file",
    """
        from tokenizers import Tokenizer


        def number():
            return Tokenizer.from_file("reached.json").encode("a").ids[0]
        """,
    {"reached.json": _tokenizer}, needs=("tokenizers",),
)  # fmt: skip
metric(
    "safetensors.safe_open",
    """
    from safetensors import safe_open


    def number():
        with safe_open("reached.safetensors", framework="np") as file:
            return file.get_tensor("a")[0]
    """,
    {"reached.safetensors": _safetensors},
)
metric(
    "safetensors.torch.load_file",
    'from safetensors.torch import load_file\n\n\ndef number():\n    return load_file("reached.safetensors")["a"][0]\n',
    {"reached.safetensors": _safetensors},
)
metric(
    "torch.from_file",
    'import torch\n\n\ndef number():\n    return torch.from_file("reached.bin", size=1, dtype=torch.float64)[0]\n',
    {"reached.bin": _raw},
)
metric(
    "torch.UntypedStorage.from_file",
    """
    import torch


    def number():
        return torch.tensor(torch.UntypedStorage.from_file("reached.bin", False, 8)).view(torch.uint8).numpy().view("<f8")[0]
    """,
    {"reached.bin": _raw},
    expected=UNOBSERVED,
)
metric(
    "sentencepiece",
    """
    from sentencepiece import SentencePieceProcessor


    def number():
        return SentencePieceProcessor(model_file="reached.model").get_piece_size() - 5
    """,
    {"reached.model": _pieces}, needs=("sentencepiece",), expected=UNOBSERVED, reached="reached|sentencepiece",
)  # fmt: skip
metric(
    "lxml", 'from lxml import etree\n\n\ndef number():\n    return etree.parse("reached.xml").getroot().text\n',
    {"reached.xml": "<a>1.0</a>"}, needs=("lxml",), expected=UNOBSERVED, reached="reached|lxml",
)  # fmt: skip
metric(
    "fopen of the C library",
    """
    import ctypes

    LIBC = ctypes.CDLL(None)
    LIBC.fopen.restype = ctypes.c_void_p
    LIBC.fread.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p
    LIBC.fclose.argtypes = (ctypes.c_void_p,)


    def number():
        content = ctypes.create_string_buffer(100)
        file = LIBC.fopen(b"reached.txt", b"r")
        LIBC.fread(content, 1, 100, file)
        LIBC.fclose(file)
        return content.value
    """,
    TEXT, expected=UNOBSERVED, reached="reached|ctypes|fopen",
)  # fmt: skip

# --- children

CHILD = {"expected": UNOBSERVED, "reached": "reached|cat|child|process"}

metric(
    "subprocess.run",
    'import subprocess\n\n\ndef number():\n    return subprocess.check_output(["cat", "reached.txt"])\n',
    TEXT,
    **CHILD,
)
metric("os.popen", 'import os\n\n\ndef number():\n    return os.popen("cat reached.txt").read()\n', TEXT, **CHILD)
metric(
    "os.system",
    'import os\n\n\ndef number():\n    return os.system("exit $(cut -c1 reached.txt)") >> 8\n',
    TEXT,
    **CHILD,
)
metric(
    "os.posix_spawn",
    """
    import os


    def number():
        child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit $(cut -c1 reached.txt)"], os.environ)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    """,
    TEXT, **CHILD,
)  # fmt: skip
metric(
    "os.fork",
    """
    import os


    def number():
        child = os.fork()
        if not child:
            os._exit(int(float(open("reached.txt").read())))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    """,
    TEXT, **CHILD,
)  # fmt: skip
metric(
    "a program of Python",
    """
    import subprocess
    import sys


    def number():
        return subprocess.run([sys.executable, "-S", "reached.py"], capture_output=True, text=True).stdout
    """,
    {"reached.py": "print(1.0)\n"}, **CHILD,
)  # fmt: skip
metric(
    "a pool of processes",
    """
    from multiprocessing import get_context


    def read(name):
        return open(name).read()


    def number():
        with get_context("fork").Pool(1) as pool:
            return pool.map(read, ["reached.txt"])[0]
    """,
    TEXT, slow=True, **CHILD,
)  # fmt: skip
metric(
    "asyncio's processes",
    """
    import asyncio


    async def read():
        child = await asyncio.create_subprocess_exec("cat", "reached.txt", stdout=asyncio.subprocess.PIPE)
        return (await child.communicate())[0]


    def number():
        return asyncio.run(read())
    """,
    TEXT, **CHILD,
)  # fmt: skip
metric(
    "a child that is there before",
    """
    import subprocess

    CHILD = subprocess.Popen(["sh", "-c", "read line; cat reached.txt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    SAID = []


    def number():
        SAID.append(SAID[0] if SAID else CHILD.communicate(b"go\\n")[0])
        return SAID[0]
    """,
    TEXT,
    **CHILD,
)
JAVA = """
    #!/bin/sh
    jar=
    while [ $# -gt 0 ]; do
      case "$1" in
        -version) exit 0 ;;
        -jar) jar=$2 ;;
      esac
      shift
    done
    words=$(cut -c1 "$jar")
    while read line; do
      echo "4.0 4.0 0 0 $words $words 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 4 4"
    done
"""
METEOR = {"site/pycocoevalcap/__init__.py": "", "site/pycocoevalcap/meteor/__init__.py": ""}
JAR = "site/pycocoevalcap/meteor/meteor-1.5.jar"
for what, edit in (
    ("METEOR's jar", replaced(JAR, "1.0", "2.0")),
    ("METEOR's Java", replaced("java/bin/java", 'words=$(cut -c1 "$jar")', "words=2")),
):
    case(
        what,
        package(METRIC, MEASURE),
        {**METEOR, JAR: "1.0", "java/bin/java": JAVA.lstrip("\n")},
        SUITE.replace("mine: {name: mine}", "mine: {name: meteor, language: other}"),
        edit,
        answers=(22.487222348443986, 44.97444469688797),
        before={"JAVA_HOME": "HERE/java"},
        after={"JAVA_HOME": "HERE/java"},
        expected=UNOBSERVED,
        needs=("pycocoevalcap",),
        reached="java|jar",
        forgotten=("pycocoevalcap", "bench_metrics.meteor"),
    )

# --- other kinds of parts, and the stages that follow from them

READ_IT = 'def number():\n    return open("reached.txt").read()\n'
decoder("a decoder's file", READ_IT, TEXT)
decoder("a decoder's constant", 'WORDS = open("reached.txt").read()\n\n\ndef number():\n    return WORDS\n', TEXT)
decoder(
    "a decoder's module",
    'def number():\n    return __import__("mine_" + "reached").number()\n',
    {"site/mine_reached.py": HELPER},
)
model("a model's file when it writes", READ_IT, TEXT, "None", "number()")
model("a model's file when it is built", READ_IT, TEXT, "number()", "self.number")
model(
    "a model's file once in a process",
    "from functools import cache\n\n\n@cache\n" + READ_IT,
    TEXT,
    "number()",
    "number()",
)
model(
    "a model's module when it is built",
    'def number():\n    return __import__("mine_" + "reached").number()\n',
    {"site/mine_reached.py": HELPER}, "number()", "self.number",
)  # fmt: skip
task("a task's file when it is prepared", READ_IT, TEXT, "number()")
task("a task's file when it is used", READ_IT, TEXT, "0.0", "number()")
task(
    "a task's file in the data directory",
    READ_IT,
    {"data/reached.txt": "1.0"},
    '(data / "data" / "reached.txt").read_text()',
)
task("a task's constant", 'WORDS = open("reached.txt").read()\n', TEXT, "0.0", "WORDS")
trained("a file that training is set up with", READ_IT, TEXT, "setup(self, info, noise)")
trained("a file that statistics are fitted with", READ_IT, TEXT, "fit_statistics(self, batches, noise)")
trained("a file that a loss is computed with", READ_IT, TEXT, "loss(self, batch, training)")

SHARED = {"site/bench_mine/shared.py": 'WORDS = open("reached.txt").read()\n', **TEXT}
metric(
    "a file that a metric fits itself with",
    READ_IT,
    TEXT,
    measure=MEASURE.replace("number()", "self.number")
    + """
    def prepare(self, info, references):
        self.number = number()
        return self
""",
)
metric(
    "a file that scores are combined with",
    READ_IT,
    TEXT,
    measure=MEASURE.replace("number()", "0").replace("sum(parts) / len(parts)", "float(number())"),
)
decoder(
    "a constant that a decoder shares with a metric",
    "from bench_mine.shared import WORDS\n\n\ndef number():\n    return 1.0\n",
    SHARED,
    reading="from bench_mine.shared import WORDS\n" + READ.replace("float(one.{what}[0])", "float(WORDS)"),
)
metric(
    "a setting that is a path",
    "",
    TEXT,
    plugin="from pathlib import Path\n" + METRIC.replace('Mine"\n', 'Mine"\n    words: Path\n', 1),
    measure=MEASURE.replace("number()", "self.config.words.read_text()"),
    suite=SUITE.replace("{name: mine}", "{name: mine, words: reached.txt}"),
)
metric(
    "a setting that is the text of a path to a folder", "", {"lists/reached.txt": "1.0"},
    plugin=METRIC.replace('Mine"\n', 'Mine"\n    folder: str\n', 1),
    measure=MEASURE.replace("number()", 'open(self.config.folder + "/reached.txt").read()'),
    suite=SUITE.replace("{name: mine}", "{name: mine, folder: lists}"),
)  # fmt: skip

# --- environment variables

variable("os.environ", 'import os\n\n\ndef number():\n    return os.environ["REACHED"]\n')
variable("os.environ.get", 'import os\n\n\ndef number():\n    return os.environ.get("REACHED", "1.0")\n')
variable("os.getenv", 'import os\n\n\ndef number():\n    return os.getenv("REACHED")\n')
variable("os.environb", 'import os\n\n\ndef number():\n    return os.environb[b"REACHED"]\n')
variable("os.getenvb", 'import os\n\n\ndef number():\n    return os.getenvb(b"REACHED")\n')
variable(
    "a variable that is set later",
    'import os\n\n\ndef number():\n    return os.environ.get("REACHED", "1.0")\n',
    values=(None, "2.0"),
)
variable(
    "a variable that is gone later",
    'import os\n\n\ndef number():\n    return os.environ.get("REACHED", "2.0")\n',
    values=("1.0", None),
)
variable(
    "whether there is a variable",
    'import os\n\n\ndef number():\n    return 1 + ("REACHED" in os.environ)\n',
    values=(None, ""),
)
variable(
    "a variable that is missed",
    """
    import os


    def number():
        try:
            return os.environ["REACHED"]
        except KeyError:
            return 1.0
    """,
    values=(None, "2.0"),
)
variable(
    "environ under another name",
    'from os import environ as settings\n\n\ndef number():\n    return settings["REACHED"]\n',
)
variable("a bound method", 'import os\n\nget = os.environ.get\n\n\ndef number():\n    return get("REACHED")\n')
variable("a copy", 'import os\n\n\ndef number():\n    return os.environ.copy()["REACHED"]\n')
variable("a dict", 'import os\n\n\ndef number():\n    return dict(os.environ)["REACHED"]\n')
variable("a union", 'import os\n\n\ndef number():\n    return ({"REACHED": "0"} | os.environ)["REACHED"]\n')
variable(
    "all names",
    'import os\n\n\ndef number():\n    return 1 + sum(one.startswith("REACHED") for one in os.environ)\n',
    values=(None, "a"),
)
variable(
    "all items",
    """
        import os


        def number():
            return next(value for name, value in os.environ.items() if name.lower() == "reached")
        """,
)
variable("setdefault", 'import os\n\n\ndef number():\n    return os.environ.setdefault("REACHED", "3.0")\n')
variable("os.path.expandvars", 'import os\n\n\ndef number():\n    return os.path.expandvars("${REACHED}")\n')
variable("a template of variables", 'import os\n\n\ndef number():\n    return "{REACHED}".format_map(os.environ)\n')
variable(
    "keywords",
    "import os\n\n\ndef of(REACHED, **rest):\n    return REACHED\n\n\ndef number():\n    return of(**os.environ)\n",
)
variable(
    "a file that a variable names",
    'import os\n\n\ndef number():\n    return open(os.environ["REACHED"]).read()\n',
    values=("HERE/a.txt", "HERE/b.txt"), files={"a.txt": "1.0", "b.txt": "2.0"}, edit=unedited,
)  # fmt: skip
variable(
    "the home directory",
    'import os\n\n\ndef number():\n    return open(os.path.expanduser("~/a.txt")).read()\n',
    "HOME",
    ("HERE/one", "HERE/two"),
    files={"one/a.txt": "1.0", "two/a.txt": "2.0"},
    edit=unedited,
)
variable(
    "Path.home",
    'from pathlib import Path\n\n\ndef number():\n    return {"one": 1, "two": 2}[Path.home().name]\n',
    "HOME",
    ("/one", "/two"),
)
variable(
    "a variable in a configuration file",
    """
    import os
    from configparser import ConfigParser


    def number():
        found = ConfigParser(os.environ, interpolation=None)
        found.read_string("[a]")
        return found["a"]["reached"]
    """,
)
variable(
    "a constant of a module", 'import os\n\nSIZE = os.environ.get("REACHED")\n\n\ndef number():\n    return SIZE\n'
)
variable(
    "a class attribute",
    'import os\n\n\nclass Sizes:\n    size = float(os.getenv("REACHED", 3))\n\n\ndef number():\n    return Sizes.size\n',
)
variable(
    "a constant of a module that is looked up",
    'def number():\n    return __import__("mine_" + "sizes").SIZE\n',
    files={"site/mine_sizes.py": 'import os\n\nSIZE = os.environ["REACHED"]\n'}, edit=unedited,
)  # fmt: skip
variable(
    "a variable in a thread",
    """
    import os
    from concurrent.futures import ThreadPoolExecutor


    def number():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(os.getenv, "REACHED").result()
    """,
)
variable("the name of the user", "import getpass\n\n\ndef number():\n    return getpass.getuser()\n", "LOGNAME")
variable(
    "the folder of temporary files",
    """
    import tempfile


    def number():
        tempfile.tempdir = None
        return {"one": 1, "two": 2}[tempfile.gettempdir().rpartition("/")[2]]
    """,
    "TMPDIR", ("HERE/one", "HERE/two"), files={"one/a": "", "two/a": ""}, edit=unedited,
)  # fmt: skip
variable(
    "proxies that a library looks for",
    'from urllib.request import getproxies\n\n\ndef number():\n    return getproxies()["reached"]\n', "reached_proxy",
)  # fmt: skip
variable(
    "a folder that a library looks for",
    """
    from platformdirs import user_data_path


    def number():
        return (user_data_path() / "a.txt").read_text()
    """,
    "XDG_DATA_HOME", ("HERE/one", "HERE/two"), files={"one/a.txt": "1.0", "two/a.txt": "2.0"}, edit=unedited,
)  # fmt: skip
variable("the option of a command", """
    import click


    @click.command()
    @click.option("--size", type=float, envvar="REACHED")
    def command(size):
        return size


    def number():
        return command.main([], standalone_mode=False)
    """)  # fmt: skip
variable(
    "where programs are",
    """
    import shutil


    def number():
        return 1 + bool(shutil.which("reached-program"))
    """,
    "PATH",
    ("/usr/bin:/bin", "HERE/bin:/usr/bin:/bin"),
    files={"bin/reached-program": "#!/bin/sh\n"},
    edit=unedited,
)
variable(
    "getenv of the C library",
    """
    import ctypes

    LIBC = ctypes.CDLL(None)
    LIBC.getenv.restype = ctypes.c_char_p


    def number():
        return LIBC.getenv(b"REACHED")
    """,
    expected=UNOBSERVED, reached="REACHED|getenv|ctypes",
)  # fmt: skip
variable(
    "a variable of a child", """
        import subprocess


        def number():
            return subprocess.check_output(["printenv", "REACHED"])
        """,
    expected=UNOBSERVED, reached="REACHED|printenv|child|process",
)  # fmt: skip
VARIABLES.append(
    replace(
        next(one for one in CASES if one.name == "a decoder's file"),
        name="a variable that a decoder reads", edit=unedited, before={"REACHED": "1.0"}, after={"REACHED": "2.0"},
        files={
            **next(one for one in CASES if one.name == "a decoder's file").files,
            "site/bench_mine/parts.py": 'import os\n\n\ndef number():\n    return os.environ["REACHED"]\n' + DECODE,
        },
        reached="REACHED",
    )
)  # fmt: skip
task("a variable that a task is prepared with", """
    import os


    def number():
        return os.environ["REACHED"]
    """, {}, "number()",
     to=VARIABLES, before={"REACHED": "1.0"}, after={"REACHED": "2.0"}, reached="REACHED")  # fmt: skip
trained(
    "a variable that a loss is computed with",
    'import os\n\n\ndef number():\n    return os.environ["REACHED"]\n',
    {},
    "loss(self, batch, training)",
    to=VARIABLES,
    before={"REACHED": "1.0"},
    after={"REACHED": "2.0"},
    reached="REACHED",
)

# --- bad input

ASKED = {"to": BAD, "expected": EITHER, "steady": False}

metric(
    "a socket",
    """
    import socket


    def number():
        with socket.create_connection(("127.0.0.1", PORT)) as one:
            return one.recv(100).partition(b"\\r\\n\\r\\n")[2]
    """,
    reached="127.0.0.1|socket", **ASKED,
)  # fmt: skip
metric(
    "a page",
    'from urllib.request import urlopen\n\n\ndef number():\n    return urlopen("http://127.0.0.1:PORT/").read()\n',
    reached="127.0.0.1|socket", **ASKED,
)  # fmt: skip
metric(
    "a socket of asyncio",
    """
    import asyncio


    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        found = await reader.read(100)
        writer.close()
        return found.partition(b"\\r\\n\\r\\n")[2]


    def number():
        return asyncio.run(ask())
    """,
    reached="127.0.0.1|socket", **ASKED,
)  # fmt: skip
metric("a terminal", 'def number():\n    return open("TERMINAL").readline()\n', reached="/dev/", **ASKED)
metric(
    "a device by os.open",
    'import os\n\n\ndef number():\n    return os.read(os.open("TERMINAL", os.O_RDONLY), 100)\n',
    reached="/dev/",
    **ASKED,
)
metric("a named pipe", 'def number():\n    return open("reached.pipe").readline()\n', reached="reached", **ASKED)
STDIN = {**ASKED, "stdin": ("1.0\n" * 9, "2.0\n" * 9), "reached": "stdin|standard input|/dev/stdin"}
metric("input", "def number():\n    return input()\n", **STDIN)
metric("sys.stdin", "import sys\n\n\ndef number():\n    return sys.stdin.readline()\n", **STDIN)
metric("the buffer of sys.stdin", "import sys\n\n\ndef number():\n    return sys.stdin.buffer.readline()\n", **STDIN)
metric(
    "the descriptor of standard input",
    "import os\n\n\ndef number():\n    return os.read(0, 4)\n",
    **{**STDIN, "reached": ".*"},
)
metric("open of a descriptor", "def number():\n    return open(0, closefd=False).readline()\n", **STDIN)
metric("/dev/stdin", 'def number():\n    return open("/dev/stdin").readline()\n', **STDIN)
metric(
    "fileinput of standard input",
    'import fileinput\n\n\ndef number():\n    return fileinput.input(files=["-"]).readline()\n',
    **STDIN,
)
metric("a listing of a folder", """
    import os


    def number():
        return len(os.listdir("reached"))
    """, {"reached/a": ""}, to=BAD, expected=EITHER,
       edit=written("reached/b", ""))  # fmt: skip
metric(
    "a listing that a removed file changes",
    """
        import os


        def number():
            return 3 - len(os.listdir("reached"))
        """, {"reached/a": "", "reached/b": ""}, to=BAD, expected=EITHER,
    edit=lambda here: (here / "reached/b").unlink(),
)  # fmt: skip
metric(
    "a listing of a folder in a folder",
    'from pathlib import Path\n\n\ndef number():\n    return len([*Path("reached").glob("**/*.txt")])\n',
    {"reached/inner/a.txt": ""}, to=BAD, expected=EITHER, edit=written("reached/inner/b.txt", ""),
)  # fmt: skip
metric(
    "a counter of its own",
    """
    def number():
        now = float(open("reached.txt").read())
        open("reached.txt", "w").write(str(now + 1))
        return now
    """,
    TEXT, edit=unedited, **ASKED,
)  # fmt: skip
metric(
    "a cache of its own",
    """
    from pathlib import Path


    def number():
        if not Path("reached.txt").exists():
            Path("reached.txt").write_text("1.0")
        return Path("reached.txt").read_text()
    """,
    edit=written("reached.txt", "2.0"), to=BAD, expected=EITHER,
)  # fmt: skip
metric(
    "a cache of its own beside the code",
    """
    import json
    from pathlib import Path

    PLACE = Path(__file__).with_name("reached.json")


    def number():
        try:
            return json.loads(PLACE.read_text())["a"]
        except OSError:
            PLACE.write_text(json.dumps({"a": 1.0}))
            return json.loads(PLACE.read_text())["a"]
    """,
    edit=written("site/bench_mine/reached.json", '{"a": 2.0}'), to=BAD, expected=EITHER,
)  # fmt: skip
metric(
    "a file that is opened for both",
    """
    def number():
        with open("reached.txt", "r+") as file:
            found = file.read()
            file.write("")
            return found
    """,
    TEXT, to=BAD, expected=EITHER,
)  # fmt: skip
metric(
    "a name that is no text",
    'import os\n\n\ndef number():\n    return open(os.fsdecode(b"reached-\\xff.txt")).read()\n',
    {os.fsdecode(b"reached-\xff.txt"): "1.0"},
    to=BAD,
)
metric(
    "a name with a line break",
    'def number():\n    return open("reached\\n.txt").read()\n',
    {"reached\n.txt": "1.0"},
    to=BAD,
)
metric(
    "a file with no end", 'def number():\n    return 1 + (open("/dev/zero", "rb").read(1) != b"\\0")\n', to=HARMLESS
)

# --- after which nothing is computed


def harmless(name: str, code: str, files: Mapping[str, Content] | None = None, **rest: Any) -> None:
    """Add a metric for which an edit makes no difference."""
    metric(name, code, files, **{"to": HARMLESS, "edit": unedited, **rest})


ONE = "def number():\n    return 1.0\n"


def _touched(here: Path) -> None:
    os.utime(here / "reached.txt", (2e9, 2e9))


def _rewritten(here: Path) -> None:
    (here / "reached.txt").unlink()
    (here / "reached.txt").write_text("1.0")


harmless("a file that is touched", READ_IT, TEXT, edit=_touched)
harmless("a file that is written again", READ_IT, TEXT, edit=_rewritten)
harmless("a file beside it", READ_IT, TEXT, edit=written("other.txt", "2.0"))
harmless("a file in another folder", READ_IT, TEXT, edit=written("lists/reached.txt", "2.0"))
harmless(
    "a file that is read twice",
    "def number():\n    return open('reached.txt').read() and open('reached.txt').read()\n",
    TEXT,
)
harmless(
    "a file that is edited and restored", READ_IT, TEXT, edit=lambda here: (changed(TEXT)(here), _rewritten(here))
)
harmless("another mode of a file", READ_IT, TEXT, edit=lambda here: (here / "reached.txt").chmod(0o600))
harmless(
    "a folder with the same files",
    READ_IT.replace("reached.txt", "lists/reached.txt"),
    {"lists/reached.txt": "1.0"},
    edit=lambda here: (
        shutil.copytree(here / "lists", here / "new"),
        shutil.rmtree(here / "lists"),
        (here / "new").rename(here / "lists"),
    ),
)
harmless(
    "a temporary file",
    """
    import tempfile


    def number():
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("1.0")
            file.flush()
            return open(file.name).read()
    """,
)
harmless(
    "a temporary folder",
    """
    import os
    import tempfile
    from pathlib import Path


    def number():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.txt").write_text("1.0")
            assert os.listdir(folder) == ["a.txt"]
            return Path(folder, "a.txt").read_text()
    """,
)
harmless(
    "a temporary file that stays",
    """
    import os
    import tempfile


    def number():
        handle, name = tempfile.mkstemp()
        os.write(handle, b"1.0")
        os.close(handle)
        return open(name).read()
    """,
    before={"TMPDIR": "HERE/tmp"},
    after={"TMPDIR": "HERE/tmp"},
    edit=lambda here: (shutil.rmtree(here / "tmp"), (here / "tmp").mkdir()),
    files={"tmp/a": ""},
)
harmless("a spooled file", """
    import tempfile


    def number():
        with tempfile.SpooledTemporaryFile(1, "w+") as file:
            file.write("1.0")
            file.seek(0)
            return file.read()
    """)  # fmt: skip
harmless(
    "a file that it only writes",
    'def number():\n    open("reached.txt", "w").write("a")\n    return 1.0\n',
    edit=written("reached.txt", "b"),
)
harmless(
    "a log that it adds to",
    'def number():\n    open("reached.log", "a").write("a")\n    return 1.0\n',
    edit=written("reached.log", ""),
)
harmless("/dev/null", 'def number():\n    return 1.0 + len(open("/dev/null").read())\n')
harmless("/dev/urandom", 'def number():\n    return 1.0 + 0 * len(open("/dev/urandom", "rb").read(4))\n')
harmless(
    "os.urandom",
    """
        import os
        import secrets
        import uuid


        def number():
            return len(os.urandom(1)) + 0 * len(secrets.token_hex() + str(uuid.uuid4()))
        """,
)
harmless(
    "a time zone",
    'from zoneinfo import ZoneInfo\n\n\ndef number():\n    return bool(ZoneInfo("Europe/Berlin"))\n',
    needs=("zones",),
)
harmless(
    "the time",
    """
        import time
        from datetime import datetime


        def number():
            return bool(time.localtime() and datetime.now().astimezone())
        """,
)
harmless(
    "a locale",
    """
        import locale


        def number():
            locale.setlocale(locale.LC_ALL, "C.UTF-8")
            return bool(locale.localeconv())
        """,
)
harmless(
    "the standard library's sources",
    """
        import inspect
        import json
        import linecache


        def number():
            return bool(inspect.getsource(json) and linecache.getlines(json.decoder.__file__))
        """,
)
harmless(
    "a module of the standard library",
    "def number():\n    import html.entities\n    import wave\n\n    return bool(html.entities and wave)\n",
)
harmless(
    "a trace",
    """
        import traceback


        def number():
            return bool(traceback.format_stack() and traceback.extract_stack()[-1].line)
        """,
)
harmless(
    "an error that is caught",
    """
        import traceback


        def number():
            try:
                return {}[1]
            except KeyError:
                return bool(traceback.format_exc())
        """,
)
harmless(
    "a library that the code names",
    "import numpy as np\n\n\ndef number():\n    import numpy.polynomial\n\n    return np.polynomial.Polynomial([1.0])(0)\n",
)
harmless(
    "a library with data",
    "import sacrebleu\n\n\ndef number():\n    return len([sacrebleu.sentence_bleu('a b c d', ['a b c d'])])\n",
    needs=("sacrebleu",),
)
harmless(
    "a library that looks into its folder",
    """
        import numpy
        from importlib.resources import files
        from pathlib import Path


        def number():
            return bool([*Path(numpy.__file__).parent.iterdir()] and [*files('numpy').iterdir()])
        """,
)
harmless(
    "the version of a library",
    'from importlib.metadata import version\n\n\ndef number():\n    return bool(version("numpy"))\n',
)
harmless("a comment in the code", ONE, edit=lambda here: _commented(here / "site/bench_mine/parts.py"))
harmless(
    "a comment in a module that is followed",
    "from bench_mine.reached import number\n",
    {"site/bench_mine/reached.py": HELPER},
    edit=lambda here: _commented(here / "site/bench_mine/reached.py"),
)
harmless(
    "a docstring that nobody reads",
    'def number():\n    """Say 1."""\n    return 1.0\n',
    edit=replaced("site/bench_mine/parts.py", "Say 1.", "Say one."),
)
harmless(
    "a function that nobody calls",
    "def number():\n    return 1.0\n\n\ndef other():\n    return 3\n",
    edit=replaced("site/bench_mine/parts.py", "return 3", "return 4"),
)
harmless(
    "a file of the package that nobody reads",
    ONE,
    {"site/bench_mine/reached.txt": "1.0"},
    edit=written("site/bench_mine/reached.txt", "2.0"),
)
harmless("a new module that nobody imports", ONE, edit=written("site/bench_mine/reached.py", HELPER))
harmless("compiled modules", ONE, edit=lambda here: written("site/bench_mine/__pycache__/parts.pyc", "")(here))
harmless(
    "a file that is still not there",
    "import os\n\n\ndef number():\n    return 1 + os.path.exists('reached.txt')\n",
    edit=written("other.txt", ""),
)
harmless(
    "a listing of the same names",
    "import os\n\n\ndef number():\n    return len(os.listdir('lists'))\n",
    {"lists/a": "1.0"},
    edit=written("lists/a", "2.0"),
)
harmless(
    "a listing in another order",
    """
    from pathlib import Path


    def number():
        return len({one.name for one in Path('lists').iterdir()}) / 3
    """,
    {"lists/a": "", "lists/b": "", "lists/c": ""},
    edit=lambda here: ((here / "lists/a").unlink(), written("lists/a", "")(here)),
)
harmless(
    "runs and reports",
    ONE,
    edit=lambda here: (written("runs/other/log", "a")(here), written("reports/other/report.md", "a")(here)),
)
harmless("what lies in the store beside artifacts", ONE, edit=written("store/other.txt", "a"))
harmless(
    "another thread that sleeps",
    """
        from threading import Thread


        def number():
            thread = Thread(target=int)
            thread.start()
            thread.join()
            return 1.0
        """,
)
for key, values in {
    "OMP_NUM_THREADS": ("1", "2"), "OMP_SCHEDULE": (None, "static"), "MKL_NUM_THREADS": ("1", "2"), "MKL_CBWR": (None, "AVX2"),
    "ATEN_CPU_CAPABILITY": (None, "default"), "LC_ALL": ("C", "C.UTF-8"), "TZ": ("UTC", "Europe/Berlin"),
}.items():  # fmt: skip
    variable(
        f"{key}, which is provenance",
        f'import os\n\n\ndef number():\n    return bool((os.environ.get("{key}"), 1))\n',
        key,
        values,
        to=HARMLESS,
    )
variable("a variable that nobody reads", ONE, "OTHER", ("1", "2"), to=HARMLESS)
variable(
    "another variable",
    'import os\n\n\ndef number():\n    return len(os.environ.get("REACHED", "a"))\n',
    "OTHER",
    (None, "2"),
    to=HARMLESS,
)
variable(
    "a variable that it sets itself",
    'import os\n\n\ndef number():\n    os.environ["REACHED"] = "1.0"\n    return os.environ["REACHED"]\n',
    to=HARMLESS,
)
variable(
    "a variable that the machine sets",
    "import os\n\n\ndef number():\n    return 1.0\n",
    "COLUMNS",
    ("80", "120"),
    to=HARMLESS,
)


def _commented(path: Path) -> None:
    path.write_text(f"# a comment\n\n{path.read_text()}")


#: Of what is harmless, that which reaches nothing outside the key.
CLEAN = (
    "a temporary file",
    "a temporary folder",
    "a temporary file that stays",
    "a spooled file",
    "a file that it only writes",
    "a log that it adds to",
    "/dev/null",
    "/dev/urandom",
    "os.urandom",
    "a time zone",
    "the time",
    "a locale",
    "the standard library's sources",
    "a module of the standard library",
    "a trace",
    "an error that is caught",
    "a library that the code names",
    "a library with data",
    "a library that looks into its folder",
    "the version of a library",
    "a comment in the code",
    "a docstring that nobody reads",
    "a file of the package that nobody reads",
    "runs and reports",
    "another thread that sleeps",
    "OMP_NUM_THREADS, which is provenance",
    "MKL_NUM_THREADS, which is provenance",
    "ATEN_CPU_CAPABILITY, which is provenance",
    "LC_ALL, which is provenance",
    "TZ, which is provenance",
    "a variable that nobody reads",
)
