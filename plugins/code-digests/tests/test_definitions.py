"""The digest of a definition changes with all that it may depend on, and with nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest

from code_digests import Codebase, CodeDigests

MODEL = "class Model:\n    x = f\n"


def package(model=MODEL, **modules):
    """Return the files of package `a`: `model.py`, and other modules by name."""
    return {"a/__init__.py": "", "a/model.py": model, **{f"a/{name}.py": text for name, text in modules.items()}}


def digest(folder, files, root="a.model:Model", **options):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    code = Codebase(**options)
    for name in {name.split("/")[0] for name in files}:
        code._homes[name.removesuffix(".py")] = [folder / name]
    return CodeDigests(code).of_parts({"part": (root,)})["part"]


def of_b(model, before="def f(): return 1\n", after="def f(): return 2\n", **more):
    """Return two packages that differ in module `b`."""
    return package(model, b=before, **more), package(model, b=after, **more)


def of_model(before, after, **more):
    return package(before, **more), package(after, **more)


def caught(handler, error="RuntimeError"):
    """Return two modules that differ in the message of an error, which a handler catches."""
    text = (
        f"class OwnError(RuntimeError): pass\n\ndef f():\n    raise {error}('NUMBER')\n\n"
        f"def g():\n    try:\n        f()\n    {handler}\n\nclass Model:\n    x = g\n"
    )
    return text.replace("NUMBER", "one"), text.replace("NUMBER", "two")


MATTERS = {
    "a function that a class names": of_b("from a.b import f\n" + MODEL),
    "a function that a function names": of_b("from a.b import f\ndef g(): return f()\nclass Model:\n    x = g\n"),
    "a function behind three modules": of_b(
        "from a.c import f\n" + MODEL, c="from a.d import f\n", d="from a.b import f as f\n"
    ),
    "a relative import": of_b("from .b import f\n" + MODEL),
    "a relative import of a module": of_b("from . import b\nclass Model:\n    x = b.f\n"),
    "a star import": of_b("from a.b import *\n" + MODEL),
    "a star import of a star import": of_b("from a.c import *\n" + MODEL, c="from a.b import *\n"),
    "a module under a name": of_b("import a.b as c\nclass Model:\n    x = c.f\n"),
    "a module in full": of_b("import a.b\nclass Model:\n    x = a.b.f\n"),
    "a module as a value": of_b("from a import b\nclass Model:\n    x = getattr(b, 'f')\n"),
    "a module named in a text": of_b("from importlib import import_module\nclass Model:\n    x = import_module('a.b')\n"),
    "a target named in a text": of_b("class Model:\n    target = 'a.b:f'\n"),
    "a module whose name is computed": of_b(
        "from importlib import import_module\nclass Model:\n    def g(self, n): return import_module(f'a.{n}')\n"
    ),
    "a module found among those that are imported": of_b(
        "import sys\nclass Model:\n    def g(self, n): return sys.modules[n].f\n"
    ),
    "an import inside of a function": of_b("class Model:\n    def g(self):\n        from a.b import f\n        return f()\n"),
    "an import of a module inside of a function": of_b(
        "class Model:\n    def g(self):\n        import a.b\n        return a.b.f()\n"
    ),
    "either of two imports": of_b("try:\n    from a.c import f\nexcept ImportError:\n    from a.b import f\n" + MODEL),
    "an import or a constant": of_b("try:\n    from a.b import f\nexcept ImportError:\n    f = None\n" + MODEL),
    "a name that a package gives away": of_b("from a.inner import f\n" + MODEL, **{"inner/__init__": "from a.b import f\n"}),
    "a name that a package gives when it is asked": of_b(
        "from a.api import f\n" + MODEL,
        api="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import f\ndef __getattr__(name): ...\n",
    ),
    "a function inside of a function": of_model(
        *(f"def f():\n    def g(): return {n}\n    return g\n" + MODEL for n in (1, 2))
    ),
    "a method": of_model(*(f"class Model:\n    def f(self): return {n}\n" for n in (1, 2))),
    "a base class": of_b("from a.b import Base\nclass Model(Base): ...\n", "class Base:\n    x = 1\n", "class Base:\n    x = 2\n"),
    "a meta class": of_b("from a.b import M\nclass Model(metaclass=M): ...\n", "class M(type): x = 1\n", "class M(type): x = 2\n"),
    "a method that overrides": of_model("class Model(Base): ...\nclass Base: ...\n", "class Model(Base):\n    def f(self): ...\nclass Base: ...\n"),
    "a subclass that is found by its base": of_b(
        "from a.b import Base\nclass Model:\n    x = Base.__subclasses__()\n",
        "class Base: ...\nclass Own(Base):\n    x = 1\n", "class Base: ...\nclass Own(Base):\n    x = 2\n",
    ),
    "a class that registers by being defined": of_model(*(
        f"class Base:\n    all = []\n    def __init_subclass__(cls): Base.all.append(cls)\nclass Own(Base):\n    x = {n}\n"
        "class Model:\n    x = Base.all\n" for n in (1, 2)
    )),
    "a default of an argument": of_model(*(f"def f(x={n}): return x\n" + MODEL for n in (1, 2))),
    "a default of a keyword": of_model(*(f"def f(*, x={n}): return x\n" + MODEL for n in (1, 2))),
    "a decorator": of_model("from functools import cache\ndef f(): ...\n" + MODEL, "from functools import cache\n@cache\ndef f(): ...\n" + MODEL),
    "a decorator of one's own": of_b("from a.b import f\n@f\nclass Model: ...\n"),
    "a constant": of_model(*(f"N = {n}\ndef f(): return N\n" + MODEL for n in (1, 2))),
    "a constant of another type": of_model(*(f"f = {n}\n" + MODEL for n in ("1", "True"))),
    "the sign of a zero": of_model(*(f"f = {n}\n" + MODEL for n in ("0.0", "-0.0"))),
    "the order of a dictionary": of_model(*(f"f = {n}\n" + MODEL for n in ("{1: 1, 2: 2}", "{2: 2, 1: 1}"))),
    "bytes instead of a text": of_model(*(f"f = {n}\n" + MODEL for n in ("'a'", "b'a'"))),
    "an operator": of_model(*(f"def f(x): return x {n} 1\n" + MODEL for n in "+-")),
    "a comparison": of_model(*(f"def f(x): return x {n} 1\n" + MODEL for n in ("<", "<="))),
    "none instead of nothing in a match": of_model(*(
        f"def f(x):\n    match x:\n        case {n}: return 1\n" + MODEL for n in ("None", "False")
    )),
    "where a statement belongs": of_model(
        "def f(x):\n    if x:\n        x = 1\n    x = 2\n    return x\n" + MODEL,
        "def f(x):\n    if x:\n        x = 1\n        x = 2\n    return x\n" + MODEL,
    ),
    "async": of_model(*(f"{n}def f(): return 1\n" + MODEL for n in ("", "async "))),
    "a generator instead of a list": of_model(*(f"f = {n}\n" + MODEL for n in ("[x for x in ()]", "(x for x in ())"))),
    "an unpacked argument": of_model(*(f"def f(x): return g({n}x)\ndef g(*x): ...\n" + MODEL for n in ("", "*"))),
    "a global": of_model(*(f"N = 1\ndef s():\n    global N\n    N = {n}\ns()\nclass Model:\n    x = N\n" for n in (2, 3))),
    "a condition around a definition": of_model(*(
        f"import sys\nif sys.platform == 'linux':\n    F = 1\nelse:\n    F = {n}\nclass Model:\n    x = F\n" for n in (2, 3)
    )),
    "a definition inside of a try": of_model(*(
        f"try:\n    def f(): return {n}\nexcept Exception: pass\n" + MODEL for n in (1, 2)
    )),
    "a second binding of a name": of_model("F = 1\nclass Model:\n    x = F\n", "F = 1\nF += 1\nclass Model:\n    x = F\n"),
    "a deleted entry": of_model("T = {1: 1}\nclass Model:\n    x = T\n", "T = {1: 1}\ndel T[1]\nclass Model:\n    x = T\n"),
    "an entry in a table": of_model(*(f"T = {{}}\nT['x'] = {n}\nclass Model:\n    x = T\n" for n in (1, 2))),
    "an entry by a call": of_model(*(f"T = []\nT.append({n})\nclass Model:\n    x = T\n" for n in (1, 2))),
    "an entry by a call whose result is kept": of_model(*(f"T = []\n_ = T.append({n})\nclass Model:\n    x = T\n" for n in (1, 2))),
    "an entry by a decorator": of_b(
        "from a.b import T\nclass Model:\n    x = T\n",
        *(f"T = []\ndef enter(f):\n    T.append(f)\n@enter\ndef f():\n    return {n}\n" for n in (1, 2)),
    ),
    "a walrus": of_model(*(f"if (F := {n}):\n    pass\nclass Model:\n    x = F\n" for n in (1, 2))),
    "the variable of a loop": of_model(*(f"for F in (1, {n}): pass\nclass Model:\n    x = F\n" for n in (2, 3))),
    "what a with statement binds": of_model(*(f"with open({n}) as F: pass\nclass Model:\n    x = F\n" for n in (2, 3))),
    "what a match statement binds": of_model(*(f"match {n}:\n    case F: pass\nclass Model:\n    x = F\n" for n in (2, 3))),
    "a name looked up by text": of_model(*(f"def f(): return {n}\nclass Model:\n    x = globals()['f']\n" for n in (1, 2))),
    "a name that is evaluated": of_model(*(f"def f(): return {n}\nclass Model:\n    x = eval('f')\n" for n in (1, 2))),
    "an effect of an import far away": of_b(
        "import a.c\nclass Model:\n    x = 1\n",
        *(f"import torch\ntorch.set_default_dtype(torch.float{n})\n" for n in (32, 64)), c="from . import b\n",
    ),
    "an effect of a package": (
        package("class Model: ...\nimport a.b\n", b=""), {**package("class Model: ...\nimport a.b\n", b=""), "a/__init__.py": "import torch\ntorch.manual_seed(1)\n"},
    ),
    "a class changed from outside": (
        package("from a.b import f\n" + MODEL, b="class f: ...\n"), package("from a.b import f\nf.y = 1\n" + MODEL, b="class f: ...\n"),
    ),
    "another package": (
        {**package("from other.x import f\n" + MODEL), "other/__init__.py": "", "other/x.py": "def f(): return 1"},
        {**package("from other.x import f\n" + MODEL), "other/__init__.py": "", "other/x.py": "def f(): return 2"},
    ),
    "a module by itself": (
        {**package("import tools\nclass Model:\n    x = tools.f\n"), "tools.py": "def f(): return 1"},
        {**package("import tools\nclass Model:\n    x = tools.f\n"), "tools.py": "def f(): return 2"},
    ),
    "a file beside a module": tuple(
        {**package("from pathlib import Path\nP = Path(__file__)\nclass Model:\n    x = P\n"), "a/words.txt": n} for n in "12"
    ),
    "a file that is found inside of a function": tuple(
        {**package("from pathlib import Path\nclass Model:\n    def f(self): return Path(__file__)\n"), "a/b/words.txt": n} for n in "12"
    ),
    "a resource of a package": tuple(
        {**package("from importlib.resources import files\nclass Model:\n    x = files('a')\n"), "a/words.txt": n} for n in "12"
    ),
    "a resource by the module of resources": tuple(
        {**package("import importlib.resources as r\nclass Model:\n    x = r.files('a')\n"), "a/words.txt": n} for n in "12"
    ),
    "a compiled module": tuple(
        {**package("from a.fast import f\n" + MODEL), "a/fast.abi3.so": n} for n in "12"
    ),
    "another library under the same name": of_model("import numpy as np\nclass Model:\n    x = np.sum\n", "import jax.numpy as np\nclass Model:\n    x = np.sum\n"),
    "another name of a library": of_model("from math import sin as f\n" + MODEL, "from math import cos as f\n" + MODEL),
    "two helpers of one name that change places": of_b(
        "from a.b import f\nfrom a.c import f as g\nclass Model:\n    x = f, g\n", "def f(): return h()\ndef h(): return 1\n",
        "def f(): return h()\ndef h(): return 2\n", c="def f(): return h()\ndef h(): return 2\n",
    ),
    "annotations that a decorator reads": of_model(*(
        f"from functools import singledispatch\n@singledispatch\ndef f(x): ...\n@f.register\ndef _(x: {n}): ...\n" + MODEL for n in ("int", "str")
    )),
    "annotations that code reads": of_model(*(
        f"def f(x: {n}): ...\nclass Model:\n    x = f.__annotations__\n" for n in ("int", "str")
    )),
    "annotations that a library is asked for": of_model(*(
        f"from inspect import signature\ndef f(x: {n}): ...\nclass Model:\n    x = signature(f)\n" for n in ("int", "str")
    )),
    "a docstring that code reads": of_model(*(f"def f():\n    '''{n}'''\nclass Model:\n    x = f.__doc__\n" for n in ("one", "two"))),
    "a text that is no docstring": of_model(*(f"def f():\n    x = '''{n}'''\n" + MODEL for n in ("one", "two"))),
    "the type of a field": of_model("class Model:\n    x: int = 1\n", "class Model:\n    x: float = 1\n"),
    "the type of a field that is a class": of_b(
        "from a.b import T\nclass Model:\n    x: T\n", "class T:\n    y: int = 1\n", "class T:\n    y: int = 2\n"
    ),
    "the order of fields": of_model("class Model:\n    x: int\n    y: int\n", "class Model:\n    y: int\n    x: int\n"),
    "what is in an f-string": of_model(*(f"def f(x): return f'{{x:.{n}f}}'\n" + MODEL for n in (2, 3))),
    "the conversion in an f-string": of_model(*(f"def f(x): return f'{{x!{n}}}'\n" + MODEL for n in "rs")),
    "the class of an error": of_model(*(f"def f(): raise {n}('no')\n" + MODEL for n in ("ValueError", "TypeError"))),
    "the value of an error": of_model(*(f"def f(): raise ValueError('no', {n})\n" + MODEL for n in (1, 2))),
    "the message of an error": of_model(*(f"def f(): raise ValueError('{n}')\n" + MODEL for n in ("one", "two"))),
    "the message of an error with a value": of_model(*(f"def f(x): raise ValueError(f'{n} {{x}}')\n" + MODEL for n in ("one", "two"))),
    "a message that code branches on": of_model(*caught("except RuntimeError as e:\n        return 'one' in str(e)")),
    "a message of an error whose kind alone is looked at": of_model(*caught("except RuntimeError:\n        return 1")),
    "a message of an error that is made by a function": of_model(*(
        f"def e(): return ValueError('{n}')\ndef f(): raise e()\n" + MODEL for n in ("one", "two")
    )),
    "its own name, where it is read": (
        package("N = __name__\nclass Model:\n    x = N\n"),
        package("from a.b import N\nclass Model:\n    x = N\n", b="N = __name__\n"),
    ),
    "a cycle of functions": of_model(*(
        f"def f(x): return g(x)\ndef g(x): return h(x)\ndef h(x): return f(x) + {n}\n" + MODEL for n in (1, 2)
    )),
    "what a cycle names": of_b("from a.b import f as e\ndef f(x): return g(x)\ndef g(x): return f(x) + e()\n" + MODEL),
    "a class of its own module that it imports": of_b("from a.b import f\n" + MODEL, "def f():\n    from a.model import N\n    return N\n", "def f():\n    from a.model import M\n    return M\n"),
}  # fmt: skip

ONE = "def f(x):\n    '''Add.'''\n    return g(x) + 1\n\ndef g(x):\n    return x * 2\n\n" + MODEL
HARMLESS = {
    "a comment": (ONE, ONE.replace("+ 1", "+ 1  # one more")),
    "a docstring": (ONE, ONE.replace("Add.", "Add one.")),
    "a docstring less": (ONE, ONE.replace("    '''Add.'''\n", "")),
    "the docstring of a module": (ONE, "'''A module.'''\n" + ONE),
    "the docstring of a class": (ONE, ONE.replace("class Model:\n", "class Model:\n    '''A model.'''\n")),
    "blank lines": (ONE, ONE.replace("\n\n", "\n\n\n\n")),
    "another layout": (ONE, ONE.replace("g(x) + 1", "(\n        g(\n            x,\n        )\n        + 1\n    )")),
    "other quotes": ("f = 'a'\n" + MODEL, 'f = "a"\n' + MODEL),
    "a text in two pieces": ("f = 'ab'\n" + MODEL, "f = 'a' 'b'\n" + MODEL),
    "a number spelled otherwise": ("f = 1_000\n" + MODEL, "f = 1000\n" + MODEL),
    "a number in another base": ("f = 255\n" + MODEL, "f = 0xff\n" + MODEL),
    "a semicolon": ("f = 1\ng = 2\n" + MODEL, "f = 1; g = 2\n" + MODEL),
    "the annotation of an argument": (ONE, ONE.replace("def g(x)", "def g(x: int)")),
    "the annotation of a result": (ONE, ONE.replace("def g(x)", "def g(x) -> int")),
    "the annotation of a local variable": (
        ONE.replace("return x * 2", "y = x * 2\n    return y"), ONE.replace("return x * 2", "y: int = x * 2\n    return y"),
    ),
    "an annotation without a value": (
        ONE.replace("return x * 2", "y = x * 2\n    return y"), ONE.replace("return x * 2", "y: int\n    y = x * 2\n    return y"),
    ),
    "the annotation of a constant": ("f = 1\n" + MODEL, "f: int = 1\n" + MODEL),
    "another order of definitions": (ONE, "\n\n".join(reversed(ONE.split("\n\n")))),
    "a function that nobody names": (ONE, ONE + "\ndef h(): return 3\n"),
    "a class that nobody names": (ONE, ONE + "\nclass H: ...\n"),
    "a constant that nobody names": (ONE, ONE + "\nH = 3\n"),
    "an import that nobody uses": (ONE, "import statistics\n" + ONE),
    "an import for type checkers": (ONE, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import T\n" + ONE),
    "where it is a program": (ONE, ONE + "\nif __name__ == '__main__':\n    print(f(1))\n"),
    "a type parameter's name": (ONE, ONE.replace("class Model", "T = 3\n\n\nclass Model")),
    "a pass": (ONE, "pass\n" + ONE),
}  # fmt: skip


@pytest.mark.parametrize("what", MATTERS)
def test_a_change_that_may_matter_is_noticed(what, tmp_path):
    before, after = MATTERS[what]
    assert before != after
    assert digest(tmp_path / "before", before) != digest(tmp_path / "after", after)


@pytest.mark.parametrize("what", HARMLESS)
def test_a_change_that_cannot_matter_is_not(what, tmp_path):
    before, after = HARMLESS[what]
    assert before != after
    assert digest(tmp_path / "before", package(before)) == digest(tmp_path / "after", package(after))


#: Texts of errors, which do not count in silent packages.
MESSAGES = {
    "a message": "def f(): raise ValueError('{}')\n",
    "a message with a value": "def f(x): raise ValueError(f'{} {{x}}')\n",
    "a message by a condition": "def f(x): raise ValueError('{}' if x else 'no')\n",
    "a sum of messages": "def f(x): raise ValueError('{}' + str(x))\n",
    "a joined message": "def f(x): raise ValueError(' '.join(['{}', x]))\n",
    "a message by a keyword": "def f(x): raise ValueError(text='{}')\n",
    "a message of a cause": "def f(x): raise ValueError from KeyError('{}')\n",
    "an error that is made first": "def f(x):\n    e = ValueError('{}')\n    raise e\n",
    "an error that a function makes": "def e() -> ValueError: return ValueError('{}')\ndef f(): raise e()\n",
    "a text for a function that makes an error": "def e(text) -> ValueError: return ValueError(text)\ndef f(): raise e('{}')\n",
    "an assertion": "def f(x): assert x, '{}'\n",
    "what is wrong": "def g(x) -> Fault: return '{}' if x else ''\ndef f(x):\n    if g(x): raise ValueError(g(x))\n",
    "each thing that is wrong": "def g(x) -> Iterator[Fault]:\n    yield f'{} {{x}}'\ndef f(x):\n    if g(x): raise ValueError(g(x))\n",
    "a variable of what is wrong": "def f(x):\n    e: Fault = '{}'\n    raise ValueError(e)\n",
    "a message that a handler quotes": "def f():\n    try: g()\n    except KeyError as e: raise ValueError(f'{} {{e}}') from e\ndef g(): raise KeyError('{}')\n",
}  # fmt: skip
OF_SILENT = "from quiet.b import f\n" + MODEL
SILENT = {"silent": frozenset({"quiet"})}


@pytest.mark.parametrize("what", MESSAGES)
def test_the_text_of_an_error_counts_but_for_silent_packages(what, tmp_path):
    silent, other = (
        {
            digest(tmp_path / f"{package}-{n}", files, **SILENT)
            for n, files in enumerate(of_package(MESSAGES[what], package))
        }
        for package in ("quiet", "a")
    )
    assert len(silent) == 1
    assert len(other) == 2


def of_package(text, name):
    """Return two versions of a package of that name, with another text, and the part that uses it."""
    return [
        package(OF_SILENT.replace("quiet", name))
        | {f"{name}/__init__.py": "", f"{name}/b.py": text.replace("{}", word).replace("{{", "{").replace("}}", "}")}
        for word in ("one word", "two words")
    ]


SILENT_MATTERS = {
    "the class of an error": ("def f(): raise ValueError('no')\n", "def f(): raise TypeError('no')\n"),
    "a value in an error": ("def f(x): raise ValueError('no', x)\n", "def f(x): raise ValueError('no', x + 1)\n"),
    "a number in an error": ("def f(x): raise ValueError('no', 1)\n", "def f(x): raise ValueError('no', 2)\n"),
    "whether anything is wrong": ("def f(x) -> Fault: return 'no' if x else ''\n", "def f(x) -> Fault: return 'no' if x else 'no'\n"),
    "a text that is no message": ("def f(x): return 'no way'\n", "def f(x): return 'no how'\n"),
    "a text in a condition of a raise": ("def f(x):\n    if x == 'a b': raise ValueError('no')\n", "def f(x):\n    if x == 'a c': raise ValueError('no')\n"),
    "an assertion": ("def f(x): assert x, 'no'\n", "def f(x): assert not x, 'no'\n"),
    "a text beside what is wrong": ("def f(x) -> Fault:\n    y = x.split('a')\n    return y\n", "def f(x) -> Fault:\n    y = x.split('b')\n    return y\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", SILENT_MATTERS)
def test_all_else_of_an_error_of_a_silent_package_counts(what, tmp_path):
    files = [package(OF_SILENT) | {"quiet/__init__.py": "", "quiet/b.py": text} for text in SILENT_MATTERS[what]]
    assert digest(tmp_path / "1", files[0], **SILENT) != digest(tmp_path / "2", files[1], **SILENT)


def test_a_moved_definition_changes_nothing(tmp_path):
    helper = "def f(): return g()\n\ndef g(): return 1\n"
    files = [
        package("from a.b import f\n" + MODEL, b=helper),
        package("from a.c import f\n" + MODEL, c=helper),
        package(helper + MODEL),
        package(
            "from a.b import f\n" + MODEL, b="from a.c import g\n\ndef f(): return g()\n", c="def g(): return 1\n"
        ),
        package("from a.inner.b import f\n" + MODEL, **{"inner/__init__": "", "inner/b": helper}),
    ]
    assert len({digest(tmp_path / str(number), one) for number, one in enumerate(files)}) == 1


def test_a_moved_root_changes_nothing(tmp_path):
    moved = {"a/__init__.py": "", "a/other.py": package()["a/model.py"]}
    assert digest(tmp_path / "1", package()) == digest(tmp_path / "2", moved, "a.other:Model")


def test_another_definition_of_the_same_file_changes_nothing(tmp_path):
    model = "from a.b import f\n" + MODEL
    before, after = (package(model, b=f"def f(): return 1\ndef h(): return {n}\n") for n in (1, 2))
    assert digest(tmp_path / "1", before) == digest(tmp_path / "2", after)


def test_what_every_process_imports_counts_by_its_effects_alone(tmp_path):
    def one(number, text):
        return digest(tmp_path / str(number), package("class Model: ...\n", plugin=text), always=["a.plugin"])

    assert one(1, "def f(): return 1\n") == one(2, "def f(): return 2\n")
    patches = ["import torch\ntorch.relu = None\n", "import torch\ntorch.relu = 1\n"]
    assert len({one(1, ""), *(one(number + 3, text) for number, text in enumerate(patches))}) == 3


def test_code_that_is_not_followed_does_not_count(tmp_path):
    before, after = of_b("from a.b import f\n" + MODEL)
    options = {"followed": lambda module: module != "a.b"}
    assert digest(tmp_path / "1", before, **options) == digest(tmp_path / "2", after, **options)


@pytest.mark.parametrize(("name", "counts"), [("words.txt", True), ("py.typed", False), ("notes.txt", False)])
def test_files_beside_a_module_count_but_for_those_that_are_left_out(name, counts, tmp_path):
    model = "from pathlib import Path\nclass Model:\n    x = Path(__file__)\n"
    options = {"no_data": Codebase.no_data | {"notes.txt"}}
    found = {digest(tmp_path / text, package(model) | {f"a/{name}": text}, **options) for text in ("one", "two")}
    assert len(found) == (2 if counts else 1)


def test_libraries_are_read_off_the_code(tmp_path):
    files = package(
        "import json\nimport numpy as np\nfrom a.b import f\nimport never.used\nclass Model:\n    x = np.sum, f, json\n",
        b="def f():\n    import torch.nn.functional as g\n    from PIL import Image\n    return g.relu, Image\ndef h():\n    import scipy\n",
    )
    digest(tmp_path, files)
    code = Codebase()
    code._homes["a"] = [tmp_path / "a"]
    assert code.libraries(code.closure([code.root("a.model:Model")])) == {"numpy", "torch", "PIL"}


def test_a_class_of_a_library_is_a_root_by_its_name(tmp_path):
    files = package("class Model:\n    target = 'torch.nn:Linear'\n")
    digest(tmp_path, files)
    code = Codebase()
    code._homes["a"] = [tmp_path / "a"]
    assert code.libraries(code.closure([code.root("a.model:Model")])) == {"torch"}


def test_code_with_an_error_in_its_syntax_is_refused_with_its_file(tmp_path):
    with pytest.raises(SyntaxError) as error:
        digest(tmp_path, package("class Model:\n    x = = 1\n"))
    assert (error.value.filename, error.value.lineno) == (str(tmp_path / "a" / "model.py"), 2)


#: Every kind of syntax of Python 3.11, in code that is digested on every version.
SYNTAX = '''
from __future__ import annotations
import asyncio, os.path as path
from dataclasses import dataclass

X: int = 0xFF_FF + 1_000 + 10 ** -3
Y = 1e400, 1.5e-300, 3j, b"\\x00\\xff", "\\u00e9\\u0001\\U0001F600\\uD7FF", ..., None, True, not X
Z = {**{}, "a": [*range(3)], 'b': {1, 2}, **dict(x=1)}, (*Z,), X if Y else -X, lambda a, /, b=1, *c, d, e=2, **f: (a, b)

@dataclass(frozen=True)
class Model(object, metaclass=type):
    """Docs."""
    x: int = 1
    y: "str" = f"{X!r:>{X}.{X}} {{}} {X=} {'nested ' f'{X}'} {X:%H:%M}" f"{Y}" "tail"

    async def run(self, *args: int, k: float = 0.1, **more) -> None:
        async with asyncio.timeout(1) as t, t:
            async for i in self:
                yield await i
        return_ = [x async for x in self if x if not x]

    def walk(self, x, /):
        global X
        X = [y := 1, y ** 2, y // 3, y @ y, y << 1, y >> 1, y & 1, y | 1, y ^ 1, ~y, +y, y % 2]
        X[1:2, ::3, ...] += x[0]; del X[0], x
        try:
            assert x, "message"
        except* (OSError, ValueError) as error:
            raise RuntimeError("text", 1) from error
        else:
            pass
        finally:
            nonlocal_ = {a: b for a, b in [(1, 2)] for c in (a,)}
        while x < 1 <= 2 != 3 is not None in [1] not in [2] or x and x:
            continue
        else:
            break_ = yield from x
        match x:
            case {"a": [1, *rest], **others} | Model(x=1, y=None) if rest: return others
            case [True, -1, 1 + 2j, "s", path.sep, (_ as z)]: return z
            case _: return print(*x, sep="", **others)
        for a, *b in x:
            break
'''


def test_digests_are_the_same_on_every_version_of_python(tmp_path):
    recorded = json.loads((Path(__file__).parent / "recorded" / "definitions.json").read_text())
    assert {"3.11", "3.12", "3.13"} <= {*recorded}
    assert len({json.dumps(one) for one in recorded.values()}) == 1
    assert samples(tmp_path) == recorded["3.11"]


def samples(folder):
    """Return the digests of a sample of code: all syntax, and what the standard library of no version changes."""
    found = {"syntax": digest(folder / "syntax", {"a/__init__.py": "", "a/model.py": SYNTAX})}
    for number, (what, (before, _)) in enumerate(MATTERS.items()):
        found[what] = digest(folder / str(number), before)
    return found


if __name__ == "__main__":  # prints what `recorded` has for this version of Python
    with TemporaryDirectory() as folder:
        print(json.dumps({"{}.{}".format(*sys.version_info): samples(Path(folder))}))
