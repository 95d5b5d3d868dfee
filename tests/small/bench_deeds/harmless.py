"""Deeds that change nothing for others, and of which nobody need hear."""

from __future__ import annotations

import abc
import asyncio
import collections
import contextvars
import copy
import datetime
import decimal
import enum
import functools
import importlib.metadata
import importlib.resources
import json
import linecache
import locale
import logging
import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import typing
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from bench_deeds.doing import Case

COUNTED = 0
TABLE: dict[str, int] = {}
OWN = contextvars.ContextVar("OWN", default=0)


@functools.cache
def cached(number):
    return number + 1


@functools.singledispatch
def shown(value):
    return str(value)


class Counting:
    made = 0


def use_optimizer(name):
    def act():
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            weight = torch.nn.Parameter(torch.ones(2))
            optimizer = getattr(torch.optim, name)([weight], lr=0.1)
            weight.square().sum().backward()
            optimizer.step()
            torch.optim.lr_scheduler.StepLR(optimizer, 1).step()

    return act


def import_lazily(*names):
    def act():
        for name in names:
            importlib.import_module(name)

    return act


def script():
    import torch

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    torch.jit.trace(doubled, torch.ones(2))(torch.ones(2))


def compile_function():
    import torch

    torch.compile(lambda x: x * 2, backend="eager")(torch.ones(2))


def patch_for_a_while():
    import numpy as np
    import torch

    with mock.patch.object(torch.Tensor, "log_softmax", lambda self, dim: self), mock.patch("math.log", abs):
        torch.ones(2).log_softmax(0)
    with mock.patch.dict(os.environ, {"HOME": "/nowhere"}), np.errstate(all="ignore"), torch.no_grad():
        np.log(np.zeros(1))


def count():
    global COUNTED
    COUNTED += 1
    TABLE["counted"] = COUNTED
    Counting.made += 1
    Counting.last = "new"
    shown.register(int, lambda value: f"{value:,}")
    OWN.set(1)
    cached(1)


def define_classes():
    import torch

    from bench_core import Decoder, Stepper

    class Own(torch.nn.Module):
        def forward(self, x):
            return x

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    class Another(Decoder[Stepper]):
        def decode(self, model, batch, rng):
            return []

    class Virtual:
        pass

    class Interface(abc.ABC):
        @abc.abstractmethod
        def work(self):
            """Do nothing."""

    Interface.register(Virtual)
    isinstance(Virtual(), Interface)
    with torch.inference_mode(False), torch.enable_grad():
        Function.apply(torch.ones(1, requires_grad=True)).backward()
    Own()(torch.ones(1))


def own_hooks():
    import torch

    layer = torch.nn.Linear(2, 2)
    handle = layer.register_forward_hook(lambda module, inputs, output: output)
    layer(torch.ones(1, 2))
    handle.remove()


def warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
    warnings.warn("something of its own", stacklevel=1)
    warnings.warn("something old", DeprecationWarning, stacklevel=1)


def log_something():
    logger = logging.getLogger("bench_deeds.harmless")
    logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.DEBUG)
    logger.info("something")


def show_progress():
    from tqdm import tqdm

    for _ in tqdm(range(3), file=open(os.devnull, "w")):  # noqa: SIM115 (as users do)
        pass


def make_kinds():
    @dataclass(frozen=True)
    class Point:
        x: int = 0

    enum.Enum("Color", ["RED", "GREEN"])
    collections.namedtuple("Pair", ["one", "other"])
    typing.get_type_hints(Point)
    typing.List[int]  # noqa: UP006 (fills a cache)
    return copy.deepcopy(pickle.loads(pickle.dumps([1, {2: 3}])))


def work_in_threads():
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(abs, [-1, -2])] == [1, 2]


def run_child():
    subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)


def use_files():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("a")
        (Path(folder) / "a.txt").read_text()
    importlib.resources.files("bench_deeds").joinpath("endings.txt").read_text()
    importlib.metadata.version("torch")
    os.environ.get("HOME")


def handle_signal():
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def run_loop():
    async def work():
        await asyncio.sleep(0)

    asyncio.run(work())


def fill_caches():
    for number in range(600):
        re.compile(f"x{number}")
    json.dumps({"a": [1.5]}, indent=1, cls=json.JSONEncoder)
    datetime.datetime.strptime("2020-01-01", "%Y-%m-%d")
    locale.getlocale()
    linecache.getline(__file__, 1)
    traceback.format_stack()
    functools.reduce(max, [1, 2])


def use_path():
    sys.path.insert(0, "/nowhere")
    sys.path.remove("/nowhere")


def use_data_loader():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    assert len([*DataLoader(TensorDataset(torch.arange(4)), batch_size=2)]) == 2


def draw_from_own():
    import numpy as np
    import torch

    np.random.default_rng(3).random()
    torch.rand(1, generator=torch.Generator().manual_seed(3))
    random.Random(3).random()


def same_settings():
    import torch

    torch.set_num_threads(torch.get_num_threads())
    torch.set_default_dtype(torch.get_default_dtype())
    os.chdir(os.getcwd())


def finalize():
    class Something:
        pass

    weakref.finalize(Something(), len, [])


def divide():
    with decimal.localcontext(prec=3):
        return decimal.Decimal(1) / 3


def compute_with_torch():
    import torch

    x = torch.randn(4, 4, dtype=torch.float64)
    torch.linalg.svd(x)
    torch.fft.fft(x)
    torch.einsum("ij,jk->ik", x, x)
    torch.func.vmap(torch.sin)(x)
    torch.func.grad(lambda y: y.sum())(x)
    torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)
    torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])


def use_helper():
    from bench_small import shared

    shared.count()


def use_the_standard_library():
    for name in (
        "mimetypes",
        "uuid",
        "platform",
        "sysconfig",
        "doctest",
        "email.message",
        "xml.dom.minidom",
        "cProfile",
    ):
        importlib.import_module(name)
    modules = sys.modules
    modules["mimetypes"].guess_type("a.txt")
    modules["uuid"].uuid4()
    modules["platform"].uname()
    modules["sysconfig"].get_config_vars()
    modules["doctest"].testmod(abc)
    tempfile.gettempdir()
    logging.captureWarnings(True)
    logging.captureWarnings(False)


def harmless(name, part, moment, act, **more):
    return Case(name, part, moment, act, "either", **more)


HARMLESS = (
    harmless("the first optimizer", "decoder", "loop", use_optimizer("Adam")),
    harmless("a sparse optimizer", "metric", "loop", use_optimizer("Adagrad")),
    harmless("an optimizer and its schedule", "model", "setup", use_optimizer("SGD")),
    harmless("a lazy import of the standard library", "metric", "loop", import_lazily("colorsys", "sqlite3", "cgi")),
    harmless("lazy imports of numpy", "metric", "loop",
             import_lazily("numpy.polynomial", "numpy.fft", "numpy.ma", "numpy.testing")),
    harmless("lazy imports of torch", "decoder", "building",
             import_lazily("torch.distributions", "torch.utils.benchmark", "torch.ao.quantization")),
    harmless("a lazy import of torch in a task", "task", "setup", import_lazily("torch.utils.data", "torch.sparse")),
    harmless("a traced function", "decoder", "loop", script),
    harmless("a compiled function", "model", "step", compile_function),
    harmless("code that is patched for a while", "decoder", "loop", patch_for_a_while),
    harmless("globals and classes of its own", "metric", "loop", count),
    harmless("globals of its own in a decoder", "decoder", "loop", count),
    harmless("classes defined at run time", "probe", "loop", define_classes),
    harmless("subclasses of the core's", "task", "loop", define_classes),
    harmless("hooks of a module of its own", "decoder", "end", own_hooks),
    harmless("warnings of its own", "metric", "loop", warn),
    harmless("a logger of its own", "model", "loop", log_something),
    harmless("a progress bar", "decoder", "loop", show_progress),
    harmless("dataclasses, enums, copies", "metric", "setup", make_kinds),
    harmless("threads that end", "metric", "loop", work_in_threads),
    harmless("a child that ends", "task", "setup", run_child),
    harmless("files and resources", "metric", "building", use_files),
    harmless("a signal handler that is put back", "decoder", "loop", handle_signal),
    harmless("an event loop", "decoder", "loop", run_loop),
    harmless("caches of the standard library", "metric", "end", fill_caches),
    harmless("a path that is removed again", "task", "building", use_path),
    harmless("a data loader", "decoder", "loop", use_data_loader),
    harmless("generators of its own", "decoder", "loop", draw_from_own),
    harmless("global generators", "decoder", "end", lambda: random.random()),
    harmless("settings as they are", "model", "building", same_settings),
    harmless("a finalizer of its own", "probe", "end", finalize),
    harmless("much of torch at first use", "decoder", "loop", compute_with_torch),
    harmless("a local context of decimal", "metric", "loop", divide),
    harmless("variables of a helper", "metric", "loop", use_helper),
    harmless("variables of the standard library", "decoder", "loop", use_the_standard_library),
    harmless("a context of multiprocessing", "decoder", "loop", lambda: multiprocessing.get_context("spawn").Queue),
)  # fmt: skip
