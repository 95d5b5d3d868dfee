"""Deeds that change settings and objects of the process: of torch, numpy, Python and the operating system."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import copyreg
import decimal
import gc
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

from bench_deeds.doing import DELAY, either, later
from bench_deeds.replaced_code import uniform

KEPT = []  # what must not be collected


def entered(manager):
    """Enter a context that is never left."""
    KEPT.append(manager)
    manager.__enter__()


def enter_function_mode():
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            return found * 2 if function is torch.tanh else found

    entered(Mode())


def enter_dispatch_mode():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            return found * 2 if function is torch.ops.aten.tanh.default else found

    entered(Mode())


def add_forward_hook():
    from torch.nn.modules import module

    module.register_module_forward_hook(lambda one, inputs, output: output * 2)


def add_backward_hook():
    from torch.nn.modules import module

    def double(one, gradients, of_outputs):
        return tuple(None if gradient is None else gradient * 2 for gradient in gradients)

    module.register_module_full_backward_hook(double)


def add_optimizer_hook():
    from torch.optim import optimizer

    def double(one, args, settings):
        for group in one.param_groups:
            for weight in group["params"]:
                weight.grad.mul_(-1)

    optimizer.register_optimizer_step_pre_hook(double)


def save_other_tensors():
    import torch

    entered(torch.autograd.graph.saved_tensors_hooks(lambda x: x * 2 if x.is_floating_point() else x, lambda x: x))


def check_anomalies():
    import torch

    torch.autograd.set_detect_anomaly(True)


def of_torch(name, *values):
    def act():
        import torch

        found = torch
        for one in name.split("."):
            found = getattr(found, one)
        found(*values)

    return act


def set_dtype(name):
    def act():
        import torch

        torch.set_default_dtype(getattr(torch, name))

    return act


def enter_autocast():
    import torch

    entered(torch.autocast("cpu", torch.bfloat16))


def enter_inference_mode():
    import torch

    entered(torch.inference_mode())


def seed_everything():
    import numpy as np
    import torch

    torch.manual_seed(1)
    torch.default_generator.manual_seed(1)
    np.random.seed(1)
    random.seed(1)


def keep_drawing():
    """Draw from the global generators for ever, in a thread."""
    import numpy as np
    import torch

    def work():
        while True:
            torch.rand(1)
            np.random.rand()
            random.random()

    threading.Thread(target=work, daemon=True).start()


def replace_generator_of_numpy():
    import numpy as np

    np.random.set_state(np.random.RandomState(9).get_state())
    np.random.mtrand._rand.seed(9)


def raise_at_floats():
    import numpy as np

    np.seterr(all="raise")


def print_differently():
    import numpy as np
    import torch

    np.set_printoptions(precision=1, suppress=True)
    torch.set_printoptions(precision=1)


def change_encoder():
    json._default_encoder.item_separator = " ,\n "
    json._default_encoder.key_separator = " :\n "


def change_decoder_of_json():
    json._default_decoder.parse_float = round
    json._default_decoder.scan_once = lambda text, place: (7.0, len(text))


def change_copies():
    import bench_core

    copyreg.pickle(bench_core.Hypothesis, lambda one: (bench_core.Hypothesis, ([], True)))
    copyreg.pickle(dict, lambda one: (dict, ()))


def lose_folder():
    place = tempfile.mkdtemp()
    os.chdir(place)
    os.rmdir(place)


def clear_variables():
    for name in ("PYTHONPATH", "HOME", "OMP_NUM_THREADS", "TMPDIR", "BENCH_DEEDS_STORE"):
        os.environ.pop(name, None)
    os.environ["PYTHONHASHSEED"] = os.environ["PYTHONPATH"] = "/nowhere"
    os.environ["CUDA_VISIBLE_DEVICES"] = "7"


def change_time_zone():
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)


def limit(name, value):
    def act():
        kind = getattr(resource, name)
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))

    return act


class OtherFinder:
    """Finds nothing, and takes what others would find for missing."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def trace(frame, event, argument):
    """Change what functions named `combine` see, as a debugger may."""
    if frame.f_code.co_name in ("combine", "from_sums", "_of"):
        raise RuntimeError("traced")
    return trace


def profile(frame, event, argument):
    if frame.f_code.co_name in ("combine", "from_sums", "_of") and event == "call":
        raise RuntimeError("profiled")


def trace_all():
    sys.settrace(trace)
    threading.settrace(trace)


def profile_all():
    sys.setprofile(profile)
    threading.setprofile(profile)


def audit():
    """Refuse to have files opened; no process gets rid of this."""

    def refuse(event, values):
        if event == "open" and "predictions" in str(values[0]):
            raise PermissionError("refused by an audit hook")

    sys.addaudithook(refuse)


def be_interrupted(kind, handler):
    def act():
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(kind, DELAY)

    return act


def raise_interrupt(number, frame):
    raise KeyboardInterrupt


def ignore_signals():
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(one, signal.SIG_IGN)


def collect_with_callback():
    def act(phase, info):
        from bench_deeds import clean

        clean.WEIGHTS.update(a=9.0)

    gc.callbacks.append(act)
    gc.set_threshold(10, 1, 1)


def collect_never():
    gc.disable()
    gc.freeze()


def silence():
    logging.disable(logging.CRITICAL)
    logging.getLogger().handlers.append(None)


def other_tracebacks():
    sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: os._exit(9)


def replace_later():
    import torch

    torch.Tensor.log_softmax = uniform
    torch.nn.functional.log_softmax = lambda x, dim: uniform(x, dim)


def set_later():
    import torch

    for owner, value in ((torch.Tensor, uniform), (torch.nn.functional, lambda x, dim: uniform(x, dim))):
        timer = threading.Timer(DELAY, setattr, [owner, "log_softmax", value])
        timer.daemon = True
        timer.start()


def multiply_later():
    from bench_deeds import clean

    clean.WEIGHTS.update(a=9.0)


def idle_threads():
    for _ in range(20):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def keep_timer():
    def again():
        from bench_deeds import clean

        clean.SCALER.slope += 1
        timer = threading.Timer(DELAY / 5, again)
        timer.daemon = True
        timer.start()

    again()


def keep_chdir():
    os.chdir("/")
    later(lambda: os.chdir("/tmp"))()


def leave_modules():
    """Leave files in the working directory that are called as modules of the standard library."""
    for name in ("statistics", "colorsys", "numbers", "secrets"):
        Path(f"{name}.py").write_text("fmean = max\n")


def leave_files():
    for place in (Path.cwd(), Path(tempfile.gettempdir())):
        (place / "suite.yaml.lock").write_text("")
        (place / "words.json").write_text("[]")


def clear_path():
    sys.path.clear()
    sys.path_importer_cache.clear()


def add_to_builtins():
    builtins.math = builtins.WEIGHTS = builtins._ = None


def use_comma():
    for name in ("POSIX", "C.UTF-8", "de_DE.UTF-8"):  # the last that this system has stays
        with suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)


OF_TORCH = (
    either("a TorchFunctionMode left entered", "decoder", "loop", enter_function_mode),
    either("a TorchDispatchMode left entered", "decoder", "end", enter_dispatch_mode),
    either("a global forward hook", "decoder", "loop", add_forward_hook),
    either("global hooks of a training", "model", "loop", add_backward_hook),
    either("a global hook of optimizers", "task", "loop", add_optimizer_hook),
    either("hooks of saved tensors left entered", "decoder", "loop", save_other_tensors),
    either("anomaly mode", "model", "setup", check_anomalies),
    either("dtype float64", "decoder", "loop", set_dtype("float64")),
    either("dtype bfloat16 in a metric", "metric", "end", set_dtype("bfloat16")),
    either("device meta", "probe", "loop", of_torch("set_default_device", "meta")),
    either("a device context left entered", "decoder", "loop", lambda: entered(__import__("torch").device("meta"))),
    either("autocast left entered", "decoder", "end", enter_autocast),
    either("gradients off", "metric", "loop", of_torch("set_grad_enabled", False)),
    either("inference mode left entered", "decoder", "loop", enter_inference_mode),
    either("deterministic algorithms", "task", "setup", of_torch("use_deterministic_algorithms", True)),
    either("float32 precision", "model", "building", of_torch("set_float32_matmul_precision", "medium")),
    either("three threads", "decoder", "loop", of_torch("set_num_threads", 3)),
    either("denormal numbers flushed", "decoder", "loop", of_torch("set_flush_denormal", True)),
    either("mkldnn off", "model", "setup", of_torch("_C._set_mkldnn_enabled", False)),
    either("checks of distributions off", "decoder", "loop",
           lambda: __import__("torch.distributions").distributions.Distribution.set_default_validate_args(False)),
    either("warnings of torch always", "decoder", "loop", of_torch("set_warn_always", True)),
)  # fmt: skip

OF_PYTHON = (
    either("all generators seeded", "decoder", "end", seed_everything),
    either("another state of numpy's generator", "metric", "loop", replace_generator_of_numpy),
    either("a thread that draws for ever", "decoder", "loop", keep_drawing),
    either("floating-point errors raise", "metric", "loop", raise_at_floats),
    either("printing options", "probe", "loop", print_differently),
    either("separators of the JSON encoder", "decoder", "loop", change_encoder),
    either("the JSON decoder", "metric", "end", change_decoder_of_json),
    either("copyreg", "decoder", "loop", change_copies),
    either("three decimal digits", "metric", "loop", lambda: setattr(decimal.getcontext(), "prec", 3)),
    either("decimal's default context", "decoder", "loop", lambda: setattr(decimal.DefaultContext, "prec", 3)),
    either("another locale", "metric", "loop", use_comma),
    either("warnings are errors", "metric", "loop", lambda: warnings.simplefilter("error")),
    either("warnings.filters cleared", "decoder", "loop", lambda: warnings.filters.clear()),
    either("logging off", "task", "setup", silence),
    either("no garbage is collected", "decoder", "loop", collect_never),
    either("a callback of the garbage collector", "metric", "end", collect_with_callback),
    either("recursion limit", "decoder", "end", lambda: sys.setrecursionlimit(45 + len(__import__("inspect").stack()))),
    either("switch interval", "decoder", "loop", lambda: sys.setswitchinterval(1.0)),
    either("digits of integers", "metric", "loop", lambda: sys.set_int_max_str_digits(640)),
    either("a trace function", "decoder", "loop", trace_all),
    either("a profile function", "metric", "loop", profile_all),
    either("an audit hook that refuses files", "decoder", "loop", audit),
    either("sys.stdout is None", "decoder", "loop", lambda: setattr(sys, "stdout", None)),
    either("sys.stderr closed", "metric", "loop", lambda: sys.stderr.close()),
    either("sys.path cleared", "task", "setup", clear_path),
    either("a finder that finds nothing", "decoder", "building", lambda: sys.meta_path.insert(0, OtherFinder)),
    either("sys.path_hooks cleared", "decoder", "loop", lambda: sys.path_hooks.clear()),
    either("names added to builtins", "decoder", "loop", add_to_builtins),
    either("hooks for exceptions", "model", "loop", other_tracebacks),
    either("an exit function that fails", "decoder", "loop", lambda: atexit.register(os._exit, 9)),
    either("policy of asyncio", "decoder", "loop",
           lambda: asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())),
    either("start method of multiprocessing", "model", "setup",
           lambda: multiprocessing.set_start_method("spawn", force=True)),
    either("timeout of sockets", "decoder", "loop", lambda: socket.setdefaulttimeout(0.001)),
    either("tempfile.tempdir", "decoder", "loop", lambda: setattr(tempfile, "tempdir", "/nowhere")),
    either("a thread that replaces code later", "decoder", "loop", later(replace_later)),
    either("a timer of Python that replaces code later", "decoder", "loop", set_later),
    either("a thread that changes data later", "metric", "end", later(multiply_later)),
    either("idle threads", "decoder", "loop", idle_threads),
    either("a timer that goes on", "metric", "loop", keep_timer),
)  # fmt: skip

OF_SYSTEM = (
    either("another working directory", "decoder", "loop", lambda: os.chdir("/")),
    either("a working directory changed later", "task", "loop", keep_chdir),
    either("a working directory that is gone", "metric", "loop", lose_folder),
    either("environment variables", "decoder", "loop", clear_variables),
    either("the time zone of the C library", "metric", "loop", change_time_zone),
    either("umask", "decoder", "loop", lambda: os.umask(0o777)),
    either("limit of the size of files", "metric", "end", limit("RLIMIT_FSIZE", 200)),
    either("limit of open files", "decoder", "end", limit("RLIMIT_NOFILE", 4)),
    either("a core limit", "decoder", "loop", limit("RLIMIT_CORE", 0)),
    either("one processor", "decoder", "loop",
           lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})),
    either("a niceness", "metric", "loop", lambda: os.nice(1)),
    either("signals ignored", "decoder", "loop", ignore_signals),
    either("an interval timer that interrupts", "decoder", "end", be_interrupted(signal.ITIMER_REAL, raise_interrupt)),
    either("files left behind", "decoder", "loop", leave_files),
    either("modules left in the working directory", "decoder", "loop", leave_modules, processes=True),
)  # fmt: skip

SETTINGS = (*OF_TORCH, *OF_PYTHON, *OF_SYSTEM)
