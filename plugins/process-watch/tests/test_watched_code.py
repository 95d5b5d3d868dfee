"""Code that is replaced is noticed whenever that happens, named, and put back; settings, too."""

from __future__ import annotations

import copy
import copyreg
import importlib
import itertools
import json
import os
import pkgutil
import random
import re
import string
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from process_watch import Host, Input, Reading, Watch, earlier, install, observe, observed_inputs, remember
from process_watch import replaced_code as watched_code
from process_watch.observed_inputs import assigned
from process_watch.watched_settings import settings


@pytest.fixture
def watch():
    install(Host())
    found = Watch()
    found.begin()
    return found


def doubled(value, *more, **named):
    return value


VICTIM = """
import enum, typing
LIMIT, WORDS, TABLE = 3, ["a"], {"a": 1}
Point = typing.NamedTuple("Point", [("x", int)])
Point.__new__.__defaults__ = (5,)
def plain(x, y=1, *, z=2): return x, y, z
def added(n): return lambda x: x + n
plus = added(1)
class Side(enum.Enum): LEFT, RIGHT = "left", "right"
class Slope:
    rate = 0.5
    def go(self): return self.rate
class Steep: rate = 9
class Curve(Slope):
    def go(self): return super().go() + LIMIT
    @property
    def twice(self): return 2 * self.go()
SHARED = Curve()
def answers():
    one = Curve()
    return (plain(1), plus(1), one.go(), one.twice, len(WORDS), Side("left"), SHARED.go(), Point(), *TABLE.items(),
            *sorted(vars(Curve)), *sorted(name for name in globals() if not name.startswith("_")))
"""


#: What a stage does to a module of a part and to what was in it, with what is named.
DEEDS = {
    lambda one, held: setattr(one, "plain", doubled): "{}.plain",
    lambda one, held: setattr(one, "len", lambda value: 7): "{}.len",
    lambda one, held: setattr(one, "LIMIT", 7): "{}.LIMIT",
    lambda one, held: setattr(one, "TABLE", {}): "{}.TABLE",
    lambda one, held: delattr(one, "Steep"): "{}.Steep",
    lambda one, held: setattr(held.plain, "__code__", doubled.__code__): "__code__ of {}.plain",
    lambda one, held: setattr(held.plain, "__defaults__", (7,)): "__defaults__ of {}.plain",
    lambda one, held: held.plain.__kwdefaults__.update(z=7): "the content of {}.plain",
    lambda one, held: setattr(held.plus.__closure__[0], "cell_contents", 7): "the content of {}.plus",
    lambda one, held: setattr(held.Curve, "go", doubled): "{}.Curve.go",
    lambda one, held: setattr(held.Curve, "limit", doubled): "{}.Curve.limit",
    lambda one, held: delattr(held.Curve, "twice"): "{}.Curve.twice",
    lambda one, held: setattr(held.Slope, "rate", 7): "{}.Slope.rate",
    lambda one, held: setattr(held.Curve, "__bases__", (held.Steep, held.Slope)): "__bases__ of {}.Curve",
    lambda one, held: held.TABLE.update(b=7): "the content of {}.TABLE",
    lambda one, held: held.WORDS.append("b"): "the content of {}.WORDS",
    lambda one, held: setattr(held.SHARED, "rate", 7): "the content of {}.SHARED",
    lambda one, held: held.Side._value2member_map_.clear(): "the content of {}.Side._value2member_map_",
    lambda one, held: sys.modules.update({one.__name__: held}): "sys.modules['{}']",
}  # fmt: skip


@pytest.mark.quick(1, 3)
@pytest.mark.parametrize("seed", range(30))
def test_any_deeds_in_any_order_are_named_by_their_stage_and_undone(seed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    package = f"victims{seed}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    rng, watch, known, were = random.Random(seed), Watch(exclusive=True), [], []
    install(Host(watched=lambda: {package}))
    for stage in range(8):
        watch.begin()
        name = f"{package}.number{stage}"
        (tmp_path / package / f"number{stage}.py").write_text(VICTIM)
        if rng.random() < 0.7:
            known.append(importlib.import_module(name))
            were.append(types.SimpleNamespace(**vars(known[-1])))
        before, expected = [one.answers() for one in known], []
        done = rng.choices([*itertools.product(DEEDS, range(len(known)))], k=rng.randrange(6)) if known else []
        for deed, place in dict.fromkeys(done):
            deed(known[place], were[place])
            expected.append(DEEDS[deed].format(known[place].__name__))
        assert sorted(watch.replaced()) == sorted(expected)
        assert [one.answers() for one in known] == before
        assert [sys.modules[one.__name__] for one in known] == known
    for one in [package, *(one.__name__ for one in known)]:
        sys.modules.pop(one)


def test_hooks_of_all_optimizers_are_removed(watch):
    torch = pytest.importorskip("torch")
    from torch.optim import optimizer

    watch.begin()
    optimizer.register_optimizer_step_pre_hook(lambda one, *more: one.param_groups[0]["params"][0].grad.neg_())
    optimizer.register_optimizer_step_post_hook(lambda one, *more: one.param_groups[0]["params"][0].zero_())
    assert watch.restored() == ["torch's global hooks"]
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.ones(1)
    torch.optim.SGD([weight], lr=0.5).step()
    assert weight.item() == 0.5


CACHED = """
import functools, math
@functools.lru_cache
def root(x): return math.sqrt(x)
class Roots:
    @staticmethod
    @functools.cache
    def of(x): return math.sqrt(x)
"""


@pytest.mark.parametrize("replaced", [True, False])
def test_what_replaced_code_has_computed_is_in_no_cache(replaced, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cached.py").write_text(CACHED)
    cached = importlib.import_module("cached")
    install(Host(watched=lambda: {"cached"}))
    watch = Watch(exclusive=True)
    watch.begin()
    cached.root(9.0)
    assert watch.end() == ([], [], [])
    watch.begin()
    with monkeypatch.context() as changed:
        if replaced:
            changed.setattr("math.sqrt", lambda x: -1)
        cached.root(4.0), cached.Roots.of(4.0)
        assert watch.end()[0] == ["math.sqrt"] * replaced
    kept = [function.cache_info().currsize for function in (cached.root, cached.Roots.of)]
    assert kept == ([0, 0] if replaced else [2, 1])
    assert (cached.root(4.0), cached.Roots.of(4.0)) == (2, 2)
    sys.modules.pop("cached")


def test_what_a_stage_imports_and_then_changes_is_named_and_restored(monkeypatch):
    for name in ("colorsys", "decimal"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    install(Host())
    watch = Watch()
    watch.begin()
    import colorsys
    import decimal

    before = colorsys.rgb_to_hsv, decimal.getcontext().prec
    decimal.getcontext().prec = 3
    colorsys.rgb_to_hsv = max
    assert watch.replaced() == ["colorsys.rgb_to_hsv"]
    assert watch.restored() == ["the decimal context"]
    assert (colorsys.rgb_to_hsv, decimal.getcontext().prec) == before


def test_what_is_as_before_is_no_finding(watch):
    assert watch.replaced() == []
    assert watch.restored() == []
    assert watch.threads.lingering() == []


def test_a_thread_that_outlives_a_stage_is_named_unless_one_that_was_there_before_started_it(watch):
    def wait():
        done.wait()

    def start():
        threads.append(threading.Thread(target=wait, name=f"number {len(threads)}"))
        threads[-1].start()

    def serve():
        asked.wait()
        start()
        served.set()

    asked, served, done, threads = threading.Event(), threading.Event(), threading.Event(), []
    server = threading.Thread(target=serve)
    server.start()
    try:
        watch.begin()
        asked.set()
        assert served.wait(300)
        assert watch.threads.lingering() == []
        inner = threading.Thread(target=start)  # one that a stage starts, and which starts another
        inner.start()
        inner.join()
        assert watch.threads.lingering() == ["number 1"]
    finally:
        done.set()
        for one in [server, *threads]:
            one.join()


def test_a_thread_of_a_part_is_named_whatever_it_executes_and_one_of_a_library_is_not(watch):
    """A pool keeps idle threads; a timer that a part starts may call a function that is nobody's."""
    timer = threading.Timer(300, setattr, [string, "capwords", doubled])
    timer.name = "the timer"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        timer.start()
        try:
            assert watch.threads.lingering() == ["the timer"]
        finally:
            timer.cancel()
            timer.join()


def test_a_thread_that_replaces_code_while_it_is_compared_and_ends_is_named(watch, monkeypatch):
    def act():
        asked.wait(300)
        monkeypatch.setattr(string, "capwords", doubled)

    def contents(mine):
        asked.set()  # all attributes have been compared
        thread.join()
        return real(mine)

    asked, real = threading.Event(), watch._restore_contents
    thread = threading.Thread(target=act, name="the late one")
    thread.start()
    monkeypatch.setattr(watch, "_restore_contents", contents)
    assert watch.end() == ([], [], ["the late one"])
    assert watch.threads.left


@pytest.mark.slow
def test_other_threads_may_work_while_the_process_is_looked_at(watch, tmp_path, monkeypatch):
    monkeypatch.setattr(observed_inputs, "_readings", {})

    def work():
        for number in itertools.count():
            if done.is_set():
                return
            re.compile(f"{number}a")
            (tmp_path / str(number)).exists()
            (tmp_path / str(number)).write_text("a")
            remember({Input("variable", str(number)): Reading({"b"}, None, "")})
            sys.modules[f"made_{number % 50}"] = types.ModuleType("made")
            sys.modules.pop(f"made_{(number + 7) % 50}", None)

    def look():
        for _ in range(50):
            settings()["the cache of re"].read()
        watch.begin()
        watch.replaced()
        watch.restored()
        earlier(["a"])

    done, interval = threading.Event(), sys.getswitchinterval()
    threads = [threading.Thread(target=work) for _ in range(2)]
    watch.lenient = True
    try:
        sys.setswitchinterval(1e-6)
        for one in threads:
            one.start()
        for _ in range(3):
            observe(look, {}, str(tmp_path))
    finally:
        done.set()
        for one in threads:
            one.join()
        sys.setswitchinterval(interval)
        for number in range(50):
            sys.modules.pop(f"made_{number}", None)


def test_kernels_that_torch_adds_while_another_thread_imports_it_are_nobodys(monkeypatch):
    kernels, loading = {"aten/first/CPU"}, {"torch"}
    monkeypatch.setattr(watched_code, "kernels", lambda: {*kernels})
    monkeypatch.setattr(watched_code.imports, "current", lambda: {*loading})
    monkeypatch.setitem(sys.modules, "torch.library", types.ModuleType("torch.library"))
    found = Watch()
    found.begin()
    kernels.add("aten/second/CUDA")
    assert [*found._changed_kernels()] == []
    loading.clear()
    found.note_imports()
    kernels.add("aten/third/CUDA")
    assert [*found._changed_kernels()] == ["the kernel aten/third/CUDA"]


def test_a_replaced_function_is_named_and_put_back(watch, monkeypatch):
    before = json.dumps
    monkeypatch.setattr(json, "dumps", doubled)
    assert watch.replaced() == ["json.dumps"]
    assert json.dumps is before
    assert watch.replaced() == []


@pytest.mark.parametrize("name", ["__code__", "__defaults__", "__kwdefaults__"])
def test_code_and_defaults_of_a_function_are_named_and_put_back_outside_of_stages_too(watch, name):
    before = getattr(json.dumps, name)
    try:
        setattr(json.dumps, name, {"__code__": doubled.__code__, "__defaults__": (1,), "__kwdefaults__": {}}[name])
        assert watch.replaced() == [f"{name} of json.dumps"]
        assert getattr(json.dumps, name) is before
    finally:
        setattr(json.dumps, name, before)


@pytest.mark.quick(2)
@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("string.punctuation", ""),
        ("string.Template.delimiter", "%"),
        ("os.path.sep", "//"),
        ("sys.float_info", types.SimpleNamespace(dig=3)),
        ("numpy.little_endian", False),
        ("torch.serialization.DEFAULT_PROTOCOL", 7),
        ("xml.dom.XML_NAMESPACE", "other"),
    ],
)
def test_a_constant_of_a_library_is_named_and_put_back(path, value, watch, monkeypatch):
    owner, name = pkgutil.resolve_name(path.rpartition(".")[0]), path.rpartition(".")[2]
    watch.begin()
    before = getattr(owner, name)
    monkeypatch.setattr(owner, name, value)
    assert [one.rpartition(".")[2] for one in watch.replaced()] == [name]
    assert getattr(owner, name) is before


def test_what_the_code_of_a_library_assigns_is_no_constant(watch):
    import doctest
    import mimetypes

    watch.begin()
    mimetypes.inited, doctest.master = not mimetypes.inited, doctest.DocTestRunner()
    try:
        assert watch.replaced() == []
    finally:
        mimetypes.inited, doctest.master = not mimetypes.inited, None


def test_the_time_zone_is_restored_also_if_its_variable_already_is(watch, monkeypatch):
    before = time.localtime(0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    monkeypatch.undo()
    try:
        assert time.localtime(0) != before
        assert watch.end() == ([], ["the time zone"], [])
        assert time.localtime(0) == before
    finally:
        time.tzset()


def test_a_method_that_hides_an_inherited_one_is_named_and_removed(watch):
    json.JSONDecodeError.with_traceback = doubled
    try:
        assert watch.replaced() == ["json.decoder.JSONDecodeError.with_traceback"]
    finally:
        vars(json.JSONDecodeError).get("with_traceback") and delattr(json.JSONDecodeError, "with_traceback")
    assert json.JSONDecodeError.with_traceback is BaseException.with_traceback


def test_a_module_in_place_of_another_is_named_and_put_back(watch, monkeypatch):
    monkeypatch.setitem(sys.modules, "json", types.ModuleType("json"))
    assert watch.replaced() == ["sys.modules['json']"]
    assert sys.modules["json"] is json


def test_a_name_of_python_that_a_module_hides_is_named_and_removed(watch):
    json.len = doubled
    try:
        assert watch.replaced() == ["json.len"]
        assert not hasattr(json, "len")
    finally:
        vars(json).pop("len", None)


def test_a_variable_that_own_code_sets_is_put_back_at_any_time(watch):
    os.environ["VARIABLE_OF_A_TEST"] = "1"
    try:
        assert "VARIABLE_OF_A_TEST" in assigned
        assert watch.restored() == ["the environment"]
        assert "VARIABLE_OF_A_TEST" not in os.environ
    finally:
        os.environ.pop("VARIABLE_OF_A_TEST", None)


def test_what_a_library_adds_and_what_a_test_adds_to_itself_is_no_finding(watch):
    json.added = 3
    try:
        assert watch.replaced() == []
    finally:
        del json.added


def test_settings_are_restored_although_what_reads_them_is_gone(watch, monkeypatch):
    before = os.umask(0o077)
    try:
        monkeypatch.setitem(sys.modules, "numpy", None)
        monkeypatch.delattr("decimal.getcontext")
        assert sorted(watch.end()[0]) == ["decimal.getcontext", "sys.modules['numpy']"]
        assert os.umask(before) == before
    finally:
        os.umask(before)


@pytest.mark.slow
def test_how_objects_of_others_are_copied_is_restored(watch):
    copyreg.pickle(dict, lambda one: (dict, ()))
    try:
        assert watch.restored() == ["copyreg.dispatch_table"]
        assert copy.copy({1: 2}) == {1: 2}
        assert dict not in copyreg.dispatch_table
    finally:
        copyreg.dispatch_table.pop(dict, None)


@pytest.mark.slow
def test_a_process_in_which_no_more_files_can_be_opened_is_no_place_for_other_stages(watch):
    opened = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        assert watch.restored() == watch.lost == ["the number of free file descriptors"]
    finally:
        for descriptor in opened:
            os.close(descriptor)


@pytest.mark.quick(1, 3)
@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("torch.nn.Dropout.forward", "torch.nn.Identity.forward"),
        ("torch.optim.SGD.step", "torch.optim.Adam.step"),
        ("torch.nn.Linear.__init__", "torch.nn.Bilinear.__init__"),
        ("torch.nn.functional.softmax", "torch.nn.functional.log_softmax"),
        ("torch.nn.functional.linear", "torch.ao.nn.quantized.functional.linear"),
        ("torch.tanh", "torch.sin"),
        ("numpy.std", "numpy.ma.std"),
        ("json.dumps", "json.dump"),
        ("math.log", "cmath.log"),
        ("math.pi", "math.e"),
        ("random.shuffle", "random.Random.shuffle"),
    ],
)
def test_a_function_of_a_library_in_place_of_another_is_named_and_put_back(path, other, watch):
    owner, name = pkgutil.resolve_name(path.rpartition(".")[0]), path.rpartition(".")[2]
    before, new = vars(owner)[name], pkgutil.resolve_name(other)
    watch.begin()
    setattr(owner, name, new)
    try:
        assert [one.rpartition(".")[2] for one in watch.replaced()] == [name]
        assert vars(owner)[name] is before
    finally:
        setattr(owner, name, before)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("filled", "replaced"),
    [
        (lambda one: (one(), one()), False),
        (lambda one: (one(), "more"), True),
        (lambda one: ("more",), True),
        (lambda one: [one()], True),
        (lambda one: None, True),
    ],
)
def test_a_library_may_fill_an_empty_tuple_with_its_own_objects_at_first_use(watch, monkeypatch, filled, replaced):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "default_generators", ())
    watch.begin()
    torch.cuda.default_generators = new = filled(torch.Generator)
    assert watch.replaced() == ["torch.cuda.default_generators"] * replaced
    if not replaced:
        watch.begin()
        torch.cuda.default_generators = (torch.Generator(),)
        assert watch.replaced() == ["torch.cuda.default_generators"]
        assert torch.cuda.default_generators is new


@pytest.mark.slow
def test_a_library_may_replace_its_own_code_at_first_use(watch):
    import networkx
    from pyparsing import ParserElement

    watch.begin()
    networkx.wheel_graph(3)
    ParserElement.disable_memoization()
    ParserElement.enable_packrat()
    try:
        assert watch.replaced() == []
    finally:
        ParserElement.disable_memoization()
