"""Further ways in which a metric reaches inputs: what is absent, what libraries read in compiled code, what they cache."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

from reaching import EITHER, MEASURE, METRIC, SUITE, Case, metric, unedited, written

FURTHER: list[Case] = []
NOTHING: list[Case] = []  # with which strict runs pass


def database(number: float) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        with sqlite3.connect(path) as connection:
            connection.execute("create table t(n)")
            connection.execute("insert into t values(?)", (number,))
        connection.close()
        return path.read_bytes()


def scripted(number: float) -> bytes:
    import torch

    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.tensor(number))

        def forward(self):
            return self.n

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(One()), file)
    return file.getvalue()


def words(number: float) -> bytes:
    return json.dumps({"u": 0, "a": int(number), "b": 3 - int(number)}).encode()


def translation(number: float) -> bytes:
    texts = [b"", b"n"], [b"Content-Type: text/plain; charset=UTF-8\n", str(number).encode()]
    start, content, places = 28 + 32, b"", b""
    for text in [*texts[0], *texts[1]]:
        places += struct.pack("<2I", len(text), start + len(content))
        content += text + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, 2, 28, 44, 0, 0) + places + content


def newer(path: str):
    return lambda here: os.utime(here / path, ns=(2 * 10**18, 2 * 10**18))


def as_folder(here: Path) -> None:
    (here / "reached/a").unlink()
    (here / "reached/a").mkdir()


APPEARS = written("site/mine_reached.py", "N = 2.0\n")


def further(name, code, files=None, **rest):
    metric(name, code, files or {}, to=FURTHER, **rest)


# what is absent

further("import_module of a library that is absent", """
    from importlib import import_module


    def number():
        try:
            return import_module("mine_reached").N
        except ImportError:
            return 1.0
    """, edit=APPEARS)  # fmt: skip
further("__import__ of what is absent", """
    def number():
        try:
            return __builtins__["__import__"]("mine_" + "reached").N
        except ImportError:
            return 1.0
    """, edit=APPEARS)  # fmt: skip
further("import_module of a module of its own package that is absent", """
    from importlib import import_module


    def number():
        try:
            return import_module(".reached", __package__).N
        except ImportError:
            return 1.0
    """, edit=written("site/bench_mine/reached.py", "N = 2.0\n"))  # fmt: skip
further("find_spec", """
    from importlib.util import find_spec


    def number():
        return 1.0 if find_spec("mine_reached") is None else 2.0
    """, edit=APPEARS)  # fmt: skip
further("find_spec of a module that goes", """
    from importlib.util import find_spec


    def number():
        return 2.0 if find_spec("mine_reached") is None else 1.0
    """, {"site/mine_reached.py": "N = 1\n"}, edit=lambda here: (here / "site/mine_reached.py").unlink())  # fmt: skip
further("pkgutil.iter_modules", """
    import pkgutil


    def number():
        return 2.0 if any(one.name == "mine_reached" for one in pkgutil.iter_modules()) else 1.0
    """, edit=APPEARS, reached="site")  # fmt: skip
further("os.listdir of sys.path", """
    import os
    import sys


    def number():
        return 2.0 if "mine_reached.py" in os.listdir(sys.path[0]) else 1.0
    """, edit=APPEARS, reached="site")  # fmt: skip
further("an import in exec", """
    def number():
        try:
            exec("import mine_reached")
            return 2.0
        except ImportError:
            return 1.0
    """, edit=APPEARS)  # fmt: skip

# entries of a folder

further("the size of a DirEntry", """
    import os


    def number():
        with os.scandir("reached") as found:
            return float(sum(one.stat().st_size for one in found))
    """, {"reached/a": "1"}, edit=written("reached/a", "22"))  # fmt: skip
further("the newest DirEntry", """
    import os


    def number():
        with os.scandir("reached") as found:
            return float(max(found, key=lambda one: (one.stat().st_mtime_ns, one.name)).name)
    """, {"reached/1.0": "", "reached/2.0": ""}, answers=(2.0, 1.0), edit=newer("reached/1.0"))  # fmt: skip
further("is_dir of a DirEntry", """
    import os


    def number():
        with os.scandir("reached") as found:
            return 1.0 + sum(one.is_dir() for one in found)
    """, {"reached/a": ""}, edit=as_folder)  # fmt: skip
further("the folders of os.walk", """
    import os


    def number():
        return 1.0 + sum(len(folders) for _, folders, _ in os.walk("reached"))
    """, {"reached/a": ""}, edit=as_folder)  # fmt: skip

# what makes no difference, in strict runs too

for _name, _code in (
    ("the version of a library", "from importlib.metadata import version\n\n\ndef number():\n    return bool(version('numpy'))\n"),
    ("an import that the text names", "def number():\n    try:\n        import mine_absent\n\n        return mine_absent.N\n    except ImportError:\n        return 1.0\n"),
    ("a loaded library by its name", "import numpy\nfrom importlib import import_module\n\n\ndef number():\n    return numpy.ones(1)[0] * bool(import_module('numpy'))\n"),
    ("find_spec of a library that it imports", "import numpy\nfrom importlib.util import find_spec\n\n\ndef number():\n    return numpy.ones(1)[0] * bool(find_spec('numpy'))\n"),
):  # fmt: skip
    metric(_name, _code, {}, to=NOTHING, edit=unedited)

# what a library caches

TWO = METRIC.replace(
    "@hookimpl",
    'class OtherConfig(MetricConfig):\n    name, target = "other", "bench_mine.other:Mine"\n\n\n@hookimpl',
).replace("return [MineConfig]", "return [MineConfig, OtherConfig]")
BOTH = SUITE.replace("mine: {name: mine}", "mine: {name: mine}\n      other: {name: other}")
TRANSLATED = "gettext.translation('reached', 'loc', languages=['de']).gettext('n')"
for _name, _read in (
    ("getline", "linecache.getline('reached.txt', 1)"),
    ("getlines", "linecache.getlines('reached.txt')[0]"),
):
    further(
        f"linecache.{_name} of two metrics",
        f"import linecache\n\n\ndef number():\n    return float({_read})\n",
        {"reached.txt": "1.0\n", "site/bench_mine/other.py": f"import linecache\n{MEASURE.replace('number()', _read)}"},
        plugin=TWO, suite=BOTH,
    )  # fmt: skip
further(
    "gettext of two metrics",
    f"import gettext\n\n\ndef number():\n    return float({TRANSLATED})\n",
    {
        "loc/de/LC_MESSAGES/reached.mo": translation,
        "site/bench_mine/other.py": f"import gettext\n{MEASURE.replace('number()', TRANSLATED)}",
    },
    plugin=TWO, suite=BOTH,
)  # fmt: skip

# compiled code

further("BPE.from_file", """
    from tokenizers import Tokenizer, models


    def number():
        return float(Tokenizer(models.BPE.from_file("vocab.json", "reached.txt")).encode("ab").ids[0])
    """, {"vocab.json": '{"a": 3, "b": 4, "ab": 1, "ba": 5}', "reached.txt": "a b\n"}, answers=(1.0, 3.0),
    edit=written("reached.txt", "b a\n"), needs=("tokenizers",))  # fmt: skip
further("WordLevel.from_file", """
    from tokenizers import Tokenizer, models


    def number():
        return float(Tokenizer(models.WordLevel.from_file("reached.json", "u")).encode("a").ids[0])
    """, {"reached.json": words}, needs=("tokenizers",))  # fmt: skip
further("Tokenizer.train", """
    from tokenizers import Tokenizer, models, trainers


    def number():
        made = Tokenizer(models.WordLevel(unk_token="u"))
        made.train(["reached.txt"], trainers.WordLevelTrainer(special_tokens=["u"], show_progress=False))
        return float(made.get_vocab_size() - 1)
    """, {"reached.txt": "a"}, edit=written("reached.txt", "a\nb\n"), needs=("tokenizers",))  # fmt: skip
for _name, _input in (("SentencePieceTrainer", "input='reached.txt'"), ("a list for it", "input=['reached.txt']")):
    further(f"{_name}.train", f"""
        import io

        import sentencepiece


        def number():
            out = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                {_input}, model_writer=out, vocab_size=8, model_type="char", minloglevel=3, hard_vocab_limit=False
            )
            return float(sentencepiece.SentencePieceProcessor(model_proto=out.getvalue()).get_piece_size() - 4)
        """, {"reached.txt": "a\n" * 10}, edit=written("reached.txt", "a\nb\n" * 10), needs=("sentencepiece",))  # fmt: skip
further("lxml.etree.ElementTree", """
    from lxml import etree


    def number():
        return float(etree.ElementTree(file="reached.xml").getroot().text)
    """, {"reached.xml": "<n>1.0</n>"}, needs=("lxml",))  # fmt: skip
for _name, _how in (
    ("ATTACH", "(\"attach 'reached.db' as r\")"),
    ("ATTACH of a uri", "(\"attach 'file:reached.db' as r\")"),
):
    further(_name, f"""
        import sqlite3


        def number():
            with sqlite3.connect("file::memory:", uri=True) as db:
                db.execute{_how}
                return db.execute("select n from r.t").fetchone()[0]
        """, {"reached.db": database})  # fmt: skip
further("torch.jit.load", """
    import torch


    def number():
        return torch.jit.load("reached.pt")().item()
    """, {"reached.pt": scripted})  # fmt: skip

# sockets

further("a name that is resolved", """
    import socket


    def number():
        try:
            return float(len(socket.getaddrinfo("reached.invalid", 80)))
        except OSError:
            return 1.0
    """, expected=EITHER)  # fmt: skip
further("UDP", """
    import socket


    def number():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"", ("127.0.0.1", 9))
            return 1.0
    """, expected=EITHER, reached="127.0.0.1")  # fmt: skip
further("a socket that others send to", """
    import socket


    def number():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waiting:
            waiting.bind(("127.0.0.1", 0))
            return 1.0
    """, expected=EITHER, reached="127.0.0.1")  # fmt: skip
