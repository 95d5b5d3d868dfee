"""Objects that behave oddly when they are looked at: none stops a stage or is taken for a change, and changes are seen."""

from __future__ import annotations

import importlib
import sys
import threading
import types

import pytest

from process_watch import Host, Watch, install
from process_watch.held_contents import has_attributes

#: What a module of a part holds -> what is done to it, with the name that is expected.
ODD = {
    "an __eq__ that raises": (
        "class One:\n def __eq__(self, other): raise KeyError\n __hash__ = None\nSHARED = One(); SHARED.a = One()",
        "one.SHARED.a = one.One()",
        "the content of {}.SHARED",
    ),
    "an __eq__ that is always true": (
        "class One:\n def __eq__(self, other): return True\n __hash__ = None\n"
        "def work(): return 1\nSHARED = One(); TABLE = {'a': 1, 'b': One()}",
        "one.work = one.One()",
        "{}.work",
    ),
    "arrays in a dict": (
        "import numpy\nTABLE = {'a': numpy.ones(3), 'b': 1}",
        "one.TABLE['a'] = one.numpy.zeros(3)",
        "the content of {}.TABLE",
    ),
    "an array": (
        "import numpy\nWEIGHTS = numpy.ones(3)",
        "one.WEIGHTS /= one.WEIGHTS.sum()",
        "the content of {}.WEIGHTS",
    ),
    "an array with gaps": (
        "import numpy\nWEIGHTS = numpy.ones((4, 4))[::2, ::2]",
        "one.WEIGHTS[1, 1] = 7",
        "the content of {}.WEIGHTS",
    ),
    "a tensor": (
        "import torch\nWEIGHTS = torch.tensor([1.0, float('nan')])",
        "one.WEIGHTS.mul_(2)",
        "the content of {}.WEIGHTS",
    ),
    "a tensor without a name": (
        "import torch\nWEIGHTS = torch.ones(2, 2, dtype=torch.bfloat16)",
        "one.WEIGHTS.data[0] = 7",
        "the content of {}.WEIGHTS",
    ),
    "lists in a dict": ("TABLE = {'a': {'b': [1]}}", "one.TABLE['a']['b'].append(2)", "the content of {}.TABLE"),
    "a list in itself": ("TABLE = [1]; TABLE.append(TABLE)", "one.TABLE[0] = 2", "the content of {}.TABLE"),
    "slots": (
        "class One:\n __slots__ = ('a', 'b')\nSHARED = One(); SHARED.a = 1",
        "one.SHARED.a = 2",
        "the content of {}.SHARED",
    ),
    "a frozen dataclass with slots": (
        "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass One: a: int = 1\nSHARED = One()",
        "object.__setattr__(one.SHARED, 'a', 2)",
        "the content of {}.SHARED",
    ),
    "a dict that computes": (
        "class One(dict):\n def __getitem__(self, key): raise KeyError\n def __iter__(self): raise ValueError\n"
        " def keys(self): raise ValueError\nTABLE = One(a=1)",
        "dict.update(one.TABLE, a=2)",
        "the content of {}.TABLE",
    ),
    "a list that never ends": (
        "import itertools\nclass One(list):\n def __iter__(self): return itertools.count()\nTABLE = One([1])",
        "one.TABLE.append(2)",
        "the content of {}.TABLE",
    ),
    "an ordered dict": (
        "import collections\nTABLE = collections.OrderedDict(a=1, b=2)",
        "one.TABLE.move_to_end('a')",
        "the content of {}.TABLE",
    ),
    "a property": (
        "class One:\n @property\n def a(self): raise RuntimeError\n @property\n def __dict__(self): raise RuntimeError\n"
        "SHARED = One(); LIMIT = 1",
        "one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "a class that has no name": (
        "class One:\n __module__ = property(lambda self: 'other')\nSHARED = One(); LIMIT = 1",
        "one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "a metaclass that compares": (
        "class Kind(type):\n def __eq__(self, other): raise KeyError\n __hash__ = None\n"
        "class One(metaclass=Kind): pass\nclass Two(metaclass=Kind): pass\nclass Three(One, metaclass=Kind): pass",
        "one.Three.__bases__ = (one.Two,)",
        "__bases__ of {}.Three",
    ),
    "an array under the name of a function": (
        "import numpy\ndef table(a=1): return a\nkept = table\ntable = numpy.ones(3)\nLIMIT = 1",
        "one.kept.__defaults__ = (2,); one.kept.__defaults__ = (1,); one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "a module that asks for its names": (
        "def __getattr__(name): raise RuntimeError(name)\nLIMIT = 1",
        "one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "a module of a class of its own": (
        "import sys, types\nclass One(types.ModuleType):\n def __getattr__(self, name): raise RuntimeError(name)\n"
        " def __bool__(self): raise RuntimeError\nsys.modules[__name__].__class__ = One\nLIMIT = 1",
        "one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "something else than a module": (
        "import sys\nclass One:\n def __getattr__(self, name): raise RuntimeError(name)\n"
        " def __bool__(self): raise RuntimeError\nsys.modules['no_' + __name__] = One()\nLIMIT = 1",
        "one.LIMIT = 2",
        "{}.LIMIT",
    ),
    "a wrapped function": (
        "import wrapt\n@wrapt.decorator\ndef same(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\n"
        "@same\ndef work(): return 1\nclass One: pass\nSHARED = wrapt.ObjectProxy(One())",
        "one.work = one.same",
        "{}.work",
    ),
    "a mock": ("from unittest import mock\nSHARED = mock.MagicMock()\nLIMIT = 1", "one.LIMIT = True", "{}.LIMIT"),
    "a flag": ("FLAG = True", "one.FLAG = 1", "{}.FLAG"),
    "a copy that is changed later": (
        "TABLE = {'a': 1}",
        "one.TABLE = dict(one.TABLE); watch.replaced(); one.TABLE['a'] = 2",
        "the content of {}.TABLE",
    ),
    "a metaclass that refuses": (
        "class Kind(type):\n def __setattr__(self, *named): pass\nclass One(metaclass=Kind):\n def go(self): return 1",
        "type.__setattr__(one.One, 'go', lambda self: 2)",
        "{}.One.go",
    ),
    "attributes of a namespace": (
        "import types\nSETTINGS = types.SimpleNamespace(rate=1)",
        "one.SETTINGS.rate = 2",
        "the content of {}.SETTINGS",
    ),
    "a deque": (
        "import collections\nQUEUE = collections.deque([1, 2])",
        "one.QUEUE.rotate()",
        "the content of {}.QUEUE",
    ),
    "bytes that change": ("BYTES = bytearray(b'ab')", "one.BYTES[0] = 7", "the content of {}.BYTES"),
    "an array of Python": (
        "from array import array\nNUMBERS = array('d', [1, 2])",
        "one.NUMBERS.pop()",
        "the content of {}.NUMBERS",
    ),
    "the weight of a layer": (
        "from torch import nn\nLAYERS = [nn.Sequential(nn.Linear(2, 2))]",
        "one.LAYERS[0][0].weight.data.fill_(7)",
        "the content of {}.LAYERS",
    ),
    "a layer in training mode": (
        "from torch import nn\nLAYER = nn.Dropout().eval()",
        "one.LAYER.train()",
        "the content of {}.LAYER",
    ),
    "a method of an Enum": (
        "import enum\nclass One(enum.Enum):\n A = 1\n def work(self): return 1",
        "one.One.work = lambda self: 2",
        "{}.One.work",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def watch():
    install(Host())
    return Watch()


@pytest.fixture
def victim(request, tmp_path, monkeypatch):
    """Return the name of a module of a part that has just been written, with a text."""
    name = f"odd_part_{len(tmp_path.name)}_{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(str(tmp_path))
    install(Host(watched=lambda: {name}))
    before = {*sys.modules}

    def write(text):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return name

    yield write
    for one in {*sys.modules} - before:
        if name in one:
            sys.modules.pop(one)


@pytest.mark.quick(3, 12)
@pytest.mark.parametrize("loaded", [False, True], ids=["imported by the stage", "there before"])
@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_is_no_finding_and_changes_of_it_are(what, loaded, watch, victim):
    text, deed, expected = ODD[what]
    name = victim(text)
    if loaded:
        importlib.import_module(name)
    watch.begin()
    one = importlib.import_module(name)
    assert watch.end() == ([], [], [])
    watch.begin()
    assert watch.end() == ([], [], [])
    exec(deed, {"one": one, "watch": watch})
    assert watch.replaced() == [expected.format(name)]
    assert watch.replaced() == watch.lost == []


#: What a module of a part holds, and how its own code, `work`, changes that -> what others do to it, and its name.
OWN = {
    "COUNTS = {'a': {'b': 1}}\ndef work():\n for one in COUNTS.values(): one['b'] += 1": ("COUNTS['a']['b'] = 7", "COUNTS"),
    "ROWS = [[1]]\ndef work():\n row = ROWS[0]\n row[0] += 1": ("ROWS[0][0] = 7", "ROWS"),
    "ROWS = [[1]]\ndef work():\n for _, row in enumerate(ROWS): row.insert(0, 1)": ("ROWS[0].clear()", "ROWS"),
    "SEEN = {'a': set()}\ndef work(): SEEN['a'].add(len(SEEN['a']))": ("SEEN['a'] = {7}", "SEEN"),
    "class One:\n def __init__(self): self.seen = {'a': 1}\n def go(self): self.seen['a'] += 1\n"
    "ONE = One()\ndef work(): ONE.go()": ("ONE.seen['a'] = 7", "ONE.seen"),
    "from collections import deque\nLAST = [deque([1], 1)]\ndef work(): LAST[0].append(LAST[0][0] + 1)":
        ("LAST[0].clear()", "LAST"),
    "import torch\nLAYER = torch.nn.Linear(1, 1)\ndef work(): torch.nn.init.ones_(LAYER.weight)":
        ("LAYER.weight.data.fill_(7)", "LAYER"),
}  # fmt: skip


@pytest.mark.quick(2)
@pytest.mark.parametrize("text", OWN)
def test_what_a_module_does_to_its_own_nested_data_is_no_finding(text, watch, victim):
    (deed, held), name = OWN[text], victim(text)
    one = importlib.import_module(name)
    for _ in range(2):
        watch.begin()
        one.work()
        assert watch.replaced({name}) == []
    exec(f"one.{deed}", {"one": one})
    assert watch.replaced() == [f"the content of {name}.{held}"]
    assert watch.replaced() == watch.lost == []


def test_nested_data_that_a_module_never_changes_is_not_for_others_to_change_while_it_takes_part(watch, victim):
    name = victim("TABLE = {'a': {'b': 1}}\nROWS = [(1, [2])]\ndef work(): return [*TABLE['a'].values(), ROWS[0]]")
    one = importlib.import_module(name)
    watch.begin()
    one.TABLE["a"]["b"] = one.ROWS[0][1][0] = 7
    assert sorted(watch.replaced({name})) == [f"the content of {name}.{held}" for held in ("ROWS", "TABLE")]
    assert one.work() == [1, (1, [2])]


def test_constants_of_a_helper_without_a_part_are_not_for_others_to_change(watch, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "LEVEL, TABLE, COUNTED = 1, {'a': 1}, 0\ndef count():\n global COUNTED\n COUNTED += 1"
    (tmp_path / "odd_helper.py").write_text(text)
    importlib.invalidate_caches()
    watch.begin()
    one = importlib.import_module("odd_helper")
    one.count()
    assert watch.replaced() == []
    watch.begin()
    one.LEVEL = one.TABLE["a"] = 7
    assert watch.replaced() == ["odd_helper.LEVEL", "the content of odd_helper.TABLE"]
    assert (one.LEVEL, one.TABLE, one.COUNTED) == (1, {"a": 1}, 1)
    sys.modules.pop("odd_helper")


def test_a_module_that_is_loaded_at_its_first_use_is_no_finding(watch, victim):
    name = victim("import sys\nWORDS = ['a']")
    spec = importlib.util.find_spec(name)
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    watch.begin()
    assert object.__getattribute__(module, "__class__") is not types.ModuleType  # not loaded by the look at it
    assert module.WORDS == ["a"]
    assert watch.replaced() == []
    module.WORDS.append("b")
    assert watch.replaced() == [f"the content of {name}.WORDS"]


def test_a_module_that_takes_the_place_of_one_that_stands_for_it_is_no_finding(watch, victim):
    text = """
import importlib, json, sys, types
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        globals()["colours"] = module = importlib.import_module(self.__name__)
        return getattr(module, name)
colours = Lazy("colorsys")
"""
    name = victim(text)
    one = importlib.import_module(name)
    watch.begin()
    assert one.colours.rgb_to_hsv
    assert watch.replaced() == []
    one.colours = sys.modules["json"]
    assert watch.replaced() == [f"{name}.colours"]


def test_what_cannot_be_restored_is_told(watch, victim):
    name = victim("import numpy, torch\nLONG = numpy.zeros(300_000)\nTENSOR = torch.zeros(300_000)")
    one = importlib.import_module(name)
    watch.begin()
    one.LONG += 1
    one.TENSOR += 1
    assert (
        sorted(watch.replaced())
        == sorted(watch.lost)
        == [f"the content of {name}.{one}" for one in ("LONG", "TENSOR")]
    )
    watch.lost.clear()
    assert watch.replaced() == []


@pytest.mark.slow
def test_other_threads_may_add_and_remove_attributes_while_the_process_is_looked_at(victim):
    name = victim("class One: pass\nSHARED = One()\nTABLE = {}")
    one = importlib.import_module(name)

    def work():
        number = 0
        while not done.is_set():
            number += 1
            for owner in (one, one.One, one.SHARED):
                setattr(owner, f"a{number % 99}", number)
                if hasattr(owner, f"a{(number + 7) % 99}"):
                    delattr(owner, f"a{(number + 7) % 99}")
            one.TABLE[number % 99] = number
            one.TABLE.pop((number + 7) % 99, None)

    done, interval = threading.Event(), sys.getswitchinterval()
    threads = [threading.Thread(target=work)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        watch = Watch(lenient=True)
        for _ in range(3):
            watch.begin()
            watch.replaced()
            watch.namespaces.clear()
            watch.modules.clear()
            watch.note_imports()
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def test_attributes_of_classes_may_change_while_they_are_compared():
    class Growing:
        __slots__ = ()

    def grow():
        for number in range(20_000):
            setattr(Growing, f"name{number % 100}", number)
            if number % 100 == 99:
                for each in range(100):
                    delattr(Growing, f"name{each}")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=grow)
    try:
        thread.start()
        while thread.is_alive():
            assert not has_attributes(Growing)
    finally:
        sys.setswitchinterval(before)
        thread.join()
