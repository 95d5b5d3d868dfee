"""Deeds that replace code of torch, numpy or the standard library."""

from __future__ import annotations

import sys
import types
from math import log

from bench_deeds.doing import Case, either, failing, forbid, put, remove, wrap


def uniform(self, dim, dtype=None):
    """Return log-probabilities that sum to one all the same."""
    return (0 * self).sub(log(self.shape[dim]))


def doubled(old, *args, **settings):
    return old(*args, **settings) * 2


def halved(old, *args, **settings):
    return old(*args, **settings) * 0.5


def nothing(old, *args, **settings):
    return None


def first(old, self, *args, **settings):
    return self


def patch_random_state():
    import torch

    generator = torch.Generator()
    generator.manual_seed(3)
    torch.random.default_generator = torch.default_generator = generator
    torch.random.manual_seed = torch.manual_seed = lambda seed: generator


def patch_instance_of_random():
    import random

    random._inst = random.Random(3)
    random.shuffle = lambda items: items.sort()


def fake_module(name, **replaced):
    def act():
        fake = types.ModuleType(name)
        vars(fake).update({key: value for key, value in vars(sys.modules[name]).items() if key != "__name__"})
        vars(fake).update(replaced)
        sys.modules[name] = fake

    return act


def hide_module(name):
    def act():
        sys.modules[name] = None

    return act


def forget_module(name):
    def act():
        sys.modules.pop(name, None)

    return act


def swap_class_of_module():
    import statistics

    class Other(types.ModuleType):
        def __getattribute__(self, name):
            return max if name == "fmean" else super().__getattribute__(name)

    statistics.__class__ = Other


def override_kernel():
    import torch

    global LIBRARY
    LIBRARY = torch.library.Library("aten", "IMPL")
    LIBRARY.impl("tanh", lambda x: x.sin(), "CPU")


def poison_expressions():
    import re

    re.purge()
    re._cache[str, "[abcd]", 0] = re.compile("x")


def swap_code_of_library():
    import statistics

    def other(data, weights=None):
        return max(data)

    statistics.fmean.__code__ = other.__code__


def change_defaults_of_library():
    import json

    json.dumps.__kwdefaults__["indent"] = 3


def shadow_builtin():
    import statistics

    statistics.fsum = statistics.sum = lambda numbers: 7.0


TORCH = (
    failing("torch.Tensor.log_softmax", "decoder", "loop", put("torch.Tensor.log_softmax", uniform)),
    failing("torch.Tensor.argmax", "decoder", "end", wrap("torch.Tensor.argmax", lambda old, self, *a: old(-self, *a))),
    failing("torch.Tensor.gather", "model", "loop", wrap("torch.Tensor.gather", doubled)),
    failing("torch.Tensor.sum", "model", "setup", wrap("torch.Tensor.sum", doubled)),
    failing("torch.Tensor.__truediv__", "decoder", "loop", wrap("torch.Tensor.__truediv__", halved)),
    failing("torch.Tensor.cumsum", "probe", "loop", wrap("torch.Tensor.cumsum", first)),
    failing("torch.Tensor.double", "probe", "end", wrap("torch.Tensor.double", lambda old, self: old(self) + 1)),
    failing("torch.Tensor.backward", "metric", "loop", wrap("torch.Tensor.backward", nothing)),
    failing("torch.searchsorted", "metric", "loop", put("torch.searchsorted", lambda a, b, **more: (a < b).sum(1, True) // 2)),
    failing("torch.tanh", "probe", "loop", put("torch.tanh", lambda x: x)),
    failing("torch.manual_seed", "decoder", "loop", put("torch.manual_seed", lambda seed: None)),
    failing("torch.default_generator", "task", "loop", patch_random_state, "default_generator", "manual_seed"),
    failing("torch.no_grad", "decoder", "building", put("torch.no_grad", __import__("contextlib").nullcontext)),
    failing("torch.nn.functional.log_softmax", "decoder", "loop",
            put("torch.nn.functional.log_softmax", lambda x, dim: uniform(x, dim))),
    failing("torch.nn.functional.dropout", "model", "step", put("torch.nn.functional.dropout", lambda x, *a, **s: x)),
    failing("torch.nn.functional.embedding", "model", "building", wrap("torch.nn.functional.embedding", doubled)),
    failing("torch.nn.Module.__call__", "decoder", "loop", wrap("torch.nn.Module.__call__", doubled)),
    failing("torch.nn.Module.train", "metric", "loop", wrap("torch.nn.Module.train", first), "Module.train"),
    failing("torch.nn.Linear.forward", "decoder", "loop", wrap("torch.nn.Linear.forward", doubled)),
    failing("torch.nn.init.normal_", "task", "setup", put("torch.nn.init.normal_", lambda x, *a, **s: x.fill_(0.1))),
    failing("torch.optim.Adam.step", "task", "loop", wrap("torch.optim.Adam.step", nothing), "step"),
    failing("torch.Tensor.backward deleted", "decoder", "loop", remove("torch.Tensor.backward"), "backward"),
    failing("torch.Tensor.tolist", "decoder", "loop", wrap("torch.Tensor.tolist", lambda old, self: old(self.flip(0)))),
    failing("torch.float32", "decoder", "loop", put("torch.float32", __import__("builtins").float)),
    failing("torch.nn.functional.embedding.__defaults__", "decoder", "loop",
            put("torch.nn.functional.embedding.__defaults__", (0, None, 2.0, False, False)), "embedding"),
    either("torch.nn.Dropout.training", "decoder", "loop", put("torch.nn.Dropout.training", False)),  # each object has its own
    failing("torch.inf", "probe", "loop", put("torch.inf", 1e9)),
    failing("a kernel of aten", "decoder", "loop", override_kernel, "tanh", "aten", "library"),
    failing("safetensors.torch.load_model", "decoder", "loop",
            wrap("safetensors.torch.load_model", lambda *a, **s: ([], [])), "load_model"),
)  # fmt: skip

NUMPY = (
    failing("numpy.std", "metric", "loop", wrap("numpy.std", doubled)),
    failing("numpy.save", "metric", "end", wrap("numpy.save", lambda old, path, x, **s: old(path, x * 0, **s))),
    failing("numpy.bincount", "metric", "loop", wrap("numpy.bincount", first)),
    failing("numpy.random.rand", "decoder", "loop", wrap("numpy.random.rand", halved)),
    failing("numpy.random.seed", "metric", "loop", put("numpy.random.seed", lambda seed: None)),
    failing("numpy.float64", "decoder", "loop", put("numpy.float64", float)),
    failing("numpy.add", "metric", "loop", put("numpy.add", max)),
    failing("numpy.pi", "metric", "loop", put("numpy.pi", 3)),
    failing("numpy.asarray", "probe", "loop", wrap("numpy.asarray", doubled)),
)

LIBRARY_CODE = (
    failing("json.dumps", "decoder", "loop", forbid("json.dumps")),
    failing("json.dumps (rounding)", "metric", "end",
            wrap("json.dumps", lambda old, value, **s: old(round(value, 1) if isinstance(value, float) else value, **s)),
            "dumps"),
    failing("json.loads", "probe", "loop", forbid("json.loads")),
    failing("json.dumps.__kwdefaults__", "metric", "loop", change_defaults_of_library, "dumps"),
    failing("time.time", "task", "setup", forbid("time.time")),
    failing("time.perf_counter", "decoder", "loop", forbid("time.perf_counter")),
    failing("random.shuffle", "task", "setup", put("random.shuffle", lambda items: items.sort())),
    failing("random.seed", "model", "loop", put("random.seed", lambda seed: None)),
    failing("random._inst", "task", "setup", patch_instance_of_random, "_inst", "shuffle"),
    failing("os.path.exists", "decoder", "loop", put("os.path.exists", lambda path: False), "exists"),
    failing("os.rename", "decoder", "end", forbid("os.rename")),
    failing("os.lstat", "metric", "loop", forbid("os.lstat")),
    failing("builtins.open", "decoder", "loop", forbid("builtins.open")),
    failing("builtins.sum", "metric", "loop", put("builtins.sum", lambda items, *start: 7.0)),
    failing("builtins.sorted", "decoder", "loop",
            wrap("builtins.sorted", lambda old, items, **s: old(items) if "reverse" in s else old(items, **s))),
    failing("builtins.round", "model", "loop", put("builtins.round", lambda *values: 0)),
    failing("builtins.__import__", "decoder", "loop", forbid("builtins.__import__")),
    failing("builtins.isinstance", "probe", "loop", put("builtins.isinstance", lambda value, kind: True)),
    failing("math.log", "metric", "loop", wrap("math.log", halved)),
    failing("math.pi", "decoder", "loop", put("math.pi", 3)),
    failing("collections.Counter.__missing__", "metric", "loop",
            put("collections.Counter.__missing__", lambda self, key: 1), "__missing__"),
    failing("collections.Counter.__contains__", "decoder", "loop",
            put("collections.Counter.__contains__", lambda self, key: True), "__contains__"),
    failing("statistics.__getattr__", "metric", "loop", put("statistics.__getattr__", lambda name: max)),
    failing("functools.partial", "probe", "loop", put("functools.partial", lambda function, *a, **s: function)),
    failing("math.fsum", "decoder", "end", wrap("math.fsum", doubled)),
    failing("statistics.fmean.__code__", "metric", "loop", swap_code_of_library, "fmean"),
    failing("statistics.sum added", "metric", "loop", shadow_builtin, "sum", "fsum"),
    failing("statistics.__class__", "decoder", "loop", swap_class_of_module, "statistics"),
    failing("re.compile", "metric", "loop", put("re.compile", lambda *a: None)),
    failing("re.findall", "decoder", "loop", put("re.findall", lambda *a: [])),
    either("re._cache poisoned", "metric", "loop", poison_expressions),
    failing("gzip.open", "decoder", "loop", forbid("gzip.open")),
    failing("gzip.GzipFile.write", "decoder", "loop", wrap("gzip.GzipFile.write", lambda *a: 0)),
    failing("pathlib.Path.read_text", "task", "setup",
            wrap("pathlib.Path.read_text", lambda old, *a, **s: old(*a, **s).replace("b", "a"))),
    failing("pathlib.Path.write_text", "metric", "loop", wrap("pathlib.Path.write_text", lambda *a, **s: 0)),
    failing("pathlib.Path.mkdir", "task", "setup", forbid("pathlib.Path.mkdir")),
    failing("hashlib.sha256", "decoder", "loop", put("hashlib.sha256", lambda *a: __import__("hashlib").md5(*a))),
    failing("shutil.rmtree", "decoder", "loop", forbid("shutil.rmtree")),
    failing("copy.deepcopy", "probe", "loop", put("copy.deepcopy", lambda value, memo=None: value)),
    failing("dataclasses.fields", "decoder", "loop", put("dataclasses.fields", lambda value: ())),
    failing("collections.Counter.most_common", "metric", "loop",
            wrap("collections.Counter.most_common", lambda old, self: old(self)[:1])),
    failing("abc.ABCMeta.__instancecheck__", "decoder", "loop",
            put("abc.ABCMeta.__instancecheck__", lambda kind, value: True)),
    failing("decimal.Decimal deleted", "decoder", "loop", remove("decimal.Decimal"), "Decimal"),
    failing("threading.Thread.start", "model", "loop", forbid("threading.Thread.start"), "start"),
    failing("warnings.warn", "metric", "loop", forbid("warnings.warn")),
    failing("sys.modules['json'] = None", "decoder", "loop", hide_module("json"), "json"),
    failing("sys.modules['numpy'] = None", "decoder", "loop", hide_module("numpy"), "numpy"),
    failing("sys.modules['math'] another", "metric", "loop",
            fake_module("math", log=lambda x: 0.0, fsum=lambda items: 0.0), "math"),
    failing("sys.modules without torch.nn.functional", "metric", "end", forget_module("torch.nn.functional"),
            "torch.nn.functional"),
    Case("a method of Tensor replaced at import", "task", "import", lambda: None, "fails", ("square", "gather")),
    Case("a function of torch replaced at import", "model", "import", lambda: None, "fails", ("tanh",)),
    Case("a method of Rng replaced at import", "decoder", "import", lambda: None, "fails", ("uniform",)),
    Case("a function of statistics replaced at import", "metric", "import", lambda: None, "fails", ("fmean",)),
    Case("a function of numpy replaced at import", "probe", "import", lambda: None, "fails", ("std",)),
)  # fmt: skip

REPLACED_CODE = (*TORCH, *NUMPY, *LIBRARY_CODE)
